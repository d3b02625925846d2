"""The record of an attempt: counters, results, and the data dropped at its end."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.cluster.control.messages import Register
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord, RegionRestart
from flinknet.cluster.coordinator.jobs.job_execution import JobExecution
from flinknet.cluster.coordinator.jobs.pipelined_region import pipelined_regions
from flinknet.cluster.coordinator.jobs.placement import Placement
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRegistry
from flinknet.metrics.io_metrics import IO_METRICS
from tests.unit.cluster.graphs import keyed_graph

SHAPE = keyed_graph()
SOURCE, SINK, OTHER_SINK = (0, 0), (1, 0), (1, 1)
COUNTERS = dict(zip(IO_METRICS, range(1, 8), strict=True))


def result(collected: bytes = b"") -> dict[str, Any]:
    return {**COUNTERS, "metrics": {}, "collected": collected, "committables": b"prepared"}


@pytest.fixture
def attempt() -> AttemptRecord:
    registry = WorkerRegistry(
        now=0.0,
        heartbeat_interval_s=1.0,
        heartbeat_timeout_s=10.0,
        stuck_timeout_s=0.0,
        lost_retained=9,
    )
    registry.register(Register("worker-0", 1, "127.0.0.1:1000", 4), 0.0)
    placement = Placement.of_job(SHAPE, "job", 3, registry.registered())
    execution = JobExecution(
        "job",
        3,
        pipelined_regions(SHAPE),
        placement.assignment(),
        cause_grace_s=1.0,
        cancel_timeout_s=5.0,
    )
    execution.start()
    execution.opened("worker-0", 3)
    return AttemptRecord(execution, placement, begun_at=1.0)


def records_in(attempt: AttemptRecord) -> list[int]:
    return [vertex["records_in"] for vertex in attempt.vertices(SHAPE)]


def test_progress_counts_until_the_result_or_the_end(attempt: AttemptRecord) -> None:
    attempt.note_progress([[*SINK, 4, *range(6)], [*OTHER_SINK, 5, *range(6)]], 3)
    assert records_in(attempt) == [0, 9]
    attempt.note_result(SINK, result())
    attempt.note_progress([[*SINK, 70, *range(6)]], 3)
    assert records_in(attempt) == [0, 6]
    attempt.end(now=2.0)
    attempt.note_progress([[*OTHER_SINK, 70, *range(6)]], 3)
    assert records_in(attempt) == [0, 6]


@pytest.mark.parametrize("row", [1, [0], [0, 0, *range(6)], [0, 0, "1", *range(6)]])
def test_malformed_progress_is_refused(attempt: AttemptRecord, row: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        attempt.note_progress([row], 3)


def test_results_are_one_row_per_subtask_that_has_one(attempt: AttemptRecord) -> None:
    attempt.note_result(OTHER_SINK, result(b"two"))
    attempt.note_result(SOURCE, result(b"one"))
    assert [(row["vertex"], row["index"], row["collected"]) for row in attempt.result()] == [
        (0, 0, b"one"),
        (1, 1, b"two"),
    ]
    assert attempt.prepared() == [b"prepared", b"prepared"]
    assert attempt.collected_bytes == 6
    attempt.forget_collected()
    assert attempt.collected_bytes == 0


@pytest.mark.parametrize(("finishes", "collected_bytes"), [(True, 9), (False, 0)])
def test_only_a_finished_attempt_keeps_its_collected_records(
    attempt: AttemptRecord, finishes: bool, collected_bytes: int
) -> None:
    for subtask in (SOURCE, SINK, OTHER_SINK):
        attempt.note_result(subtask, result(b"abc"))
        if finishes:
            attempt.execution.finished(subtask, now=2.0)
    attempt.execution.cancel(now=3.0)
    attempt.execution.released("worker-0", 3, [], now=3.0)
    attempt.end(now=3.0)
    assert attempt.collected_bytes == collected_bytes
    assert attempt.prepared() == []
    status = attempt.status(now=9.0)
    assert (status["attempt"], status["seconds"]) == (3, 2.0)
    state = "FINISHED" if finishes else "CANCELED"
    assert status["state"] == state
    assert attempt.story(now=9.0) == {
        **status,
        "regions": {"0-0": {state: 3}},
        "region_attempts": {"0-0": 3},
        "region_failures": [],
    }


def test_progress_of_restarted_regions_does_not_count(attempt: AttemptRecord) -> None:
    for subtask in (SINK, OTHER_SINK):
        attempt.note_result(subtask, result(b"made"))
    attempt.restored_finished = frozenset({SOURCE, OTHER_SINK})
    point = RestorePoint("checkpoint-1-attempt-3", frozenset({SOURCE, SINK}))
    restart = RegionRestart(4, frozenset({SINK, OTHER_SINK}), 7.0, point)
    attempt.restart(restart, attempt.placement)
    assert not attempt.results
    assert attempt.collected_bytes == 0
    assert attempt.restored_finished == {SOURCE, SINK}
    assert (attempt.number, attempt.last_number) == (3, 4)
    assert [attempt.has(number) for number in (2, 3, 4, 5)] == [False, True, True, False]
    assert attempt.restored_for(4) == point
    assert attempt.restored_for(3).directory == ""
    attempt.execution.redeploy(frozenset(), 4, {"worker-0": [SINK, OTHER_SINK]})
    assert [attempt.begun_at_of(one) for one in (SOURCE, SINK)] == [1.0, 7.0]
    for number in (5, 6):
        attempt.restart(RegionRestart(number, frozenset({SINK}), 8.0, point), attempt.placement)
    assert [one.number for one in attempt.restarts] == [4, 6], "of 5 nothing runs any more"
