"""A job in the formats of Flink's REST API: a row of the overview, its details, its plan.

Views are plain JSON types, made from a record and a time of the coordinator's clock. Times are in
milliseconds since 1970, durations in milliseconds; -1 means not yet.

Vertices describe the present attempt. All subtasks of an attempt are deployed together, so all
vertices have the same start time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.rest.flink.states import (
    EXECUTION_STATES,
    aggregate_state,
    job_status,
    status_times,
    task_states,
)
from flinknet.graph.graph import JobVertex
from flinknet.metrics.hex_id import hex_id
from flinknet.metrics.io_metrics import IOMetrics

__all__ = [
    "end_ms",
    "io_metrics_view",
    "job_details",
    "job_overview",
    "job_plan",
    "span",
    "total_io_metrics",
    "vertex_id",
]


def vertex_id(vertex: JobVertex) -> str:
    """Return Flink's JobVertexID, which is the id of the chain's first operator."""
    return hex_id(vertex.operators[0].uid)


def job_overview(record: JobRecord, now: float) -> dict[str, Any]:
    """Return Flink's JobDetails: one row of the list of jobs."""
    counts = Counter(task_states(record).values())
    tasks = {state.lower(): counts[state] for state in EXECUTION_STATES}
    return {
        "jid": record.job_id,
        "name": record.submission.name,
        **_job_span(record, now),
        "state": job_status(record.state),
        "last-modification": max(status_times(record).values()),
        "tasks": {"total": counts.total(), **tasks},
    }


def job_details(record: JobRecord, now: float) -> dict[str, Any]:
    """Return Flink's JobDetailsInfo: everything about a job at one moment."""
    vertices = _vertices(record, now)
    statuses = Counter(vertex["status"] for vertex in vertices)
    return {
        "jid": record.job_id,
        "name": record.submission.name,
        "isStoppable": False,
        "state": job_status(record.state),
        "job-type": "STREAMING",
        **_job_span(record, now),
        "maxParallelism": max(one.max_parallelism for one in record.submission.shape.vertices),
        "now": record.wall_ms(now),
        "timestamps": status_times(record),
        "vertices": vertices,
        "status-counts": {state: statuses[state] for state in EXECUTION_STATES},
        "plan": job_plan(record),
    }


def job_plan(record: JobRecord) -> dict[str, Any]:
    """Return the job graph: the vertices, and the inputs of each."""
    shape = record.submission.shape
    ids = {vertex.id: vertex_id(vertex) for vertex in shape.vertices}
    nodes = []
    for vertex in reversed(shape.vertices):
        edges = [edge for edge in shape.edges if edge.target == vertex.id]
        node: dict[str, Any] = {
            "id": ids[vertex.id],
            "parallelism": vertex.parallelism,
            "operator": "",
            "operator_strategy": "",
            "description": vertex.name,
        }
        if edges:
            node["inputs"] = [
                {
                    "num": number,
                    "id": ids[edge.source],
                    "ship_strategy": edge.name,
                    "exchange": edge.exchange_mode.value.lower(),
                }
                for number, edge in enumerate(edges)
            ]
        nodes.append({**node, "optimizer_properties": {}})
    return {"jid": record.job_id, "name": shape.name, "type": "STREAMING", "nodes": nodes}


def end_ms(record: JobRecord, subtasks: Sequence[SubtaskKey]) -> int:
    """Return when the last of some subtasks ended; -1 if one of them has not."""
    present = record.present
    ends = [present.finished_at.get(subtask, present.ended_at) for subtask in subtasks]
    known = [at for at in ends if at is not None]
    return record.wall_ms(max(known)) if len(known) == len(ends) else -1


def io_metrics_view(metrics: IOMetrics, *, is_complete: bool) -> dict[str, Any]:
    """Return Flink's IOMetricsInfo; ``is_complete`` says whether all subtasks are counted."""
    counters = {
        "read-bytes": metrics.bytes_in,
        "write-bytes": metrics.bytes_out,
        "read-records": metrics.records_in,
        "write-records": metrics.records_out,
    }
    return {
        **counters,
        **{f"{name}-complete": is_complete for name in counters},
        "accumulated-backpressured-time": metrics.backpressured_time_ms,
        "accumulated-idle-time": metrics.idle_time_ms,
        "accumulated-busy-time": float(metrics.busy_time_ms),
    }


def total_io_metrics(record: JobRecord, subtasks: Sequence[SubtaskKey]) -> dict[str, Any]:
    """Return the IOMetricsInfo of some subtasks together."""
    counters = record.present.counters
    counted = [counters[subtask] for subtask in subtasks if subtask in counters]
    return io_metrics_view(IOMetrics.total(counted), is_complete=len(counted) == len(subtasks))


def _job_span(record: JobRecord, now: float) -> dict[str, int]:
    start = record.wall_ms(record.submitted_at)
    end = -1 if record.ended_at is None else record.wall_ms(record.ended_at)
    return span(start, end, record.wall_ms(now))


def span(start: int, end: int, now: int) -> dict[str, int]:
    """Return start, end and duration; ``now`` is the end of a span that still lasts."""
    return {
        "start-time": start,
        "end-time": end,
        "duration": max(0, (now if end == -1 else end) - start),
    }


def _vertices(record: JobRecord, now: float) -> list[dict[str, Any]]:
    states = task_states(record)
    rows = []
    for vertex in record.submission.shape.vertices:
        subtasks = [(vertex.id, index) for index in range(vertex.parallelism)]
        counts = Counter(states[subtask] for subtask in subtasks)
        start, end = record.wall_ms(record.present.begun_at), end_ms(record, subtasks)
        rows.append(
            {
                "id": vertex_id(vertex),
                "slotSharingGroupId": hex_id(vertex.slot_sharing_group),
                "name": vertex.name,
                "maxParallelism": vertex.max_parallelism,
                "parallelism": vertex.parallelism,
                "status": aggregate_state(counts),
                **span(start, end, record.wall_ms(now)),
                "tasks": {state: counts[state] for state in EXECUTION_STATES},
                "metrics": total_io_metrics(record, subtasks),
            }
        )
    return rows
