"""The part of each subtask in a checkpoint, in the formats of Flink's REST API.

A subtask that had finished before the checkpoint counts as a participant without values. In a
checkpoint that has failed or is under way, subtasks without an acknowledgement are pending. Times
are in milliseconds, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from flinknet.checkpoint.pending_checkpoint import SubtaskId, SubtaskReport
from flinknet.graph.graph import JobVertex

__all__ = ["PARTS", "Parts", "part_rows", "stats_summary", "subtask_details", "vertex_details"]

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}

PARTS = (
    "vertex",
    "subtask",
    "status",
    "duration",
    "start_delay",
    "alignment",
    "sync",
    "async",
    "state_size",
    "processed_data",
    "persisted_data",
    "unaligned",
)
"""The columns of ``part_rows``."""


class Parts(Protocol):
    """A checkpoint, under way or ended, with the parts of its subtasks."""

    @property
    def checkpoint_id(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def reports(self) -> Mapping[SubtaskId, SubtaskReport]: ...
    @property
    def finished(self) -> Collection[SubtaskId]: ...


def vertex_details(vertex: JobVertex, checkpoint: Parts, status: str) -> dict[str, Any]:
    """Return Flink's TaskCheckpointStatistics: sums over the subtasks of a vertex."""
    reports = _reports(vertex, checkpoint)
    finished = sum(number == vertex.id for number, _ in checkpoint.finished)
    latest_ms = max((one.acknowledged_ms for one in reports), default=-1)
    state_bytes = sum(one.state_bytes for one in reports)
    return {
        "id": checkpoint.checkpoint_id,
        "status": status,
        "latest_ack_timestamp": latest_ms,
        "checkpointed_size": state_bytes,
        "state_size": state_bytes,
        "end_to_end_duration": max(0, latest_ms - checkpoint.timestamp_ms),
        "alignment_buffered": 0,
        "processed_data": sum(one.processed_bytes for one in reports),
        "persisted_data": sum(one.persisted_bytes for one in reports),
        "num_subtasks": vertex.parallelism,
        "num_acknowledged_subtasks": len(reports) + finished,
    }


def subtask_details(vertex: JobVertex, checkpoint: Parts, status: str) -> dict[str, Any]:
    """Return Flink's TaskCheckpointStatisticsWithSubtaskDetails."""
    reports = _reports(vertex, checkpoint)

    def summary(value: Callable[[SubtaskReport], float]) -> dict[str, float]:
        return stats_summary(map(value, reports))

    return {
        **vertex_details(vertex, checkpoint, status),
        "summary": {
            "checkpointed_size": summary(lambda one: one.state_bytes),
            "state_size": summary(lambda one: one.state_bytes),
            "end_to_end_duration": summary(lambda one: _duration_ms(one, checkpoint.timestamp_ms)),
            "checkpoint_duration": {
                "sync": summary(lambda one: one.sync_ms),
                "async": summary(lambda one: one.async_ms),
            },
            "alignment": {
                "buffered": stats_summary(()),
                "processed": summary(lambda one: one.processed_bytes),
                "persisted": summary(lambda one: one.persisted_bytes),
                "duration": summary(lambda one: one.alignment_ms),
            },
            "start_delay": summary(lambda one: one.start_delay_ms),
        },
        "subtasks": [
            _subtask(index, _part(vertex, index, checkpoint), checkpoint.timestamp_ms)
            for index in range(vertex.parallelism)
        ],
    }


def part_rows(vertices: Iterable[JobVertex], checkpoint: Parts) -> list[list[Any]]:
    """Return a row per subtask of the job, in the order of ``PARTS``; unknown values are null."""
    rows: list[list[Any]] = []
    for vertex in vertices:
        for index in range(vertex.parallelism):
            part = _part(vertex, index, checkpoint)
            told = [None] * 9 if part is None else _told(part, checkpoint.timestamp_ms)
            status = "pending" if part is None else "completed"
            rows.append([vertex.name, index, status, *told])
    return rows


def stats_summary(values: Iterable[float]) -> dict[str, float]:
    """Return Flink's format of a statistical summary; all zeros without values."""
    ordered = [round(value) for value in sorted(values)] or [0]
    last = len(ordered) - 1
    quantiles = {name: float(ordered[round(share * last)]) for name, share in _QUANTILES.items()}
    average = round(sum(ordered) / len(ordered))
    return {"min": ordered[0], "max": ordered[-1], "avg": average, **quantiles}


def _reports(vertex: JobVertex, checkpoint: Parts) -> list[SubtaskReport]:
    return [one for (number, _), one in sorted(checkpoint.reports.items()) if number == vertex.id]


def _part(vertex: JobVertex, index: int, checkpoint: Parts) -> SubtaskReport | None:
    subtask = vertex.id, index
    if subtask in checkpoint.finished:
        return SubtaskReport(finished=True, acknowledged_ms=checkpoint.timestamp_ms)
    return checkpoint.reports.get(subtask)


def _duration_ms(part: SubtaskReport, triggered_ms: int) -> int:
    return max(0, part.acknowledged_ms - triggered_ms)


def _subtask(index: int, part: SubtaskReport | None, triggered_ms: int) -> dict[str, Any]:
    if part is None:
        return {"className": "pending", "index": index, "status": "pending_or_failed"}
    return {
        "className": "completed",
        "index": index,
        "status": "completed",
        "ack_timestamp": part.acknowledged_ms,
        "end_to_end_duration": _duration_ms(part, triggered_ms),
        "checkpointed_size": part.state_bytes,
        "state_size": part.state_bytes,
        "checkpoint": {"sync": round(part.sync_ms), "async": round(part.async_ms)},
        "alignment": {
            "buffered": 0,
            "processed": part.processed_bytes,
            "persisted": part.persisted_bytes,
            "duration": round(part.alignment_ms),
        },
        "start_delay": round(part.start_delay_ms),
        "unaligned_checkpoint": part.unaligned,
        "aborted": False,
    }


def _told(part: SubtaskReport, triggered_ms: int) -> list[Any]:
    return [
        _duration_ms(part, triggered_ms),
        part.start_delay_ms,
        part.alignment_ms,
        round(part.sync_ms, 1),
        round(part.async_ms, 1),
        part.state_bytes,
        part.processed_bytes,
        part.persisted_bytes,
        part.unaligned,
    ]
