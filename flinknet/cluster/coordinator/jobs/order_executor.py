"""Carries out the commands of executions and the orders of checkpoint coordinators.

Theory of operation. Commands are messages to workers. They are sent only after the new state of the
job is persisted, so that no worker acts on a state that a successor of this coordinator would not
know. An order of a job's ``CheckpointCoordinator`` is sent to the workers, or given to ``keep``,
which reads and writes the checkpoint storage. Checkpoints are allowed only while all subtasks of
the present attempt run, so the state of an execution is followed after each of its commands.

No I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flinknet import machine
from flinknet.checkpoint.coordinator import (
    Complete,
    Discard,
    FailJob,
    NotifyAborted,
    NotifyCompleted,
    Order,
    Trigger,
)
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    AbortCheckpoint,
    CompleteCheckpoint,
    Message,
    TriggerCheckpoint,
)
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.job_execution import Commands, Part, SubtaskKey
from flinknet.cluster.coordinator.jobs.job_persistence import JobPersistence
from flinknet.cluster.coordinator.jobs.job_record import JobRecord

__all__ = ["Keep", "OrderExecutor", "Send"]

Send = Callable[[str, Message], None]
"""Arguments: worker id, message. The function ignores workers that are gone."""

Keep = Callable[[JobRecord, AttemptRecord, Complete | Discard], None]
"""Complete a checkpoint of an attempt in its storage, or remove the files of a failed one."""


class OrderExecutor:
    """The one place in which decisions about jobs become messages, files and new states."""

    def __init__(self, send: Send, keep: Keep, persistence: JobPersistence) -> None:
        self._send = send
        self._keep = keep
        self._persistence = persistence

    def carry_out(
        self, record: JobRecord, attempt: AttemptRecord, commands: Commands, now: float
    ) -> None:
        """Carry out the commands of an attempt, after all changes of state that they imply."""
        commands = self._give_up_regions(record, attempt, commands, now)
        state = attempt.execution.state
        if attempt is record.present and not attempt.execution.failover.given_up:
            record.recovery.spread()
        self._follow(record, attempt, now)
        if attempt.ended_at is None and state.is_terminal:
            record.attempt_ended(now, may_restart=not self._persistence.is_closed)
        record.note_state(now)
        self._persistence.save(record)
        # Sent last: no worker acts on a state that is not persisted.
        for worker_id, message in commands:
            self._send(worker_id, message)

    def fail(
        self, record: JobRecord, attempt: AttemptRecord, cause: FailureCause, now: float
    ) -> None:
        """Fail an attempt; do nothing if it has ended or is ending."""
        self.carry_out(record, attempt, attempt.execution.fail(cause, now), now)

    def order(
        self, record: JobRecord, attempt: AttemptRecord, orders: Iterable[Order], now: float
    ) -> None:
        """Carry out the orders for the checkpoints of an attempt."""
        job_id, execution = record.job_id, attempt.execution
        for order in orders:
            match order:
                case Trigger():
                    self._trigger(record, attempt, order)
                case NotifyAborted(checkpoint_id):
                    request = record.savepoints.get(checkpoint_id)
                    if request is not None:
                        request.failed(record.checkpoints.history.why_failed(checkpoint_id))
                        self._persistence.save(record)
                    for worker_id, number in execution.parts:
                        self._send(worker_id, AbortCheckpoint(job_id, number, checkpoint_id))
                case Complete() | Discard():
                    self._keep(record, attempt, order)
                case FailJob(explanation):
                    cause = FailureCause.of_coordinator(machine.process_id(), explanation)
                    self.fail(record, attempt, cause, now)
                case NotifyCompleted(checkpoint_id, kind):
                    # The job does not restart from a savepoint that it survives. Output committed
                    # with such a savepoint would be repeated after a failure.
                    commits = kind.stops or not kind.is_savepoint
                    for worker_id, number in execution.parts:
                        message = CompleteCheckpoint(job_id, number, checkpoint_id, commits)
                        self._send(worker_id, message)

    def _trigger(self, record: JobRecord, attempt: AttemptRecord, order: Trigger) -> None:
        execution = attempt.execution
        roots: dict[Part, list[SubtaskKey]] = {}
        directory = ""
        if order.kind.is_savepoint:
            # Every worker that writes a part of the savepoint must know its directory.
            roots = {part: [] for part in execution.parts}
            directory = record.savepoints[order.checkpoint_id].directory
        for subtask in order.subtasks:
            part = execution.worker_of(subtask), execution.number_of(subtask)
            roots.setdefault(part, []).append(subtask)
        for (worker_id, number), subtasks in roots.items():
            rows = [list(subtask) for subtask in subtasks]
            self._send(
                worker_id,
                TriggerCheckpoint(
                    record.job_id,
                    number,
                    order.checkpoint_id,
                    order.timestamp_ms,
                    int(order.kind),
                    rows,
                    directory,
                ),
            )

    def _follow(self, record: JobRecord, attempt: AttemptRecord, now: float) -> None:
        """Allow checkpoints only while all subtasks of the present attempt run."""
        books, execution = record.checkpoints, attempt.execution
        if attempt is not record.present:
            return
        all_run = execution.all_run
        if all_run and books.is_suspended:
            books.resume(now)
        elif all_run and not books.is_running:
            books.attempt_runs(execution.subtask_states(), attempt.restored_finished, now)
        elif books.is_running and not all_run:
            goes_on = execution.state is JobState.RUNNING
            orders = books.suspend(now) if goes_on else books.attempt_ends(now)
            self.order(record, attempt, orders, now)
        elif books.is_suspended and execution.state is not JobState.RUNNING:
            self.order(record, attempt, books.attempt_ends(now), now)

    def _give_up_regions(
        self, record: JobRecord, attempt: AttemptRecord, commands: Commands, now: float
    ) -> Commands:
        """Decide whether failed regions are restarted while the others go on."""
        execution = attempt.execution
        while (failure := execution.failover.take_failure()) is not None:
            if not record.regions_failed(failure, now):
                commands = [*commands, *execution.fail(failure.cause, now)]
        return commands
