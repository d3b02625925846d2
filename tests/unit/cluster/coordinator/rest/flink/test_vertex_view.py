"""A vertex in Flink's formats: its subtasks, and their backpressure."""

from __future__ import annotations

import pytest

from flinknet.cluster.coordinator.rest.flink.job_view import vertex_id
from flinknet.cluster.coordinator.rest.flink.vertex_view import (
    find_vertex,
    subtasks_of,
    vertex_backpressure,
    vertex_details,
    vertex_task_managers,
    vertex_times,
)
from flinknet.metrics.io_metrics import IOMetrics
from tests.unit.cluster.coordinator.rest.flink.jobs import (
    ms,
    open_all,
    release,
    result,
    submitted,
)
from tests.unit.cluster.coordinator.rest.flink.reports import reported

FIRST, SECOND = (1, 0), (1, 1)


def test_a_vertex_is_found_by_its_id() -> None:
    _, record = submitted()
    for vertex in record.submission.shape.vertices:
        assert find_vertex(record, vertex_id(vertex)) is vertex
    assert find_vertex(record, "0" * 32) is None


def test_details_tell_of_each_subtask() -> None:
    dispatcher, record = submitted(1.0)
    workers = {worker.worker_id: worker for worker in dispatcher.workers.workers()}
    vertex = record.submission.shape.vertices[1]
    first, _ = vertex_details(record, vertex, workers, 1.5)["subtasks"]
    assert (first["status"], first["status-duration"]["DEPLOYING"]) == ("DEPLOYING", 500)
    assert first["status-duration"]["RUNNING"] == -1
    open_all(dispatcher, record, 2.0)
    dispatcher.take_result(record, record.present, FIRST, result(10), 4.0)
    told = vertex_details(record, vertex, workers, 5.0)
    assert (told["id"], told["parallelism"], told["now"]) == (vertex_id(vertex), 2, ms(5.0))
    first, second = told["subtasks"]
    assert (first["status"], first["end-time"], first["duration"]) == ("FINISHED", ms(4.0), 3000)
    assert (second["status"], second["end-time"], second["duration"]) == ("RUNNING", -1, 4000)
    assert [one["status-duration"]["RUNNING"] for one in (first, second)] == [2000, 3000]
    assert [one["status-duration"]["DEPLOYING"] for one in (first, second)] == [1000, 1000]
    assert first["start_time"] == first["start-time"] == ms(1.0)
    assert (first["host"], first["endpoint"]) == ("127.0.0.1", "127.0.0.1:1000")
    assert (first["taskmanager-id"], first["attempt"]) == ("worker-0", 0)
    assert (first["metrics"]["read-records"], first["metrics"]["read-records-complete"]) == (
        10,
        True,
    )
    assert (second["metrics"]["read-records"], second["metrics"]["read-records-complete"]) == (
        0,
        False,
    )
    assert told["aggregated"]["status-duration"]["RUNNING"]["sum"] == 5000


def test_a_worker_of_an_earlier_coordinator_has_no_address() -> None:
    _, record = submitted()
    vertex = record.submission.shape.vertices[1]
    first, _ = vertex_details(record, vertex, {}, 5.0)["subtasks"]
    assert first["host"] == first["endpoint"] == "(unassigned)"


def test_a_subtask_that_ended_before_all_ran_was_deployed_until_then() -> None:
    dispatcher, record = submitted(1.0)
    dispatcher.cancel(record, 2.0)
    release(dispatcher, record, 3.0)
    vertex = record.submission.shape.vertices[0]
    (only,) = vertex_details(record, vertex, {}, 9.0)["subtasks"]
    assert only["status"] == "CANCELED"
    assert (only["status-duration"]["DEPLOYING"], only["duration"]) == (2000, 2000)


@pytest.mark.parametrize(
    ("numbers", "median", "p95"), [((1, 4), 2, 4), ((7, 7), 7, 7)], ids=["different", "equal"]
)
def test_numbers_are_aggregated_over_subtasks(
    numbers: tuple[int, int], median: int, p95: int
) -> None:
    _, record = submitted()
    for subtask, number in zip((FIRST, SECOND), numbers, strict=True):
        record.present.counters[subtask] = IOMetrics(number, 0, 0, 0, 0, 0, 0)
    vertex = record.submission.shape.vertices[1]
    aggregated = vertex_details(record, vertex, {}, 5.0)["aggregated"]["metrics"]
    assert "read-records-complete" not in aggregated
    assert aggregated["read-records"] == {
        "min": min(numbers),
        "max": max(numbers),
        "avg": sum(numbers) // 2,
        "sum": sum(numbers),
        "median": median,
        "p25": min(numbers),
        "p75": max(numbers),
        "p95": p95,
    }


def test_only_the_present_attempt_is_shown() -> None:
    _, record = submitted()
    vertex = record.submission.shape.vertices[1]
    mine, other = reported(1), reported(0)
    strangers = [reported(0, vertex=0), reported(0, attempt=1)]
    assert subtasks_of(record, vertex, [mine, *strangers, other]) == [other, mine]


def test_a_vertex_is_as_backpressured_as_its_worst_subtask() -> None:
    _, record = submitted()
    assert vertex_backpressure(record, [], 1.0)["status"] == "deprecated"
    subtasks = [
        reported(0, backpressured_ms_per_s=600.0),
        reported(1, backpressured_ms_per_s=100.0),
        reported(2, backpressured_ms_per_s=200.0),
    ]
    told = vertex_backpressure(record, subtasks, 2.0)
    assert (told["status"], told["backpressureLevel"]) == ("ok", "high")
    assert told["end-timestamp"] == ms(2.0)
    assert [one["backpressure-level"] for one in told["subtasks"]] == ["high", "ok", "low"]
    first = told["subtasks"][0]
    assert (first["ratio"], first["idleRatio"], first["busyRatio"]) == (0.6, 0.05, 0.35)


def test_subtasks_are_grouped_by_worker() -> None:
    dispatcher, record = submitted(1.0)
    workers = {worker.worker_id: worker for worker in dispatcher.workers.workers()}
    open_all(dispatcher, record, 2.0)
    dispatcher.take_result(record, record.present, FIRST, result(10), 4.0)
    vertex = record.submission.shape.vertices[1]
    (row,) = vertex_task_managers(record, vertex, workers, 5.0)["taskmanagers"]
    assert (row["taskmanager-id"], row["endpoint"]) == ("worker-0", "127.0.0.1:1000")
    assert (row["status"], row["end-time"], row["duration"]) == ("RUNNING", -1, 4000)
    assert (row["status-counts"]["RUNNING"], row["status-counts"]["FINISHED"]) == (1, 1)
    assert row["metrics"]["read-records"] == 10
    assert row["aggregated"]["metrics"]["read-records"]["max"] == 10


def test_the_times_of_a_subtask_are_when_it_came_to_each_state() -> None:
    dispatcher, record = submitted(1.0)
    vertex = record.submission.shape.vertices[1]

    def reached(now: float) -> list[dict[str, int]]:
        rows = vertex_times(record, vertex, {}, now)["subtasks"]
        return [{state: at for state, at in row["timestamps"].items() if at} for row in rows]

    assert reached(1.5) == [{"DEPLOYING": ms(1.0)}] * 2
    open_all(dispatcher, record, 2.0)
    dispatcher.take_result(record, record.present, FIRST, result(10), 4.0)
    runs = {"DEPLOYING": ms(1.0), "RUNNING": ms(2.0)}
    assert reached(5.0) == [{**runs, "FINISHED": ms(4.0)}, runs]
