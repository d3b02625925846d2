"""Shares and rates of a stretch of time."""

from __future__ import annotations

import pytest

from tests.unit.diagnosis.jobs import Job, pipeline


def test_times_add_up_to_the_stretch() -> None:
    reading = Job(pipeline(1, 1)).task(1, busy=0.25, waits=0.55).readings().tasks[1, 0]
    assert reading.seconds == pytest.approx(10.0)
    assert reading.share(reading.busy_s) == pytest.approx(0.25)
    assert reading.per_second(reading.records_in) == pytest.approx(100.0)
    assert reading.is_waiting


def test_of_no_time_there_is_no_share_and_no_rate() -> None:
    reading = Job(pipeline(1)).task(0).readings().tasks[0, 0]
    nothing = reading._replace(idle_s=0.0, busy_s=0.0, backpressured_s=0.0)
    assert (nothing.share(0.0), nothing.per_second(5)) == (0.0, 0.0)


def test_a_loop_is_held_up_by_all_who_do() -> None:
    worker = Job(pipeline(1)).held_up("worker-0", "Source (1/1)", 0.5).readings().workers
    assert worker["worker-0"].held_up_s == 5.0
