"""A checkpoint under way: which subtasks have taken part, and how it ends.

Theory of operation
-------------------
::

    PENDING     ACKNOWLEDGE -> COMPLETING, ABORT -> ABORTED
    COMPLETING  COMPLETE -> COMPLETED, ABORT -> ABORTED

It is PENDING until every subtask of the job has acknowledged it, or has finished: one that has come
to its end has nothing left to capture, and takes part by having finished. COMPLETING is the time in
which its metadata is written, and only COMPLETED means that the job can be restored from it.

A subtask that finishes after it has acknowledged keeps what it captured then: what it has done
since is done again by whoever restores the checkpoint.

Owned: the expected subtasks that have not answered, the reports of those that have. Invariant: both
together, and those that have finished, are all subtasks of the job, and none is in two of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, TypeAlias

from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.transitions import Transitions
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = [
    "TRANSITIONS",
    "CheckpointEvent",
    "CheckpointState",
    "PendingCheckpoint",
    "SubtaskId",
    "SubtaskReport",
]

SubtaskId: TypeAlias = tuple[int, int]
"""(vertex, index)"""


class CheckpointEvent(Enum):
    """What happens to a checkpoint."""

    ACKNOWLEDGE = "every subtask has acknowledged it"
    COMPLETE = "its metadata is written"
    ABORT = "it will not come about"


class CheckpointState(Enum):
    """Where a checkpoint stands."""

    PENDING = "subtasks are still to acknowledge it"
    COMPLETING = "its metadata is being written"
    COMPLETED = "a job can be restored from it"
    ABORTED = "it did not come about"

    @property
    def is_terminal(self) -> bool:
        """Nothing changes any more."""
        return not any((self, event) in TRANSITIONS for event in CheckpointEvent)


_S, _E = CheckpointState, CheckpointEvent

TRANSITIONS: Transitions[CheckpointState, CheckpointEvent] = Transitions(
    {
        (_S.PENDING, _E.ACKNOWLEDGE): _S.COMPLETING,
        (_S.PENDING, _E.ABORT): _S.ABORTED,
        (_S.COMPLETING, _E.COMPLETE): _S.COMPLETED,
        (_S.COMPLETING, _E.ABORT): _S.ABORTED,
    }
)


class SubtaskReport(NamedTuple):
    """What a subtask says of its part in a checkpoint."""

    handle: bytes = b""
    """Where it has written its state: opaque to who keeps the books."""
    start_delay_ms: float = 0.0
    """From the trigger to the first barrier."""
    alignment_ms: float = 0.0
    """From the first barrier to the last."""
    sync_ms: float = 0.0
    """How long records waited while the state was captured."""
    async_ms: float = 0.0
    """How long the state was then written."""
    state_bytes: int = 0
    """Of all that was written, ``persisted_bytes`` included."""
    processed_bytes: int = 0
    """In-flight bytes that were processed during the alignment."""
    persisted_bytes: int = 0
    """In-flight bytes that became part of the checkpoint."""
    finished: bool = False
    """Whether its last record was in front of the checkpoint, so that it need not run again."""
    unaligned: bool = False
    """Whether its barriers have overtaken data."""
    acknowledged_ms: int = 0
    """When that came, in milliseconds since 1970, by the coordinator's clock."""


class PendingCheckpoint:
    """One checkpoint. Times are the coordinator's clock, in seconds."""

    def __init__(
        self,
        checkpoint_id: int,
        kind: CheckpointKind,
        expected: Iterable[SubtaskId],
        finished: Iterable[SubtaskId],
        *,
        triggered_at: float,
        timestamp_ms: int,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.kind = kind
        self.triggered_at = triggered_at
        self.timestamp_ms = timestamp_ms
        self.state = CheckpointState.PENDING
        self.reason: CheckpointFailureReason | None = None
        self.reports: dict[SubtaskId, SubtaskReport] = {}
        self.missing = set(expected)
        """Those that have neither acknowledged nor finished."""
        self.finished = set(finished)
        """Those that had finished before they could capture anything."""
        self.triggered: set[SubtaskId] = set()
        """Those that were told to begin it; the others are told by a barrier."""
        self._subtasks = self.missing | self.finished

    @property
    def can_be_subsumed(self) -> bool:
        """Whether nobody needs it once a later one is complete."""
        return not self.kind.is_savepoint

    @property
    def stops(self) -> bool:
        """Whether the job ends with it."""
        return self.kind.stops

    def acknowledge(self, subtask: SubtaskId, report: SubtaskReport) -> bool:
        """A subtask has taken part; whether that was news, and expected."""
        if self.state is not CheckpointState.PENDING or subtask not in self.missing:
            return False
        self.missing.discard(subtask)
        self.reports[subtask] = report
        self._advance()
        return True

    def subtask_finished(self, subtask: SubtaskId) -> None:
        """A subtask has come to its end, and with that takes part if it has not done so."""
        if self.state is CheckpointState.PENDING and subtask in self.missing:
            self.missing.discard(subtask)
            self.finished.add(subtask)
            self._advance()

    def complete(self) -> None:
        """Its metadata is written."""
        self._become(CheckpointEvent.COMPLETE)

    def abort(self, reason: CheckpointFailureReason) -> None:
        """It will not come about."""
        self._become(CheckpointEvent.ABORT)
        self.reason = reason

    def _advance(self) -> None:
        if not self.missing:
            self._become(CheckpointEvent.ACKNOWLEDGE)

    def _become(self, event: CheckpointEvent) -> None:
        self.state = TRANSITIONS[self.state, event]

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        parts = self.missing, set(self.reports), self.finished
        assert set().union(*parts) == self._subtasks, "a subtask is nowhere"
        assert sum(map(len, parts)) == len(self._subtasks), "a subtask is in two places"
        complete = self.state in (CheckpointState.COMPLETING, CheckpointState.COMPLETED)
        assert not (complete and self.missing), "complete without all subtasks"
        pending = self.state is CheckpointState.PENDING
        assert not (pending and not self.missing), "nobody is missing, and it is still pending"
        aborted = self.state is CheckpointState.ABORTED
        assert aborted == (self.reason is not None), "aborted for no reason, or not aborted"
