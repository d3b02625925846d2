"""The checkpoint coordinator: decides when checkpoints are triggered, and how they end.

Theory of operation
-------------------
One coordinator manages the checkpoints of one job over all its attempts, without I/O or a clock.
Events arrive as method calls, with ``now`` in seconds. The methods return *orders* for the caller
to carry out, and ``deadline`` tells when to call ``tick``.

- A *periodic* checkpoint is triggered ``interval_ms`` after the one before. It waits until
  ``min_pause_ms`` have passed since the end of the last one, and until fewer than ``concurrent``
  are pending. A *savepoint* is triggered on request, beside any pending checkpoint.
- Barriers start at the *roots*: unfinished subtasks of vertices with finished inputs only, at first
  the sources (``unfinished_subtasks.py``).
- A subtask may *await* its final checkpoint: it and its outputs have ended, but its output is
  committed with the next checkpoint. For its consumers it has finished.
- Each subtask acknowledges, declines or finishes (``pending_checkpoint.py``). After the last one,
  the caller writes the metadata (``Complete``) and answers with ``completed`` or
  ``completion_failed``.
- A complete checkpoint *subsumes* the earlier pending ones, and the next attempt is restored from
  it. Neither holds for savepoints, because users may delete them at any time.
- A checkpoint that is declined, expires or cannot be written is *aborted*. If more than
  ``tolerable_failures`` periodic checkpoints fail in a row, the job must fail.
- While failed regions restart, the coordinator is *suspended* (``attempt_state.py``). Nothing is
  pending or triggered, but subtasks that finish or begin to await are counted.

Messages about a checkpoint that is not pending any more are too late and ignored. The exception is
``completed``: metadata that was written nevertheless must be discarded.

Flink: CheckpointCoordinator, CheckpointRequestDecider, CheckpointFailureManager,
DefaultCheckpointPlanCalculator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from flinknet.checkpoint.attempt_state import TRANSITIONS, AttemptEvent, AttemptState
from flinknet.checkpoint.checkpoint_history import CheckpointHistory
from flinknet.checkpoint.failure_reason import CheckpointFailure, CheckpointFailureReason
from flinknet.checkpoint.pending_checkpoint import (
    CheckpointState,
    PendingCheckpoint,
    SubtaskId,
    SubtaskReport,
)
from flinknet.checkpoint.unfinished_subtasks import UnfinishedSubtasks
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.errors import LocalProtocolError
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = [
    "CheckpointCoordinator",
    "Complete",
    "Discard",
    "FailJob",
    "NotifyAborted",
    "NotifyCompleted",
    "Order",
    "Trigger",
]

HISTORY_RETAINED = 10
"""Ended checkpoints that the history keeps. Flink: web.checkpoints.history (10)."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Order to start the checkpoint at these subtasks."""

    checkpoint_id: int
    timestamp_ms: int
    kind: CheckpointKind
    subtasks: tuple[SubtaskId, ...]


@dataclass(frozen=True, slots=True)
class Complete:
    """Order to write the metadata of this checkpoint and report the outcome."""

    checkpoint: PendingCheckpoint


@dataclass(frozen=True, slots=True)
class NotifyCompleted:
    """Order to tell every subtask that the checkpoint is complete."""

    checkpoint_id: int
    kind: CheckpointKind


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Order to tell every subtask that the checkpoint is aborted."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Order to remove the files of a checkpoint that failed."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FailJob:
    """Order to fail the job, because of its checkpoints."""

    explanation: str


Order: TypeAlias = Trigger | Complete | NotifyCompleted | NotifyAborted | Discard | FailJob


class CheckpointCoordinator:
    """The checkpoints of one job."""

    def __init__(
        self,
        config: JobCheckpointingConfig,
        inputs: Mapping[int, Iterable[int]],
        *,
        wall_ms: Callable[[float], int],
        first_id: int = 1,
        periodic: bool = True,
    ) -> None:
        """Create the coordinator of a job that has no attempt yet.

        Args:
            config: the checkpointing of the job.
            inputs: for every vertex of the job, the vertices that it reads.
            wall_ms: converts a time of the coordinator's clock to milliseconds since 1970.
            first_id: the number of the first checkpoint.
            periodic: whether checkpoints are triggered; if not, there are only savepoints.
        """
        self.config = config
        self.history = CheckpointHistory(HISTORY_RETAINED)
        self.latest: PendingCheckpoint | None = None
        """The checkpoint of this job that was completed last.

        An attempt continues from an earlier one if the files of this one are damaged.
        """
        self._periodic = periodic
        self._unfinished = UnfinishedSubtasks(inputs)
        self._wall_ms = wall_ms
        self._next_id = first_id
        self._pending: dict[int, PendingCheckpoint] = {}
        self._attempt = AttemptState.IDLE
        self._due_at = 0.0
        self._is_hastened = False
        self._ended_at: float | None = None
        self._failures_in_a_row = 0
        self._has_stopped = False

    @property
    def next_id(self) -> int:
        """The number of the next checkpoint, which never repeats within an attempt."""
        return self._next_id

    def number_after(self, checkpoint_id: int) -> None:
        """Skip the numbers up to that of a checkpoint unknown to this coordinator."""
        self._next_id = max(self._next_id, checkpoint_id + 1)

    @property
    def is_running(self) -> bool:
        """Whether there is an attempt of which all subtasks run or have finished."""
        return self._attempt is AttemptState.RUNNING

    @property
    def pending(self) -> tuple[PendingCheckpoint, ...]:
        """The pending checkpoints, oldest first."""
        return tuple(self._pending.values())

    # -- the job's attempts

    def attempt_runs(
        self, subtasks: Iterable[SubtaskId], finished: Iterable[SubtaskId], now: float
    ) -> None:
        """Begin an attempt of which every subtask runs.

        The subtasks in ``finished`` were restored as finished, and may report it again.
        """
        self._become(AttemptEvent.RUN)
        self._unfinished.begin(subtasks, finished)
        self._has_stopped = False
        self._begin_intervals(now)

    @property
    def is_suspended(self) -> bool:
        """Whether some subtasks of an attempt restart while the others continue."""
        return self._attempt is AttemptState.SUSPENDED

    def suspend(self, now: float) -> list[Order]:
        """Suspend checkpoints, because some subtasks must restart while the others continue."""
        self._become(AttemptEvent.SUSPEND)
        return self._abort_all(now)

    def restart(self, subtasks: Iterable[SubtaskId], finished: Iterable[SubtaskId]) -> None:
        """Restart ``subtasks``, of which the ones in ``finished`` are restored as finished.

        Their earlier messages are void, and their later messages count.
        """
        self._become(AttemptEvent.RESTART)
        self._unfinished.restart(subtasks, finished)

    def resume(self, now: float) -> None:
        """Resume checkpoints: every subtask runs again, or has ended since its restart."""
        self._become(AttemptEvent.RESUME)
        self._begin_intervals(now)
        self._hasten()

    def attempt_ends(self, now: float) -> list[Order]:
        """End the attempt, which has failed, was cancelled or has finished. Idempotent."""
        self._become(AttemptEvent.END)
        return self._abort_all(now)

    def _become(self, event: AttemptEvent) -> None:
        self._attempt = TRANSITIONS[self._attempt, event]

    def _begin_intervals(self, now: float) -> None:
        self._failures_in_a_row = 0
        self._due_at, self._is_hastened = now + self._interval_s, False

    def _abort_all(self, now: float) -> list[Order]:
        orders: list[Order] = []
        for checkpoint in self.pending:
            orders += self._abort(checkpoint, CheckpointFailureReason.ATTEMPT_ENDED, now)
        return orders

    def subtask_awaits(self, subtask: SubtaskId, taken: int) -> list[Order]:
        """Note that a subtask awaits its final checkpoint, the first one after ``taken``.

        The subtask has emitted its last record, and its consumers have read everything.
        """
        if self._attempt is AttemptState.IDLE:
            return []
        new_roots = self._unfinished.await_final(subtask, taken)
        self._hasten()
        return self._trigger_new_roots(new_roots)

    def subtask_finished(self, subtask: SubtaskId, taken: int = -1) -> list[Order]:
        """Note that a subtask has finished.

        It has captured its state up to checkpoint ``taken``. The acknowledgements of these
        checkpoints are still to come, and they count.
        """
        new_roots = self._unfinished.finish(subtask)
        self._hasten()
        orders: list[Order] = []
        for checkpoint in self.pending:
            if checkpoint.checkpoint_id <= taken:
                continue
            before = checkpoint.state
            checkpoint.subtask_finished(subtask)
            if checkpoint.state is not before:
                orders.append(Complete(checkpoint))
        return orders + self._trigger_new_roots(new_roots)

    # -- requests

    def trigger_savepoint(self, kind: CheckpointKind, now: float) -> Trigger:
        """Trigger a savepoint.

        Raises LocalProtocolError if not all subtasks run, or if the job already stops with a
        savepoint.
        """
        if not self.is_running or not self._unfinished.roots():
            raise LocalProtocolError(
                "a savepoint needs all subtasks of the job to run: try again when they do"
            )
        if self.is_stopping:
            raise LocalProtocolError("the job is already being stopped with a savepoint")
        return self._trigger(kind, now)

    def hasten(self) -> None:
        """Make the next periodic checkpoint due now, regardless of interval and pause."""
        self._due_at, self._is_hastened = 0.0, True

    # -- answers of subtasks and of the store

    def acknowledge(
        self, checkpoint_id: int, subtask: SubtaskId, report: SubtaskReport
    ) -> Order | None:
        """Take the acknowledgement of a subtask, which has written its state."""
        checkpoint = self._pending.get(checkpoint_id)
        if checkpoint is None or not checkpoint.acknowledge(subtask, report):
            return None
        return Complete(checkpoint) if checkpoint.state is CheckpointState.COMPLETING else None

    def decline(
        self,
        checkpoint_id: int,
        reason: CheckpointFailureReason,
        explanation: str,
        now: float,
    ) -> list[Order]:
        """Abort a checkpoint that a subtask could not take part in, or could not write."""
        checkpoint = self._pending.get(checkpoint_id)
        if checkpoint is None or checkpoint.state is not CheckpointState.PENDING:
            return []
        return self._abort(checkpoint, reason, now, explanation)

    def completed(self, checkpoint_id: int, now: float) -> list[Order]:
        """Note that the metadata of a checkpoint is written."""
        checkpoint = self._pending.pop(checkpoint_id, None)
        if checkpoint is None:
            # The checkpoint was aborted meanwhile and never announced. The next attempt may already
            # run from an earlier one.
            return [Discard(checkpoint_id)]
        checkpoint.complete()
        self._has_stopped = self._has_stopped or checkpoint.stops
        self._ended(checkpoint, now)
        orders: list[Order] = []
        if checkpoint.can_be_subsumed:
            # Not after a savepoint: it neither ends a series of failures nor serves a restart.
            self._failures_in_a_row = 0
            self.latest = checkpoint
            for other in self.pending:
                if other.can_be_subsumed and other.checkpoint_id < checkpoint_id:
                    orders += self._abort(other, CheckpointFailureReason.SUBSUMED, now)
        orders.append(NotifyCompleted(checkpoint_id, checkpoint.kind))
        return orders

    def completion_failed(
        self,
        checkpoint_id: int,
        failure: CheckpointFailure,
        now: float,
    ) -> list[Order]:
        """Abort a checkpoint because its metadata could not be written."""
        checkpoint = self._pending.get(checkpoint_id)
        if checkpoint is None:
            return []
        return self._abort(checkpoint, failure.reason, now, failure.explanation)

    # -- time

    @property
    def deadline(self) -> float | None:
        """Latest time for the next ``tick``; None if it depends on other events."""
        times = [self._expires_at(checkpoint) for checkpoint in self.pending]
        due_at = self._next_trigger_at
        return min(times if due_at is None else [*times, due_at], default=None)

    def tick(self, now: float) -> list[Order]:
        """Expire checkpoints and trigger the next periodic one, if they are due at ``now``."""
        orders: list[Order] = []
        for checkpoint in self.pending:
            if now >= self._expires_at(checkpoint):
                orders += self._abort(checkpoint, CheckpointFailureReason.EXPIRED, now)
        due_at = self._next_trigger_at
        if due_at is not None and now >= due_at:
            orders.append(self._trigger(CheckpointKind.CHECKPOINT, now))
        return orders

    @property
    def _next_trigger_at(self) -> float | None:
        if not self._periodic:
            return None
        # No checkpoint is due before every subtask runs, after the last has finished, or during and
        # after a savepoint that stops the job.
        periodic = sum(checkpoint.can_be_subsumed for checkpoint in self.pending)
        if not self.is_running or self.is_stopping or periodic >= self.config.concurrent:
            return None
        # The barriers of an unaligned checkpoint would overtake those of a savepoint. Subtasks
        # would then abort the savepoint as subsumed.
        if self.config.unaligned and len(self._pending) > periodic:
            return None
        if self._unfinished.is_empty:
            return None
        if self._ended_at is None or self._is_hastened:
            return self._due_at
        return max(self._due_at, self._ended_at + self.config.min_pause_ms / 1000)

    @property
    def _interval_s(self) -> float:
        return self.config.interval_ms / 1000

    @property
    def is_stopping(self) -> bool:
        """Whether the job stops with a savepoint that is complete or pending."""
        return self._has_stopped or any(checkpoint.stops for checkpoint in self.pending)

    def _expires_at(self, checkpoint: PendingCheckpoint) -> float:
        return checkpoint.triggered_at + self.config.timeout_ms / 1000

    def _trigger(self, kind: CheckpointKind, now: float) -> Trigger:
        checkpoint = PendingCheckpoint(
            self._next_id,
            kind,
            self._unfinished,
            self._unfinished.finished,
            triggered_at=now,
            timestamp_ms=self._wall_ms(now),
        )
        self._next_id += 1
        self._pending[checkpoint.checkpoint_id] = checkpoint
        self.history.note_trigger()
        if checkpoint.can_be_subsumed:
            self._due_at = now + self._interval_s
            self._is_hastened = False
        return self._trigger_subtasks(checkpoint, self._unfinished.roots())

    def _trigger_subtasks(
        self, checkpoint: PendingCheckpoint, subtasks: tuple[SubtaskId, ...]
    ) -> Trigger:
        checkpoint.triggered.update(subtasks)
        return Trigger(checkpoint.checkpoint_id, checkpoint.timestamp_ms, checkpoint.kind, subtasks)

    def _trigger_new_roots(self, roots: Iterable[SubtaskId]) -> list[Order]:
        """Trigger the pending checkpoints at new roots.

        A subtask may end before it passes a barrier on. The roots behind it would wait forever for
        that barrier.
        """
        orders: list[Order] = []
        for checkpoint in self.pending:
            if checkpoint.state is CheckpointState.PENDING:
                new = checkpoint.missing.intersection(roots) - checkpoint.triggered
                if new:
                    orders.append(self._trigger_subtasks(checkpoint, tuple(sorted(new))))
        return orders

    def _hasten(self) -> None:
        """Make a checkpoint due if all unfinished subtasks await one and none is pending for them.

        Otherwise the job would idle until the end of the interval.
        """
        newest = self._unfinished.newest_awaited
        if not self.is_running or newest is None:
            return
        awaited = any(
            checkpoint.can_be_subsumed and checkpoint.checkpoint_id > newest
            for checkpoint in self.pending
        )
        if not awaited:
            self.hasten()

    def _abort(
        self,
        checkpoint: PendingCheckpoint,
        reason: CheckpointFailureReason,
        now: float,
        explanation: str = "",
    ) -> list[Order]:
        del self._pending[checkpoint.checkpoint_id]
        checkpoint.abort(reason)
        self._ended(checkpoint, now, explanation)
        orders: list[Order] = [
            NotifyAborted(checkpoint.checkpoint_id),
            Discard(checkpoint.checkpoint_id),
        ]
        if not reason.is_failure:
            # Without an error, another checkpoint follows at once if the remaining subtasks await
            # one.
            self._hasten()
        elif reason.counts and checkpoint.can_be_subsumed:
            self._failures_in_a_row += 1
            if self._failures_in_a_row > self.config.tolerable_failures:
                orders.append(FailJob(self._too_many_failures(checkpoint, reason, explanation)))
        # A job to be drained has already emitted results that only its end may bring, such as those
        # of open windows. It cannot continue.
        drains = checkpoint.kind is CheckpointKind.SAVEPOINT_TERMINATE
        if drains and reason is not CheckpointFailureReason.ATTEMPT_ENDED:
            why = f"{reason.value}{': ' if explanation else ''}{explanation}"
            orders.append(FailJob(f"the savepoint that was to drain the job failed: {why}"))
        return orders

    def _too_many_failures(
        self, checkpoint: PendingCheckpoint, reason: CheckpointFailureReason, explanation: str
    ) -> str:
        missing = len(checkpoint.missing)
        waited = f"; {missing} subtasks had not acknowledged it" if missing else ""
        detail = f": {explanation}" if explanation else ""
        return (
            f"{self._failures_in_a_row} checkpoints failed in a row, more than the "
            f"{self.config.tolerable_failures} that are tolerated "
            f"(set_tolerable_checkpoint_failure_number); the last one, {checkpoint.checkpoint_id}, "
            f"because {reason.value}{detail}{waited}"
        )

    def _ended(self, checkpoint: PendingCheckpoint, now: float, explanation: str = "") -> None:
        self.history.note_end(checkpoint, now, explanation)
        if checkpoint.can_be_subsumed:
            self._ended_at = now

    def check_invariants(self) -> None:
        """Raise AssertionError if the state is inconsistent."""
        self._unfinished.check_invariants()
        for checkpoint_id, checkpoint in self._pending.items():
            checkpoint.check_invariants()
            assert checkpoint_id == checkpoint.checkpoint_id < self._next_id, "numbered wrongly"
            assert not checkpoint.state.is_terminal, "an ended checkpoint is still pending"
        periodic = sum(checkpoint.can_be_subsumed for checkpoint in self.pending)
        assert periodic <= self.config.concurrent, "too many concurrent checkpoints"
        assert self.is_running or not self._pending, "a checkpoint is pending without an attempt"
        self.history.check_invariants(len(self._pending))
