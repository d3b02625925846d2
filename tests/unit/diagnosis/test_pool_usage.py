"""The table of pool usages, row by row."""

from __future__ import annotations

from typing import Any

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
    credit_held=0,
    channels=4,
    channels_short=0,
    short=0.0,
    backpressured=0.0,
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
    usage = USAGE._replace(out_pool=out_pool, in_pool=in_pool, backpressured=0.05)
    assert usage.meaning is meaning
    said = usage.sentences()[0]
    assert said == f"out pool {out_pool:.0%} and in pool {in_pool:.0%} in use: {meaning.value}"


def test_a_task_that_never_waited_is_not_backpressured_however_full_its_pool() -> None:
    assert USAGE._replace(out_pool=1.0).meaning is PoolMeaning.NORMAL


def test_a_writer_that_waits_for_one_subpartition_is_backpressured_while_others_are_free() -> None:
    usage = USAGE._replace(out_pool=0.4, backpressured=0.97)
    assert usage.meaning is PoolMeaning.BACKPRESSURED
    assert usage.sentences()[0] == (
        "out pool 40% and in pool 10% in use, waited for an output buffer 97% of the time: "
        "backpressured by downstream, and has not passed it on yet"
    )


def test_one_hot_channel_does_not_hide_behind_those_that_have_credit() -> None:
    usage = USAGE._replace(credit_announced=9, backlog=4, channels_short=1, short=0.5)
    assert usage.meaning is PoolMeaning.BOTTLENECK
    assert usage.sentences()[-1] == (
        "credit of 9 announced and 1 unannounced buffers, of which 0 are held back, for a backlog "
        "of 4: the producers of 1 of 4 channels wait for credit"
    )
    assert usage._replace(short=0.4).meaning is PoolMeaning.NORMAL


def test_a_reader_of_local_channels_is_the_bottleneck_of_those_that_wait_for_it() -> None:
    """Its input has no buffers: the data for it waits in its producers' pools."""
    usage = USAGE._replace(in_pool=0.0, channels=0, waited_for=0.97)
    assert usage.meaning is PoolMeaning.BOTTLENECK
    (said,) = usage.sentences()
    assert said == (
        "out pool 10% and in pool 0% in use, a producer waited for it 97% of the time: passes "
        "backpressure on: this task is the bottleneck, or will be"
    )


def test_floating_buffers_in_use_and_exclusive_ones_free_are_skew() -> None:
    usage = USAGE._replace(floating=1.0)
    assert usage.is_skewed
    assert usage.sentences()[1] == (
        "floating buffers 100% and exclusive 10% in use: skew, a few channels hold most of the data"
    )
    assert not usage._replace(channels=1).is_skewed


def test_both_in_use_are_backpressure_of_all_channels() -> None:
    usage = USAGE._replace(floating=1.0, exclusive=0.9)
    assert not usage.is_skewed
    assert usage.sentences()[1] == (
        "floating buffers 100% and exclusive 90% in use: all channels are backpressured"
    )


def test_credit_for_the_backlog_is_normal_but_not_what_is_held_back() -> None:
    credit = "credit of 2 announced and 1 unannounced buffers, of which 0 are held back"
    assert USAGE.sentences()[-1] == f"{credit}, for a backlog of 2: normal"
    held = USAGE._replace(credit_announced=0, credit_unannounced=2, credit_held=2, backlog=0)
    assert held.sentences()[-1] == (
        "credit of 0 announced and 2 unannounced buffers, of which 2 are held back, for a backlog "
        "of 0: no producer may send until the reader has processed its buffers"
    )
    short = USAGE._replace(credit_held=1, backlog=2.5)
    assert short.sentences()[-1].endswith("for a backlog of 2.5: more data is on its way")


def test_a_source_has_no_credit_to_speak_of() -> None:
    assert len(USAGE._replace(channels=0).sentences()) == 1


def test_it_is_read_off_what_a_worker_reports() -> None:
    channels = channel(0, queued_buffers=3, backlog=7, exclusive_total=2, exclusive_free=1)
    totals = gate(channels, channel(1, "local", backlog=5), floating_pool=pool(size=8, in_use=4))
    usage = PoolUsage.of(subtask(gates=(totals,)))
    assert (usage.floating, usage.exclusive, usage.in_pool, usage.out_pool) == (0.5, 0.5, 0.5, 0.5)
    assert (usage.queued_in, usage.queued_out, usage.backlog) == (3, 2, 7)
    assert (usage.credit_announced, usage.credit_unannounced, usage.credit_held) == (1, 0, 0)
    assert (usage.channels, usage.channels_short, usage.short) == (1, 0, 0.0)
    assert usage.backpressured == 1.0


def test_credit_that_is_held_back_counts_as_used() -> None:
    free: dict[str, Any] = {"exclusive_total": 2, "exclusive_free": 2, "floating_free": 4}
    credit: dict[str, Any] = {
        "unannounced_credit": 6,
        "held_credit": 6,
        "backlog": 4,
        "is_short": True,
    }
    totals = gate(channel(0, **free, **credit), floating_pool=pool(size=8, in_use=4))
    usage = PoolUsage.of(subtask(gates=(totals,)))
    assert (usage.exclusive, usage.floating, usage.in_pool) == (1.0, 0.5, 0.6)
    assert (usage.credit_announced, usage.credit_held, usage.short) == (0, 6, 1.0)
    assert usage.sentences()[-1].endswith("the producers of 1 of 1 channels wait for credit")


def test_reports_are_averaged_with_the_time_that_the_task_waited() -> None:
    empty, full = USAGE._replace(in_pool=0.0), USAGE._replace(in_pool=1.0, short=1.0)
    mean = PoolUsage.average([empty, full, full], 0.25)
    assert [mean.in_pool, mean.short] == pytest.approx([2 / 3, 2 / 3])
    assert (mean.backpressured, mean.rounded().in_pool) == (0.25, 0.6667)
