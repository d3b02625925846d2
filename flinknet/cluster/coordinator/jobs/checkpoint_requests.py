"""Savepoints of clients, and the answers of workers and of the storage about checkpoints.

Each job has a ``CheckpointCoordinator``, which decides about its checkpoints. This module gives it
the events, and notes what a completed checkpoint or savepoint means for the job: from where it
continues, and what its client is told.

No I/O and no clock.
"""

from __future__ import annotations

from typing import TypeAlias

from flinknet import machine
from flinknet.checkpoint.coordinator import Order
from flinknet.checkpoint.failure_reason import CheckpointFailure, CheckpointFailureReason
from flinknet.checkpoint.metadata import CheckpointDirectory
from flinknet.checkpoint.pending_checkpoint import SubtaskReport
from flinknet.cluster.control.messages import (
    AcknowledgeCheckpoint,
    AwaitCheckpoint,
    DeclineCheckpoint,
)
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.job_persistence import JobPersistence
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.order_executor import OrderExecutor
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.cluster.coordinator.jobs.savepoint_request import SavepointRequest
from flinknet.cluster.coordinator.jobs.worker_reports import check_runs
from flinknet.errors import RemoteProtocolError
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = ["CheckpointAnswer", "CheckpointRequests"]

CheckpointAnswer: TypeAlias = AcknowledgeCheckpoint | DeclineCheckpoint | AwaitCheckpoint
"""A message of a subtask about a checkpoint."""


class CheckpointRequests:
    """The checkpoints and savepoints of all jobs, as clients, workers and the storage see them."""

    def __init__(self, executor: OrderExecutor, persistence: JobPersistence) -> None:
        self._executor = executor
        self._persistence = persistence

    def trigger_savepoint(
        self,
        record: JobRecord,
        kind: CheckpointKind,
        directory: str,
        now: float,
        request_id: str | None = None,
    ) -> SavepointRequest:
        """Trigger a savepoint to ``directory``, an absolute path or URL.

        Some kinds of savepoint also end the job. ``request_id`` is generated if it is not given.
        Raises LocalProtocolError unless all subtasks of the job run.
        """
        trigger = record.checkpoints.trigger_savepoint(kind, now)
        request = SavepointRequest(
            request_id or machine.unique_id(), trigger.checkpoint_id, kind, directory
        )
        record.note_savepoint(request)
        self._persistence.save(record)
        self._executor.order(record, record.present, [trigger], now)
        return request

    def take_answer(
        self,
        record: JobRecord,
        worker_id: str,
        message: CheckpointAnswer,
        now: float,
    ) -> None:
        """Handle the answer of a subtask; do nothing if it is about an earlier attempt.

        Raises RemoteProtocolError if the worker must not send it.
        """
        attempt, books = record.present, record.checkpoints
        subtask = message.vertex, message.index
        if attempt.execution.number_of(subtask) != message.attempt:
            return
        check_runs(attempt, worker_id, subtask)
        orders: list[Order] = []
        try:
            if isinstance(message, AcknowledgeCheckpoint):
                report = SubtaskReport(message.handle, *message.metrics)
                report = report._replace(acknowledged_ms=record.wall_ms(now))
                order = books.acknowledge(message.checkpoint_id, subtask, report)
                orders = [] if order is None else [order]
            elif isinstance(message, AwaitCheckpoint):
                orders = books.subtask_awaits(subtask, message.taken)
            else:
                reason = CheckpointFailureReason[message.reason]
                explanation = f"subtask {subtask}: {message.explanation}"
                orders = books.decline(message.checkpoint_id, reason, explanation, now)
        except (KeyError, TypeError) as error:
            raise RemoteProtocolError(
                f"malformed {type(message).__name__} message: {error}"
            ) from error
        self._executor.order(record, attempt, orders, now)

    def kept(
        self,
        record: JobRecord,
        attempt: AttemptRecord,
        checkpoint_id: int,
        failure: CheckpointFailure | None,
        now: float,
    ) -> None:
        """Handle a completed checkpoint, or the ``failure`` of its completion."""
        books = record.checkpoints
        if failure is not None:
            self._executor.order(
                record, attempt, books.completion_failed(checkpoint_id, failure, now), now
            )
            return
        finished = [one.finished for one in books.pending if one.checkpoint_id == checkpoint_id]
        orders = books.completed(checkpoint_id, now)
        request = record.savepoints.get(checkpoint_id)
        if request is not None:
            place = f"{request.directory}/{record.job_id}"
            directory = CheckpointDirectory(True, checkpoint_id, attempt.number)
            request.written(place, directory)
            commits = request.kind.stops and record.submission.shape.checkpointing is not None
            if finished and commits:
                # Sinks commit with this savepoint. A job that continued from an earlier point would
                # commit the same output again.
                record.continue_from(
                    RestorePoint(f"{place}/{directory}", frozenset(*finished)), is_savepoint=True
                )
        latest = books.latest
        if latest is not None and latest.checkpoint_id == checkpoint_id:
            directory = CheckpointDirectory(False, checkpoint_id, attempt.number)
            record.continue_from(RestorePoint(str(directory), frozenset(latest.finished)))
        self._persistence.save(record)
        self._executor.order(record, attempt, orders, now)
