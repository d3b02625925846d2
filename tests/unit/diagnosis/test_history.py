"""The parts of reports that are kept when they are older."""

from __future__ import annotations

import pytest

from flinknet.diagnosis.history import REFRESHES, History
from flinknet.metrics.garbage_totals import GarbageTotals, GenerationTotals
from flinknet.metrics.io_metrics import IOMetrics
from flinknet.metrics.worker_statistics import HeldUp, WorkerStatistics
from tests.unit.metrics.samples import network, partition, subtask, times

JOB = "0815"


def report(second: float, *, queued: int = 0, attempt: int = 0) -> WorkerStatistics:
    """Return the report of a subtask that is busy half of the time, and waits otherwise, since
    0."""
    counters = IOMetrics(int(100 * second), int(200 * second), 0, 0, 0, 0, 0)
    spent = times(
        accumulated_idle_time_ms=0.0,
        accumulated_busy_time_ms=500 * second,
        accumulated_backpressured_time_ms=500 * second,
    )
    parts = (partition({"queued_buffers": queued}, {}),)
    task = subtask(times=spent, io_metrics=counters, attempt=attempt, partitions=parts)
    held_up = (HeldUp("Map (1/2)", second / 10, "here"),)
    garbage = GarbageTotals((GenerationTotals(0, int(second), second / 20, 0),))
    return WorkerStatistics.of(
        network(), [task], event_loop_lag_ms=0.0, held_up=held_up, garbage=garbage
    )


def test_the_first_report_tells_of_all_the_time_there_was() -> None:
    history = History(1.0)
    history.take("worker-0", report(0.5), 100.0)
    reading = history.tasks(JOB, 0)[1, 0]
    assert (reading.busy_s, reading.backpressured_s, reading.idle_s) == (0.25, 0.25, 0.0)
    assert (reading.records_in, reading.records_out, reading.worker_id) == (50, 100, "worker-0")


def test_later_only_the_last_intervals_count() -> None:
    history = History(1.0)
    for second in range(1, REFRESHES + 6):
        history.take("worker-0", report(second), 100.0 + second)
    reading = history.tasks(JOB, 0)[1, 0]
    assert reading.seconds == REFRESHES
    assert reading.records_in == 100 * REFRESHES
    (held_up,) = history.held_up("worker-0", 2.0 * REFRESHES)
    assert (held_up.task, held_up.stack) == ("Map (1/2)", "here")
    assert held_up.seconds == pytest.approx(1.0)


def test_a_shorter_while_may_be_looked_at() -> None:
    history = History(1.0)
    for second in range(1, 4):
        history.take("worker-0", report(second), 100.0 + second)
    assert history.tasks(JOB, 0, 1)[1, 0].seconds == 1.0
    assert history.tasks(JOB, 0, 2)[1, 0].records_in == 200
    assert history.tasks(JOB, 0, 3)[1, 0].seconds == 3.0


def test_bytes_are_told_by_gate() -> None:
    history = History(1.0)
    history.take("worker-0", report(1), 1.0)
    assert history.tasks(JOB, 0)[1, 0].gate_bytes == (1_100,)
    history.take("worker-0", report(2), 2.0)
    assert history.tasks(JOB, 0, 1)[1, 0].gate_bytes == (0,)


def test_who_has_held_up_a_loop_before_a_job_began_is_not_in_it() -> None:
    history = History(1.0)
    for second in range(1, 4):
        history.take("worker-0", report(second), 100.0 + second)
    ((_, seconds, _),) = history.held_up("worker-0", 1.0)
    assert seconds == pytest.approx(0.1)
    ((_, seconds, _),) = history.held_up("worker-0", 60.0)
    assert seconds == pytest.approx(0.3)
    history.take("worker-0", report(3), 104.0)
    assert history.held_up("worker-0", 0.5) == ()


def test_garbage_is_told_of_the_same_time() -> None:
    history = History(1.0)
    assert history.garbage("worker-0", 1.0) == GarbageTotals()
    for second in range(1, 4):
        history.take("worker-0", report(second), 100.0 + second)
    assert history.garbage("worker-0", 1.0).seconds == pytest.approx(0.05)
    assert history.garbage("worker-0", 2.0).collections == 2
    assert history.garbage("worker-0", 60.0).seconds == pytest.approx(0.15)


def test_who_is_asked_often_is_looked_at_for_as_long() -> None:
    history = History(1.0)
    for tick in range(10, 10 * (REFRESHES + 6)):
        history.take("worker-0", report(tick / 10), tick / 10)
    assert 0.7 * REFRESHES <= history.tasks(JOB, 0)[1, 0].seconds <= REFRESHES + 1


def test_queues_are_averaged() -> None:
    history = History(1.0)
    for second, queued in ((1, 8), (2, 0), (3, 4)):
        history.take("worker-0", report(second, queued=queued), second)
    assert history.tasks(JOB, 0)[1, 0].queues == {(0, 0): 4.0}


def test_the_usage_of_pools_is_averaged_over_the_same_stretch() -> None:
    history = History(1.0)
    for second, queued in ((1, 8), (2, 0), (3, 4)):
        history.take("worker-0", report(second, queued=queued), second)
    assert history.tasks(JOB, 0)[1, 0].usage.queued_out == 4.0
    assert history.tasks(JOB, 0, 2)[1, 0].usage.queued_out == 2.0
    assert history.tasks(JOB, 0)[1, 0].usage.backpressured == 0.5


def test_a_subtask_that_is_reported_no_more_is_forgotten() -> None:
    history = History(1.0)
    history.take("worker-0", report(1), 1.0)
    history.take("worker-0", report(1, attempt=1), 2.0)
    assert history.tasks(JOB, 0) == {}
    assert set(history.tasks(JOB, 1)) == {(1, 0)}
    assert history.tasks("4711", 1) == {}


def test_a_lost_worker_is_forgotten() -> None:
    history = History(1.0)
    history.take("worker-0", report(1), 1.0)
    history.forget("worker-0")
    history.forget("worker-1")
    assert (history.tasks(JOB, 0), history.held_up("worker-0", 9.0)) == ({}, ())
