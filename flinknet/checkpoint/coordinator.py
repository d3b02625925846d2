"""The checkpoint coordinator: when checkpoints are triggered, and what becomes of them.

Theory of operation
-------------------
One coordinator keeps the books of one job, over all its attempts; it knows no I/O and no clock.
What happens comes in through methods, with ``now`` in seconds; each returns *orders* for who can
carry them out, and ``deadline`` says when to call ``tick``.

- A *periodic* checkpoint is triggered ``interval_ms`` after the one before, unless that would be
  less than ``min_pause_ms`` after the end of the last one, or one too many at a time: then as soon
  as it may. None is triggered before every subtask runs, after the last has finished, or while a
  savepoint is under way with which the job ends. An unaligned one waits for every savepoint: its
  barriers would overtake those of the savepoint, which ends where that happens.
- A *savepoint* is triggered when it is asked for, beside whatever is under way. With some the job
  ends: after one that is complete nothing is triggered any more. If one fails, the job goes on; but
  if it was to *drain* the job, that has emitted what only its end may bring, and must fail.
- Barriers start at the *roots*: the subtasks that have not finished, of vertices whose inputs come
  from finished ones alone; at first, the sources. Who becomes a root while a checkpoint is under
  way, before any barrier of it has come, is triggered then.
- A subtask may *await* its final checkpoint: it and its outputs have ended, but what it has made is
  committed with the next one. To those behind it, it has finished. Once all who have not finished
  wait, one is triggered at once.
- Each subtask acknowledges, declines, or finishes (``pending_checkpoint.py``). After the last one
  the metadata is to be written (``Complete``); ``completed`` or ``completion_failed`` is the
  answer.
- A complete checkpoint *subsumes* the pending ones before it, but for savepoints, and is what the
  next attempt is restored from. A savepoint is neither: users may delete it at any time.
- One that is declined, not in time, or cannot be written is *aborted*. So many periodic ones may
  fail in a row as ``tolerable_failures`` says; one more, and the job is to fail. A complete one
  begins the count anew; those that were subsumed, or ended with their attempt, or found no room,
  do not count.

What is told of a checkpoint that is not under way any more comes too late and changes nothing, but
that of one whose metadata was written after all, which is to be discarded.

- While some subtasks begin again and others go on, the books are *suspended*, as
  ``attempt_state.py`` says: what was under way is aborted and nothing is triggered. A subtask that
  finishes meanwhile, or begins to await its final checkpoint, counts, also if it began again.

Owned: the number of the next checkpoint, which never repeats in an attempt, and is larger than that
of each that was complete before it; the checkpoints under way;
failures in a row; the history. Flink: CheckpointCoordinator, CheckpointRequestDecider,
CheckpointFailureManager, DefaultCheckpointPlanCalculator.
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
"""Ended checkpoints whose story is kept. Flink: web.checkpoints.history (10)."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Have these subtasks begin the checkpoint."""

    checkpoint_id: int
    timestamp_ms: int
    kind: CheckpointKind
    subtasks: tuple[SubtaskId, ...]


@dataclass(frozen=True, slots=True)
class Complete:
    """Write the metadata of this checkpoint, and say how that went."""

    checkpoint: PendingCheckpoint


@dataclass(frozen=True, slots=True)
class NotifyCompleted:
    """Tell every subtask that the checkpoint is complete."""

    checkpoint_id: int
    kind: CheckpointKind


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Tell every subtask that the checkpoint will not come about."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Remove what was written of a checkpoint that did not come about."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FailJob:
    """Too many checkpoints have failed in a row."""

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
        """``inputs`` says for every vertex of the job of which vertices it reads; ``wall_ms``
        makes milliseconds since 1970 of a time of the coordinator's clock. Without ``periodic``
        there are savepoints alone."""
        self.config = config
        self.history = CheckpointHistory(HISTORY_RETAINED)
        self.latest: PendingCheckpoint | None = None
        """The checkpoint of this job that was completed last. An attempt continues from one before
        it if its files turn out to be damaged."""
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
        """The number of the next checkpoint."""
        return self._next_id

    def number_after(self, checkpoint_id: int) -> None:
        """The job has a checkpoint of this number, of which these books do not know."""
        self._next_id = max(self._next_id, checkpoint_id + 1)

    @property
    def is_running(self) -> bool:
        """Whether there is an attempt of which all subtasks run, or have finished."""
        return self._attempt is AttemptState.RUNNING

    @property
    def pending(self) -> tuple[PendingCheckpoint, ...]:
        """Those under way, oldest first."""
        return tuple(self._pending.values())

    # -- the job's attempts

    def attempt_runs(
        self, subtasks: Iterable[SubtaskId], finished: Iterable[SubtaskId], now: float
    ) -> None:
        """Every subtask of an attempt runs; those in ``finished`` have been restored as such, and
        may say so again."""
        self._become(AttemptEvent.RUN)
        self._unfinished.begin(subtasks, finished)
        self._has_stopped = False
        self._begin_intervals(now)

    @property
    def is_suspended(self) -> bool:
        """Whether some subtasks of an attempt begin again while the others go on."""
        return self._attempt is AttemptState.SUSPENDED

    def suspend(self, now: float) -> list[Order]:
        """Some subtasks of the attempt are to begin again; the others go on."""
        self._become(AttemptEvent.SUSPEND)
        return self._abort_all(now)

    def restart(self, subtasks: Iterable[SubtaskId], finished: Iterable[SubtaskId]) -> None:
        """These subtasks begin again, and those of them in ``finished`` are restored as such: what
        they said before is void, and what they say from now on counts."""
        self._become(AttemptEvent.RESTART)
        self._unfinished.restart(subtasks, finished)

    def resume(self, now: float) -> None:
        """Every subtask runs again, or has ended since it began again."""
        self._become(AttemptEvent.RESUME)
        self._begin_intervals(now)
        self._hasten()

    def attempt_ends(self, now: float) -> list[Order]:
        """The attempt has failed, is cancelled or comes to its end; idempotent."""
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
        """A subtask has emitted its last record, and those that read it have read everything: it
        ends when a checkpoint behind ``taken`` is complete."""
        if self._attempt is AttemptState.IDLE:
            return []
        new_roots = self._unfinished.await_final(subtask, taken)
        self._hasten()
        return self._trigger_new_roots(new_roots)

    def subtask_finished(self, subtask: SubtaskId, taken: int = -1) -> list[Order]:
        """A subtask has come to its end, having captured its state up to checkpoint ``taken``: of
        those the acknowledgement is still to come, and counts."""
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

    # -- what is asked for

    def trigger_savepoint(self, kind: CheckpointKind, now: float) -> Trigger:
        """Trigger a savepoint.

        LocalProtocolError if not all subtasks run, or the job already ends with a savepoint.
        """
        if not self.is_running or not self._unfinished.roots():
            raise LocalProtocolError(
                "a savepoint needs a job whose subtasks all run: try again when it does"
            )
        if self.is_stopping:
            raise LocalProtocolError("the job already ends with a savepoint that is under way")
        return self._trigger(kind, now)

    def hasten(self) -> None:
        """Have the next periodic checkpoint triggered as soon as it may be, whatever the interval
        and the pause between two are."""
        self._due_at, self._is_hastened = 0.0, True

    # -- what subtasks and the store say

    def acknowledge(
        self, checkpoint_id: int, subtask: SubtaskId, report: SubtaskReport
    ) -> Order | None:
        """A subtask has written its state."""
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
        """A subtask could not take part, or could not write its state."""
        checkpoint = self._pending.get(checkpoint_id)
        if checkpoint is None or checkpoint.state is not CheckpointState.PENDING:
            return []
        return self._abort(checkpoint, reason, now, explanation)

    def completed(self, checkpoint_id: int, now: float) -> list[Order]:
        """The metadata of a checkpoint is written."""
        checkpoint = self._pending.pop(checkpoint_id, None)
        if checkpoint is None:
            # What was promised to nobody: the next attempt may already run from the one before.
            return [Discard(checkpoint_id)]
        checkpoint.complete()
        self._has_stopped = self._has_stopped or checkpoint.stops
        self._ended(checkpoint, now)
        orders: list[Order] = []
        if checkpoint.can_be_subsumed:
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
        """The metadata of a checkpoint could not be written."""
        checkpoint = self._pending.get(checkpoint_id)
        if checkpoint is None:
            return []
        return self._abort(checkpoint, failure.reason, now, failure.explanation)

    # -- time

    @property
    def deadline(self) -> float | None:
        """When ``tick`` must be called at the latest; None for as long as nothing else happens."""
        times = [self._expires_at(checkpoint) for checkpoint in self.pending]
        due_at = self._next_trigger_at
        return min(times if due_at is None else [*times, due_at], default=None)

    def tick(self, now: float) -> list[Order]:
        """Act on what time has brought."""
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
        periodic = sum(checkpoint.can_be_subsumed for checkpoint in self.pending)
        if not self.is_running or self.is_stopping or periodic >= self.config.concurrent:
            return None
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
        """Whether the job ends with a savepoint that is complete, or under way."""
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
        return self._have_begin(checkpoint, self._unfinished.roots())

    def _have_begin(
        self, checkpoint: PendingCheckpoint, subtasks: tuple[SubtaskId, ...]
    ) -> Trigger:
        checkpoint.triggered.update(subtasks)
        return Trigger(checkpoint.checkpoint_id, checkpoint.timestamp_ms, checkpoint.kind, subtasks)

    def _trigger_new_roots(self, roots: Iterable[SubtaskId]) -> list[Order]:
        """Let new roots begin the pending checkpoints themselves.

        A subtask may have ended before it could pass a barrier on. The roots behind it would wait
        for that barrier for ever.
        """
        orders: list[Order] = []
        for checkpoint in self.pending:
            if checkpoint.state is CheckpointState.PENDING:
                new = checkpoint.missing.intersection(roots) - checkpoint.triggered
                if new:
                    orders.append(self._have_begin(checkpoint, tuple(sorted(new))))
        return orders

    def _hasten(self) -> None:
        """Make a checkpoint due if all unfinished subtasks await one that is not under way.

        Otherwise the job would end only with the interval, in which nothing else happens.
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
            self._hasten()
        elif reason.counts and checkpoint.can_be_subsumed:
            self._failures_in_a_row += 1
            if self._failures_in_a_row > self.config.tolerable_failures:
                orders.append(FailJob(self._too_many_failures(checkpoint, reason, explanation)))
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
            f"{self._failures_in_a_row} checkpoints failed in a row, of which "
            f"{self.config.tolerable_failures} may (set_tolerable_checkpoint_failure_number); the "
            f"last one, {checkpoint.checkpoint_id}, because {reason.value}{detail}{waited}"
        )

    def _ended(self, checkpoint: PendingCheckpoint, now: float, explanation: str = "") -> None:
        self.history.note_end(checkpoint, now, explanation)
        if checkpoint.can_be_subsumed:
            self._ended_at = now

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        self._unfinished.check_invariants()
        for checkpoint_id, checkpoint in self._pending.items():
            checkpoint.check_invariants()
            assert checkpoint_id == checkpoint.checkpoint_id < self._next_id, "numbered wrongly"
            assert not checkpoint.state.is_terminal, "one that has ended is still under way"
        periodic = sum(checkpoint.can_be_subsumed for checkpoint in self.pending)
        assert periodic <= self.config.concurrent, "more at a time than may be"
        assert self.is_running or not self._pending, "under way without an attempt"
        self.history.check_invariants(len(self._pending))
