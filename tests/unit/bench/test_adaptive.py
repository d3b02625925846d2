"""A run of the family ``adaptive``: its combined accounts, and its setup."""

from __future__ import annotations

import pickle
from io import StringIO

import pytest
from rich.console import Console

from bench.adaptive.family import AdaptiveFamily, Outcome, make_adaptive_row, outcome
from bench.adaptive.setting import DEBLOAT, RECORDS, SLOW_RECORD_S, VARIANTS, Window
from bench.harness.case import Tally, record_bytes
from bench.harness.process import Clocks
from flinknet import NetworkConfig

WINDOWS = [
    Window(1_100, Clocks(2.0, 1.0)),
    Window(100, Clocks(2.0, 0.25)),
    Window(900, Clocks(1.5, 0.75)),
]
SENT, SLOW, FAST = Tally(1_500, 70), Tally(150, 20), Tally(1_350, 50)


def test_each_consumer_has_its_own_clock_and_all_three_processes_cost() -> None:
    made = outcome(WINDOWS, [SENT, SLOW, FAST])
    assert made == Outcome(600.0, 50.0, 2_000.0, verified=True)


@pytest.mark.parametrize("fast", [FAST._replace(records=1_349), FAST._replace(checksum=51)])
def test_what_is_missing_or_changed_is_not_verified(fast: Tally) -> None:
    assert not outcome(WINDOWS, [SENT, SLOW, fast]).verified


def test_variants_differ_in_the_partitioner_and_in_debloating_alone() -> None:
    settings = pickle.loads(pickle.dumps(VARIANTS))
    made = [(type(each.make_partitioner()).__name__, each.config) for each in settings.values()]
    assert made == [
        ("RebalancePartitioner", NetworkConfig()),
        ("AdaptiveRebalancePartitioner", NetworkConfig()),
        ("AdaptiveRebalancePartitioner", NetworkConfig(debloat=DEBLOAT)),
    ]


def test_a_quota_of_debloated_buffers_has_fewer_bytes_than_one_for_the_fast_consumer() -> None:
    """A partitioner that compares bytes would otherwise never take the slow consumer for the less
    loaded one."""
    config = NetworkConfig()
    size = record_bytes(RECORDS.make_block())
    on_their_way = config.buffers_per_channel + config.floating_buffers_per_gate
    announced = size / SLOW_RECORD_S * DEBLOAT.target_ms / 1000 / on_their_way
    assert announced == pytest.approx(size)
    assert config.buffers_per_subpartition_max * announced * 3 < config.segment_bytes


def test_the_table_shows_both_consumers() -> None:
    outcomes = [Outcome(rate, rate / 1_000, 5.0, verified=True) for rate in (2e5, 1e5, 3e5)]
    row = make_adaptive_row("adaptive, debloat", outcomes, {"seconds": 1.0})
    assert (row.records_per_s, row.parameters["slow_records_per_s"]) == (2e5, 200.0)
    assert (row.parameters["seconds"], row.parameters["debloat"]["target_ms"]) == (1.0, 50)
    printed = StringIO()
    AdaptiveFamily().print([row], Console(file=printed, width=110))
    (line,) = (line for line in printed.getvalue().splitlines() if "adaptive, debloat" in line)
    assert line.split()[-9:] == ["200", "k", "100", "k", "300", "k", "200", "5", "yes"]
