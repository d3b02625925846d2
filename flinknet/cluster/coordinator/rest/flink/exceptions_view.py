"""The failures of a job, in the format of Flink's REST API.

Each failed attempt is one entry of the history. A failure of some regions, after which the others
went on, is an entry as well. The latest entry comes first. ``root-exception`` repeats the last
failure for older clients. Views are plain JSON types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord

__all__ = ["EXCEPTIONS_DEFAULT", "job_exceptions"]

EXCEPTIONS_DEFAULT = 20
"""Number of failures to return by default (Flink's JobExceptionsHandler)."""


def job_exceptions(
    record: JobRecord, workers: Mapping[str, WorkerRecord], limit: int = EXCEPTIONS_DEFAULT
) -> dict[str, Any]:
    """Return Flink's JobExceptionsInfoWithHistory; ``workers`` are the known workers by id."""
    failures = [one for attempt in reversed(record.attempts) for one in attempt.all_failures()]
    told = [_entry(record, cause, at, workers) for cause, at in failures[:limit]]
    is_cut = len(failures) > len(told)
    forgotten = record.attempts[0].number > 0
    last = told[0] if told else None
    return {
        "root-exception": None if last is None else last["stacktrace"],
        "timestamp": None if last is None else last["timestamp"],
        "all-exceptions": [],
        "truncated": is_cut,
        "exceptionHistory": {"entries": told, "truncated": is_cut or forgotten},
    }


def _entry(
    record: JobRecord, cause: FailureCause, at: float, workers: Mapping[str, WorkerRecord]
) -> dict[str, Any]:
    worker = workers.get(cause.worker_id)
    return {
        "exceptionName": cause.error_type,
        "stacktrace": cause.traceback or cause.describe(),
        "timestamp": record.wall_ms(at),
        "failureLabels": {},
        "taskName": cause.subtask,
        "endpoint": None if worker is None else worker.address,
        "taskManagerId": cause.worker_id or None,
        "concurrentExceptions": [],
    }
