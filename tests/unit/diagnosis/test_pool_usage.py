"""The table of pool usages, row by row."""

from __future__ import annotations

import pytest

from flinknet.diagnosis.pool_usage import PoolMeaning, PoolUsage
from tests.unit.metrics.samples import channel, gate, pool, subtask

USAGE = PoolUsage(
    in_pool=0.1,
    out_pool=0.1,
    floating=0.1,
    exclusive=0.1,
    queued_in=0,
    queued_out=0,
    backlog=2,
    credit_announced=2,
    credit_unannounced=1,
    has_inputs=True,
)


@pytest.mark.parametrize(
    ("out_pool", "in_pool", "meaning"),
    [
        (0.2, 0.2, PoolMeaning.NORMAL),
        (1.0, 0.2, PoolMeaning.BACKPRESSURED),
        (0.2, 1.0, PoolMeaning.BOTTLENECK),
        (1.2, 0.9, PoolMeaning.PASSED_ON),
    ],
)
def test_the_two_pools_say_where_the_trouble_is(
    out_pool: float, in_pool: float, meaning: PoolMeaning
) -> None:
    usage = USAGE._replace(out_pool=out_pool, in_pool=in_pool)
    assert usage.meaning is meaning
    said = usage.sentences()[0]
    assert said == f"out pool {out_pool:.0%} and in pool {in_pool:.0%} in use: {meaning.value}"


def test_floating_buffers_in_use_and_exclusive_ones_free_are_skew() -> None:
    usage = USAGE._replace(floating=1.0)
    assert usage.is_skewed
    assert usage.sentences()[1] == (
        "floating buffers 100% and exclusive 10% in use: skew, a few channels hold most of the data"
    )


def test_both_in_use_are_backpressure_of_all_channels() -> None:
    usage = USAGE._replace(floating=1.0, exclusive=0.9)
    assert not usage.is_skewed
    assert usage.sentences()[1] == (
        "floating buffers 100% and exclusive 90% in use: all channels are backpressured"
    )


def test_credit_for_the_backlog_is_normal() -> None:
    assert USAGE.has_credit
    assert USAGE.sentences()[-1] == (
        "credit of 2 announced and 1 unannounced buffers for a backlog of 2: normal"
    )
    short = USAGE._replace(backlog=4)
    assert not short.has_credit
    assert short.sentences()[-1].endswith("for a backlog of 4: its producers wait for credit")


def test_a_source_has_no_credit_to_speak_of() -> None:
    assert len(USAGE._replace(has_inputs=False).sentences()) == 1


def test_it_is_read_off_what_a_worker_reports() -> None:
    channels = channel(0, queued_buffers=3, backlog=7, exclusive_total=2, exclusive_free=1)
    totals = gate(channels, floating_pool=pool(size=8, in_use=4))
    usage = PoolUsage.of(subtask(gates=(totals,)))
    assert (usage.floating, usage.exclusive, usage.in_pool, usage.out_pool) == (0.5, 0.5, 0.5, 0.5)
    assert (usage.queued_in, usage.queued_out, usage.backlog) == (3, 2, 7)
    assert (usage.credit_announced, usage.credit_unannounced) == (1, 0)
    assert usage.has_inputs
    assert not PoolUsage.of(subtask(gates=())).has_inputs
