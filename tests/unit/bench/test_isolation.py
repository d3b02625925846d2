"""The combined accounts of a run of the family ``isolation``."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from bench.harness.process import Clocks
from bench.harness.row import Row
from bench.isolation.family import IsolationFamily, make_isolation_row, to_run_without
from bench.isolation.setting import OneMore, Received, Sent, Setting, Window
from bench.isolation.trial import Outcome, outcome

SETTING = Setting(others=2, one_more="stopped", flow_control="credit")
WINDOW = Window(
    records=600, time=Clocks(2.0, 0.5), begin_ns=10_000, end_ns=20_000, through_ns=21_000
)
SENT = Sent([500, 400], barriers_ns=[9_000, 11_000, 19_000])
ARRIVED = [
    (9_000, 10_500),
    (9_000, 10_600),
    (11_000, 12_000),
    (11_000, 13_000),
    (19_000, 20_500),
    (19_000, 21_500),
]
RECEIVED = Received([500, 400], True, ARRIVED)


def test_only_barriers_sent_in_the_measured_time_count_if_they_came_before_the_end() -> None:
    made = outcome(SETTING, Clocks(2.0, 1.5), WINDOW, SENT, RECEIVED)
    assert (made.records, made.seconds, made.cpu_seconds) == (600, 2.0, 2.0)
    assert made.barriers_sent == 4
    assert sorted(made.travels_us) == [1.0, 1.5, 2.0]
    assert made.verified


@pytest.mark.parametrize(
    "received",
    [
        RECEIVED._replace(records=[500, 399]),
        RECEIVED._replace(in_order=False),
        RECEIVED._replace(barriers_ns=ARRIVED[:-1]),
    ],
)
def test_what_is_missing_or_out_of_order_is_not_verified(received: Received) -> None:
    assert not outcome(SETTING, Clocks(2.0, 1.5), WINDOW, SENT, received).verified


def test_the_one_more_is_the_last_channel() -> None:
    assert [replace(SETTING, one_more=what).channels for what in ("without", "running")] == [2, 3]


def row(one_more: OneMore, *outcomes: Outcome) -> Row:
    return make_isolation_row("channels-3", replace(SETTING, one_more=one_more), outcomes, {})


WITHOUT = row(
    "without",
    Outcome(1_000, 1.0, 1.0, 2, [3_000.0, 1_000.0], True),
    Outcome(3_000, 1.0, 1.0, 2, [2_000.0], True),
)
STOPPED = row("stopped", Outcome(0, 1.0, 0.1, 4, [], True))


def test_a_row_has_the_percentiles_of_all_runs() -> None:
    assert WITHOUT.records_per_s == 2_000
    assert WITHOUT.latency_us == {"p50": 2_000.0, "p99": 3_000.0, "max": 3_000.0}
    assert WITHOUT.parameters["barriers_sent"] == 4
    assert WITHOUT.parameters["barriers_arrived"] == 3


def test_others_that_stand_still_are_a_row_like_any_other() -> None:
    assert STOPPED.records_per_s == 0.0
    assert STOPPED.latency_us is None
    assert to_run_without([WITHOUT, STOPPED], STOPPED) == 0.0
    assert to_run_without([WITHOUT, STOPPED], WITHOUT) is None
    assert to_run_without([STOPPED], STOPPED) is None


def test_the_table_says_what_never_arrived() -> None:
    printed = StringIO()
    IsolationFamily().print([WITHOUT, STOPPED], Console(file=printed, width=110))
    lines = [line.split() for line in printed.getvalue().splitlines() if "credit on" in line]
    assert lines[0][-5:] == ["3", "3", "of", "4", "yes"]
    assert lines[1][-9:] == ["0.00", "0.0%", "never", "never", "never", "0", "of", "4", "yes"]
