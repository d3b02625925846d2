"""A pending checkpoint: the subtasks that have taken part, and the outcome.

Theory of operation
-------------------
::

    PENDING     ACKNOWLEDGE -> COMPLETING, ABORT -> ABORTED
    COMPLETING  COMPLETE -> COMPLETED, ABORT -> ABORTED

A checkpoint is PENDING until every subtask of the job has acknowledged it or has finished. A
finished subtask has no state left to capture, so finishing counts as taking part. In COMPLETING the
metadata is written; a job can only be restored from a COMPLETED checkpoint.

A subtask that finishes after its acknowledgement keeps the state captured then. Its later work is
repeated after a restore.

Invariant: every subtask of the job is in exactly one of the sets of missing, reported and finished
subtasks.
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
"""Pair (vertex, index)."""


class CheckpointEvent(Enum):
    """An event in the life of a checkpoint."""

    ACKNOWLEDGE = "every subtask has acknowledged it"
    COMPLETE = "its metadata is written"
    ABORT = "it is aborted"


class CheckpointState(Enum):
    """The state of a checkpoint."""

    PENDING = "some subtasks have not acknowledged it"
    COMPLETING = "its metadata is being written"
    COMPLETED = "a job can be restored from it"
    ABORTED = "it was aborted"

    @property
    def is_terminal(self) -> bool:
        """Whether the state is final."""
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
    """A subtask's report on its part in a checkpoint."""

    handle: bytes = b""
    """Description of the written state (``state_handle.py``), opaque to the coordinator."""
    start_delay_ms: float = 0.0
    """Time from the trigger until the subtask first learned of the checkpoint."""
    alignment_ms: float = 0.0
    """Time from the first barrier to the last."""
    sync_ms: float = 0.0
    """Time for which records waited while the state was captured."""
    async_ms: float = 0.0
    """Time for writing the state."""
    state_bytes: int = 0
    """Size of all written state, including ``persisted_bytes``."""
    processed_bytes: int = 0
    """Bytes in flight that were processed during the alignment."""
    persisted_bytes: int = 0
    """Bytes in flight that became part of the checkpoint."""
    finished: bool = False
    """Whether the last record preceded the checkpoint, so that the subtask need not run again."""
    unaligned: bool = False
    """Whether barriers have overtaken data."""
    acknowledged_ms: int = 0
    """Arrival of the report, in milliseconds since 1970, by the coordinator's clock."""


class PendingCheckpoint:
    """One checkpoint. Times are seconds of the coordinator's clock."""

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
        """Subtasks that have neither acknowledged nor finished."""
        self.finished = set(finished)
        """Subtasks that had finished before they could capture any state."""
        self.triggered: set[SubtaskId] = set()
        """Subtasks that the coordinator has triggered; the others are triggered by a barrier."""
        self._subtasks = self.missing | self.finished

    @property
    def can_be_subsumed(self) -> bool:
        """Whether a later complete checkpoint makes this one obsolete."""
        return not self.kind.is_savepoint

    @property
    def stops(self) -> bool:
        """Whether the job stops with it."""
        return self.kind.stops

    def acknowledge(self, subtask: SubtaskId, report: SubtaskReport) -> bool:
        """Add a subtask's report; return False if it is unexpected or repeated."""
        if self.state is not CheckpointState.PENDING or subtask not in self.missing:
            return False
        self.missing.discard(subtask)
        self.reports[subtask] = report
        self._advance()
        return True

    def subtask_finished(self, subtask: SubtaskId) -> None:
        """Count a finished subtask as taking part, unless it has acknowledged."""
        # After an acknowledgement, the state captured for it counts.
        if self.state is CheckpointState.PENDING and subtask in self.missing:
            self.missing.discard(subtask)
            self.finished.add(subtask)
            self._advance()

    def complete(self) -> None:
        """Note that the metadata is written."""
        self._become(CheckpointEvent.COMPLETE)

    def abort(self, reason: CheckpointFailureReason) -> None:
        """Abort the checkpoint for a reason."""
        self._become(CheckpointEvent.ABORT)
        self.reason = reason

    def _advance(self) -> None:
        if not self.missing:
            self._become(CheckpointEvent.ACKNOWLEDGE)

    def _become(self, event: CheckpointEvent) -> None:
        self.state = TRANSITIONS[self.state, event]

    def check_invariants(self) -> None:
        """Raise AssertionError if the state is inconsistent."""
        parts = self.missing, set(self.reports), self.finished
        assert set().union(*parts) == self._subtasks, "a subtask is in no set"
        assert sum(map(len, parts)) == len(self._subtasks), "a subtask is in two sets"
        complete = self.state in (CheckpointState.COMPLETING, CheckpointState.COMPLETED)
        assert not (complete and self.missing), "complete without all subtasks"
        pending = self.state is CheckpointState.PENDING
        assert not (pending and not self.missing), "no subtask is missing, and it is still pending"
        aborted = self.state is CheckpointState.ABORTED
        assert aborted == (self.reason is not None), "aborted for no reason, or not aborted"
