"""The routes for a job's checkpoints, in the formats of Flink's REST API.

::

    GET  /v1/jobs/{job}/checkpoints                  counts, summary, latest and history
    GET  /v1/jobs/{job}/checkpoints/config           the settings
    GET  /v1/jobs/{job}/checkpoints/details/{checkpoint}    one checkpoint, with its vertices
    GET  /v1/jobs/{job}/checkpoints/details/{checkpoint}/subtasks/{vertex}    with its subtasks

Only remembered checkpoints are available, and the summary covers the completed ones of them. Times
are in milliseconds, sizes in bytes, summed over the subtasks of a checkpoint. For an ended
checkpoint, ``start_delay``, ``alignment``, ``sync`` and ``async`` are those of the slowest subtask.
Flink has these values per subtask only. They are the only keys that Flink's answers do not have,
and Flink's clients ignore them.
"""

from __future__ import annotations

from typing import Any, Protocol

from aiohttp import web

from flinknet.checkpoint.checkpoint_history import CheckpointStats
from flinknet.checkpoint.metadata import CheckpointDirectory
from flinknet.checkpoint.pending_checkpoint import PendingCheckpoint
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.rest.checkpoint_details import (
    stats_summary,
    subtask_details,
    vertex_details,
)
from flinknet.cluster.coordinator.rest.flink.job_view import vertex_id
from flinknet.cluster.coordinator.rest.flink.vertex_view import find_vertex
from flinknet.cluster.coordinator.rest.http_requests import named_job
from flinknet.texts import printable
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = ["CheckpointRoutes", "Checkpoints", "checkpoint_statistics", "find_checkpoint"]

_DETAILS = r"/v1/jobs/{job}/checkpoints/details/{checkpoint:\d{1,18}}"


class Checkpoints(Protocol):
    """The coordinator as these routes use it."""

    dispatcher: Dispatcher

    def now(self) -> float: ...


class CheckpointRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Checkpoints) -> None:
        self._coordinator = coordinator

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        return [
            web.get("/v1/jobs/{job}/checkpoints", self._checkpoints),
            web.get("/v1/jobs/{job}/checkpoints/config", self._config),
            web.get(_DETAILS, self._details),
            web.get(_DETAILS + "/subtasks/{vertex}", self._subtasks),
        ]

    async def _checkpoints(self, request: web.Request) -> web.Response:
        record = named_job(request, self._coordinator.dispatcher)
        return web.json_response(checkpoint_statistics(record, self._coordinator.now()))

    async def _config(self, request: web.Request) -> web.Response:
        settings = named_job(request, self._coordinator.dispatcher).submission.shape.checkpointing
        if settings is None:
            raise web.HTTPNotFound(text="the job takes no periodic checkpoints")
        return web.json_response(
            {
                "mode": settings.mode,
                "interval": round(settings.interval_ms),
                "timeout": round(settings.timeout_ms),
                "min_pause": round(settings.min_pause_ms),
                "max_concurrent": settings.concurrent,
                "externalization": {
                    "enabled": settings.retention != "no_externalized_checkpoints",
                    "delete_on_cancellation": settings.retention != "retain_on_cancellation",
                },
                "state_backend": "",
                "checkpoint_storage": settings.directory,
                "unaligned_checkpoints": settings.unaligned,
                "tolerable_failed_checkpoints": settings.tolerable_failures,
                "aligned_checkpoint_timeout": round(settings.aligned_timeout_ms),
                "checkpoints_after_tasks_finish": True,
                "state_changelog_enabled": False,
                "changelog_periodic_materialization_interval": 0,
                "changelog_storage": "",
            }
        )

    async def _details(self, request: web.Request) -> web.Response:
        record, parts = self._named(request)
        now = self._coordinator.now()
        row = next(one for one in _history(record, now) if one["id"] == parts.checkpoint_id)
        tasks = {
            vertex_id(vertex): vertex_details(vertex, parts, row["status"])
            for vertex in record.submission.shape.vertices
        }
        return web.json_response(row | {"tasks": tasks})

    async def _subtasks(self, request: web.Request) -> web.Response:
        record, parts = self._named(request)
        vertex = find_vertex(record, request.match_info["vertex"])
        if vertex is None:
            name, asked = record.submission.name, request.match_info["vertex"]
            raise web.HTTPNotFound(text=printable(f'job "{name}" has no vertex {asked}'))
        return web.json_response(subtask_details(vertex, parts, _status(parts)))

    def _named(self, request: web.Request) -> tuple[JobRecord, CheckpointStats | PendingCheckpoint]:
        record = named_job(request, self._coordinator.dispatcher)
        number = int(request.match_info["checkpoint"])
        parts = find_checkpoint(record, number)
        if parts is None:
            raise web.HTTPNotFound(text=f"checkpoint {number} is not in the history")
        return record, parts


def find_checkpoint(record: JobRecord, number: int) -> CheckpointStats | PendingCheckpoint | None:
    """Return a checkpoint that is under way or remembered, or None."""
    checkpoints = record.checkpoints
    known: list[CheckpointStats | PendingCheckpoint] = [*checkpoints.pending]
    known += checkpoints.history.checkpoints
    return next((one for one in known if one.checkpoint_id == number), None)


def _status(checkpoint: CheckpointStats | PendingCheckpoint) -> str:
    if isinstance(checkpoint, PendingCheckpoint):
        return "IN_PROGRESS"
    return "COMPLETED" if checkpoint.reason is None else "FAILED"


def checkpoint_statistics(record: JobRecord, now: float) -> dict[str, Any]:
    """Return Flink's CheckpointingStatistics: counts, summary, latest and history."""
    history = record.checkpoints.history
    checkpoints = history.checkpoints[::-1]
    completed = [stats for stats in checkpoints if stats.reason is None]
    return {
        "counts": {
            "restored": int(bool(record.present.restored_from)),
            "total": history.triggered,
            "in_progress": len(record.checkpoints.pending),
            "completed": history.completed,
            "failed": history.failed,
        },
        "summary": {
            "checkpointed_size": stats_summary(one.metrics["state_bytes"] for one in completed),
            "state_size": stats_summary(one.metrics["state_bytes"] for one in completed),
            "end_to_end_duration": stats_summary(one.seconds * 1000 for one in completed),
            "alignment_buffered": stats_summary(()),
            "processed_data": stats_summary(one.metrics["processed_bytes"] for one in completed),
            "persisted_data": stats_summary(one.metrics["persisted_bytes"] for one in completed),
        },
        "latest": {
            "completed": _first(record, [one for one in completed if not _saves(one)]),
            "savepoint": _first(record, [one for one in completed if _saves(one)]),
            "failed": _first(record, [one for one in checkpoints if one.reason is not None]),
            "restored": _restored(record),
        },
        "history": _history(record, now),
    }


def _history(record: JobRecord, now: float) -> list[dict[str, Any]]:
    pending = [_pending_row(one, now) for one in record.checkpoints.pending]
    ended = [_row(record, stats) for stats in record.checkpoints.history.checkpoints]
    return sorted(pending + ended, key=lambda row: -int(row["id"]))


def _saves(stats: CheckpointStats) -> bool:
    return stats.kind.is_savepoint


def _first(record: JobRecord, checkpoints: list[CheckpointStats]) -> dict[str, Any] | None:
    return _row(record, checkpoints[0]) if checkpoints else None


def _restored(record: JobRecord) -> dict[str, Any] | None:
    if not record.present.restored_from:
        return None
    place = record.present.restored_from
    directory = CheckpointDirectory.parse(place.rstrip("/").rpartition("/")[2])
    return {
        "id": 0 if directory is None else directory.checkpoint_id,
        "restore_timestamp": record.restored_ms,
        "is_savepoint": directory is not None and directory.is_savepoint,
        "external_path": place,
    }


def _row(record: JobRecord, stats: CheckpointStats) -> dict[str, Any]:
    ended_ms = stats.timestamp_ms + round(stats.seconds * 1000)
    row = {
        **_common(stats.checkpoint_id, stats.kind, stats.timestamp_ms),
        "latest_ack_timestamp": ended_ms,
        "state_size": round(stats.metrics["state_bytes"]),
        "checkpointed_size": round(stats.metrics["state_bytes"]),
        "end_to_end_duration": round(stats.seconds * 1000),
        "processed_data": round(stats.metrics["processed_bytes"]),
        "persisted_data": round(stats.metrics["persisted_bytes"]),
        "start_delay": stats.metrics["start_delay_ms"],
        "alignment": stats.metrics["alignment_ms"],
        "sync": stats.metrics["sync_ms"],
        "async": stats.metrics["async_ms"],
        "num_subtasks": stats.subtasks,
        "num_acknowledged_subtasks": stats.acknowledged,
    }
    if stats.reason is not None:
        message = record.checkpoints.history.why_failed(stats.checkpoint_id)
        return row | {
            "className": "failed",
            "status": "FAILED",
            "failure_timestamp": ended_ms,
            "failure_message": message,
        }
    request = record.savepoints.get(stats.checkpoint_id)
    return row | {
        "className": "completed",
        "status": "COMPLETED",
        "external_path": "" if request is None else request.location,
        "discarded": False,
    }


def _pending_row(checkpoint: PendingCheckpoint, now: float) -> dict[str, Any]:
    acknowledged = len(checkpoint.reports) + len(checkpoint.finished)
    reports = checkpoint.reports.values()
    state_bytes = sum(report.state_bytes for report in reports)
    return {
        **_common(checkpoint.checkpoint_id, checkpoint.kind, checkpoint.timestamp_ms),
        "className": "in_progress",
        "status": "IN_PROGRESS",
        "latest_ack_timestamp": -1,
        "state_size": state_bytes,
        "checkpointed_size": state_bytes,
        "end_to_end_duration": round((now - checkpoint.triggered_at) * 1000),
        "processed_data": sum(report.processed_bytes for report in reports),
        "persisted_data": sum(report.persisted_bytes for report in reports),
        "num_subtasks": acknowledged + len(checkpoint.missing),
        "num_acknowledged_subtasks": acknowledged,
    }


def _common(number: int, kind: CheckpointKind, timestamp_ms: int) -> dict[str, Any]:
    return {
        "id": number,
        "is_savepoint": kind.is_savepoint,
        "savepointFormat": "CANONICAL" if kind.is_savepoint else None,
        "trigger_timestamp": timestamp_ms,
        "alignment_buffered": 0,
        "checkpoint_type": _type(kind),
        "tasks": {},
    }


def _type(kind: CheckpointKind) -> str:
    if kind.stops:
        return "SYNC_SAVEPOINT"
    return "SAVEPOINT" if kind.is_savepoint else "CHECKPOINT"
