"""Applies the reports of workers about their subtasks to the attempt that they concern.

A report of subtasks that have been restarted under another number changes nothing. A report that no
worker of this version sends raises RemoteProtocolError, which ends the worker's connection.
"""

from __future__ import annotations

from typing import TypeAlias

from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.messages import Failed, Opened, Progress, Released, Settled
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.job_execution import Commands, SubtaskKey
from flinknet.errors import RemoteProtocolError

__all__ = ["Report", "apply_report", "check_runs"]

Report: TypeAlias = Progress | Opened | Failed | Released | Settled
"""A message about the subtasks of an attempt on one worker."""


def apply_report(
    attempt: AttemptRecord,
    worker_id: str,
    message: Report,
    now: float,
) -> Commands:
    """Apply a report, and return the commands that follow from it.

    Raises RemoteProtocolError if the worker must not send it.
    """
    execution = attempt.execution
    match message:
        case Progress():
            try:
                attempt.note_progress(message.rows, message.attempt)
            except (TypeError, ValueError) as error:
                raise RemoteProtocolError(f"malformed Progress message: {error}") from error
        case Opened():
            return execution.opened(worker_id, message.attempt)
        # The worker could not open its subtasks.
        case Failed(vertex=-1):
            return execution.open_failed(worker_id, message.attempt, _cause_of(message), now)
        case Failed():
            subtask = (message.vertex, message.index)
            if execution.number_of(subtask) != message.attempt:
                return []
            check_runs(attempt, worker_id, subtask)
            return execution.failed(subtask, _cause_of(message), now)
        case Released():
            return execution.released(worker_id, message.attempt, _subtasks_of(message), now)
        case Settled():
            cause = _cause_of(message) if message.cause else None
            return execution.settled(worker_id, cause, now)
    return []


def check_runs(attempt: AttemptRecord, worker_id: str, subtask: SubtaskKey) -> None:
    """Raise RemoteProtocolError unless the worker runs the subtask."""
    if attempt.execution.worker_of(subtask) != worker_id:
        raise RemoteProtocolError(f"worker {worker_id} does not run subtask {subtask}")


def _subtasks_of(message: Released) -> list[SubtaskKey]:
    try:
        return [(vertex, index) for vertex, index in message.subtasks]
    except (TypeError, ValueError) as error:
        raise RemoteProtocolError(f"malformed Released message: {error}") from error


def _cause_of(message: Failed | Settled) -> FailureCause:
    try:
        return FailureCause.from_dict(message.cause)
    except (KeyError, TypeError) as error:
        raise RemoteProtocolError(f"malformed {type(message).__name__} message: {error}") from error
