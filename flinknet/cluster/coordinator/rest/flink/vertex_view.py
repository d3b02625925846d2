"""A vertex in the formats of Flink's REST API: its subtasks and their backpressure.

Views are plain JSON types. They describe the present attempt, with subtasks ordered by index.
Subtasks are deployed together, and start to run once all of them are deployed. -1 stands for a
state that does not exist here or has not been reached.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.rest.flink.job_view import (
    end_ms,
    span,
    total_io_metrics,
    vertex_id,
)
from flinknet.cluster.coordinator.rest.flink.states import (
    EXECUTION_STATES,
    aggregate_state,
    task_states,
)
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord
from flinknet.graph.graph import JobVertex
from flinknet.metrics.task_times import BackpressureLevel, TaskTimesStatistics
from flinknet.metrics.worker_statistics import SubtaskTotals

__all__ = [
    "find_vertex",
    "level_of",
    "subtasks_of",
    "vertex_backpressure",
    "vertex_details",
    "vertex_task_managers",
    "vertex_times",
]

Workers = Mapping[str, WorkerRecord]
"""The known workers, by id."""

_PERCENTILES = {"median": 0.5, "p25": 0.25, "p75": 0.75, "p95": 0.95}

_LEVELS = list(BackpressureLevel)


def find_vertex(record: JobRecord, vid: str) -> JobVertex | None:
    """Return the vertex with this id, or None."""
    return next((one for one in record.submission.shape.vertices if vertex_id(one) == vid), None)


def subtasks_of(
    record: JobRecord, vertex: JobVertex, reported: Iterable[SubtaskTotals]
) -> list[SubtaskTotals]:
    """Return the reports about a vertex in the present attempt, out of all reports of the job."""
    numbers = [record.execution.number_of((vertex.id, i)) for i in range(vertex.parallelism)]
    found = [
        one
        for one in reported
        if one.vertex == vertex.id and one.attempt == numbers[one.subtask_index]
    ]
    return sorted(found, key=lambda one: one.subtask_index)


def vertex_details(
    record: JobRecord, vertex: JobVertex, workers: Workers, now: float
) -> dict[str, Any]:
    """Return Flink's JobVertexDetailsInfo."""
    subtasks = _subtasks(record, vertex, workers, now)
    return {
        "id": vertex_id(vertex),
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "maxParallelism": vertex.max_parallelism,
        "now": record.wall_ms(now),
        "subtasks": subtasks,
        "aggregated": _all_aggregated(subtasks),
    }


def vertex_task_managers(
    record: JobRecord, vertex: JobVertex, workers: Workers, now: float
) -> dict[str, Any]:
    """Return Flink's JobVertexTaskManagersInfo: the subtasks by worker."""
    by_worker: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for subtask in _subtasks(record, vertex, workers, now):
        by_worker[subtask["taskmanager-id"]].append(subtask)
    rows = []
    for worker_id, subtasks in by_worker.items():
        keys = [(vertex.id, subtask["subtask"]) for subtask in subtasks]
        counts = Counter(subtask["status"] for subtask in subtasks)
        start, end = record.wall_ms(record.present.begun_at), end_ms(record, keys)
        rows.append(
            {
                "host": subtasks[0]["host"],
                "endpoint": subtasks[0]["endpoint"],
                "status": aggregate_state(counts),
                **span(start, end, record.wall_ms(now)),
                "metrics": total_io_metrics(record, keys),
                "status-counts": {state: counts[state] for state in EXECUTION_STATES},
                "taskmanager-id": worker_id,
                "aggregated": _all_aggregated(subtasks),
            }
        )
    now_ms = record.wall_ms(now)
    return {"id": vertex_id(vertex), "name": vertex.name, "now": now_ms, "taskmanagers": rows}


def vertex_times(
    record: JobRecord, vertex: JobVertex, workers: Workers, now: float
) -> dict[str, Any]:
    """Return Flink's SubtasksTimesInfo: when each subtask entered each state, 0 for never."""
    rows = []
    for subtask in _subtasks(record, vertex, workers, now):
        start, end = subtask["start-time"], subtask["end-time"]
        times = dict.fromkeys(EXECUTION_STATES, 0) | {"DEPLOYING": start}
        if subtask["status-duration"]["RUNNING"] >= 0:
            times["RUNNING"] = start + subtask["status-duration"]["DEPLOYING"]
        if end >= 0:
            times[subtask["status"]] = end
        told = {name: subtask[name] for name in ("subtask", "host", "endpoint", "duration")}
        rows.append({**told, "timestamps": times})
    now_ms = record.wall_ms(now)
    return {"id": vertex_id(vertex), "name": vertex.name, "now": now_ms, "subtasks": rows}


def _subtasks(
    record: JobRecord, vertex: JobVertex, workers: Workers, now: float
) -> list[dict[str, Any]]:
    """Return Flink's SubtaskExecutionAttemptDetailsInfo of each subtask."""
    states = task_states(record)
    now_ms = record.wall_ms(now)
    subtasks = []
    for index in range(vertex.parallelism):
        key = vertex.id, index
        worker_id = record.execution.worker_of(key)
        address = workers[worker_id].address if worker_id in workers else "(unassigned)"
        start, end = record.wall_ms(record.present.begun_at_of(key)), end_ms(record, [key])
        subtasks.append(
            {
                "subtask": index,
                "status": states[key],
                "attempt": record.execution.number_of(key),
                "host": address.rpartition(":")[0] or address,
                "endpoint": address,
                **span(start, end, now_ms),
                "metrics": total_io_metrics(record, [key]),
                "taskmanager-id": worker_id,
                "status-duration": _durations(record, key, end, now_ms),
                "start_time": start,
            }
        )
    return subtasks


def vertex_backpressure(
    record: JobRecord, subtasks: Sequence[SubtaskTotals], now: float
) -> dict[str, Any]:
    """Return Flink's JobVertexBackPressureInfo from the reports of subtasks.

    ``deprecated`` is Flink's status for no data yet.
    """
    if not subtasks:
        return {"status": "deprecated", "subtasks": None} | level_of(None) | {"end-timestamp": None}
    levels = [one.times.backpressure_level for one in subtasks]
    return {
        "status": "ok",
        **level_of(max(levels, key=_LEVELS.index)),
        "end-timestamp": record.wall_ms(now),
        "subtasks": [
            {
                "subtask": one.subtask_index,
                "attempt-number": one.attempt,
                **level_of(level),
                **_ratios(one.times),
            }
            for one, level in zip(subtasks, levels, strict=True)
        ],
    }


def level_of(level: BackpressureLevel | None) -> dict[str, str | None]:
    """Return a level under both names that Flink's answers have used."""
    name = None if level is None else level.name.lower()
    return {"backpressure-level": name, "backpressureLevel": name}


def _ratios(times: TaskTimesStatistics) -> dict[str, float]:
    return {
        "ratio": times.backpressured_time_ms_per_second / 1000,
        "idleRatio": times.idle_time_ms_per_second / 1000,
        "busyRatio": times.busy_time_ms_per_second / 1000,
    }


def _durations(record: JobRecord, key: SubtaskKey, end: int, now_ms: int) -> dict[str, int]:
    """Return the time that a subtask spent in each state so far, in milliseconds."""
    begun = record.present.begun_at_of(key)
    runs_since = record.state_since.get(JobState.RUNNING, -1.0)
    start = record.wall_ms(begun)
    runs = record.wall_ms(runs_since) if runs_since >= begun else None
    until = now_ms if end == -1 else end
    deploys_until = until if runs is None else min(runs, until)
    return {
        "CREATED": -1,
        "SCHEDULED": -1,
        "DEPLOYING": deploys_until - start,
        "INITIALIZING": -1,
        "RUNNING": -1 if runs is None else max(0, until - runs),
    }


def _all_aggregated(subtasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        name: _aggregated([subtask[name] for subtask in subtasks])
        for name in ("metrics", "status-duration")
    }


def _aggregated(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Aggregate each number over all subtasks (Flink's AggregatedTaskDetailsInfo)."""
    names = [name for name, value in rows[0].items() if not isinstance(value, bool)]
    return {name: _statistics(sorted(int(row[name]) for row in rows)) for name in names}


def _statistics(ordered: Sequence[int]) -> dict[str, int]:
    """Return Flink's MetricsStatistics of sorted values."""
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": sum(ordered) // len(ordered),
        "sum": sum(ordered),
        **{name: _percentile(ordered, share) for name, share in _PERCENTILES.items()},
    }


def _percentile(ordered: Sequence[int], share: float) -> int:
    """Interpolate linearly between two values, as Flink's histograms do."""
    position = share * (len(ordered) + 1) - 1
    if position <= 0:
        return ordered[0]
    if position >= len(ordered) - 1:
        return ordered[-1]
    lower = int(position)
    return int(ordered[lower] + (position - lower) * (ordered[lower + 1] - ordered[lower]))
