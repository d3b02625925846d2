"""A subtask's part in one checkpoint: what it has captured, and what becomes of that.

Theory of operation
-------------------
::

    DUE        CAPTURE -> CAPTURED, ALIGN -> ALIGNED, REFUSE -> DECLINED, ABORT -> ABORTED
    ALIGNED    CAPTURE -> WRITING, REFUSE -> DECLINED, ABORT -> ABORTED
    CAPTURED   ALIGN -> WRITING, ABORT -> ABORTED
    WRITING    ACKNOWLEDGE -> ACKNOWLEDGED, REFUSE -> DECLINED, ABORT -> ABORTED

A part is written when two things have happened, in either order: its state is captured, and every
barrier has come. The capture comes first but for a savepoint with which the job ends, whose capture
is a mail. ACKNOWLEDGED, DECLINED and ABORTED are final: an abort that comes after an answer does
not take that back.

The part has the snapshots in CAPTURED alone, and ``abort`` hands them over to be closed. In WRITING
they are the writer's, which closes them however it ends, also if it is cancelled before it has
begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flinknet.checkpoint.alignment_metrics import AlignmentMetrics
from flinknet.runtime.channel_capture import InFlight
from flinknet.state.state_handler import OperatorSnapshot
from flinknet.transitions import Transitions
from flinknet.wire.events import CheckpointBarrier

__all__ = ["TRANSITIONS", "Captured", "CheckpointPart", "PartEvent", "PartState", "Written"]


class PartEvent(Enum):
    """What happens to a part."""

    CAPTURE = "the state is captured"
    ALIGN = "every barrier has come"
    ACKNOWLEDGE = "everything is written"
    REFUSE = "the subtask cannot capture or write its state"
    ABORT = "the checkpoint is given up"


class PartState(Enum):
    """Where a part stands."""

    DUE = "its state is to be captured, and barriers are missing"
    ALIGNED = "its state is to be captured, and every barrier has come"
    CAPTURED = "its state is captured, and barriers are missing"
    WRITING = "its state is being written"
    ACKNOWLEDGED = "the coordinator is told that it is written"
    DECLINED = "the coordinator is told why it cannot be written"
    ABORTED = "it is dropped"


_S, _E = PartState, PartEvent

TRANSITIONS: Transitions[PartState, PartEvent] = Transitions(
    {
        (_S.DUE, _E.CAPTURE): _S.CAPTURED,
        (_S.DUE, _E.ALIGN): _S.ALIGNED,
        (_S.DUE, _E.REFUSE): _S.DECLINED,
        (_S.DUE, _E.ABORT): _S.ABORTED,
        (_S.ALIGNED, _E.CAPTURE): _S.WRITING,
        (_S.ALIGNED, _E.REFUSE): _S.DECLINED,
        (_S.ALIGNED, _E.ABORT): _S.ABORTED,
        (_S.CAPTURED, _E.ALIGN): _S.WRITING,
        (_S.CAPTURED, _E.ABORT): _S.ABORTED,
        (_S.WRITING, _E.ACKNOWLEDGE): _S.ACKNOWLEDGED,
        (_S.WRITING, _E.REFUSE): _S.DECLINED,
        (_S.WRITING, _E.ABORT): _S.ABORTED,
    }
)

_FINAL = (PartState.ACKNOWLEDGED, PartState.DECLINED, PartState.ABORTED)


@dataclass(frozen=True, slots=True)
class Captured:
    """What the synchronous half of a checkpoint leaves for the asynchronous one."""

    snapshots: list[OperatorSnapshot]
    in_flight: InFlight | None
    sync_ms: float
    has_finished: bool
    """Whether the subtask had emitted its last record; then there may be no snapshots."""

    def close(self) -> None:
        """Let go of the snapshots; idempotent."""
        for snapshot in self.snapshots:
            snapshot.close()


@dataclass(frozen=True, slots=True)
class Written:
    """What is to be written, and how long its barriers took."""

    barrier: CheckpointBarrier
    captured: Captured
    alignment: AlignmentMetrics


class CheckpointPart:
    """One subtask's part in the checkpoint of a barrier."""

    __slots__ = ("_data", "barrier", "state")

    def __init__(self, barrier: CheckpointBarrier) -> None:
        self.barrier = barrier
        self.state = PartState.DUE
        self._data: Captured | AlignmentMetrics | None = None

    @property
    def is_final(self) -> bool:
        """Whether nothing happens to it any more."""
        return self.state in _FINAL

    def capture(self, captured: Captured) -> Written | None:
        """The state is captured; return what is to be written, None if barriers are missing."""
        alignment = self._data
        if isinstance(alignment, AlignmentMetrics):
            self._become(PartEvent.CAPTURE)
            return Written(self.barrier, captured, alignment)
        self._become(PartEvent.CAPTURE, captured)
        return None

    def align(self, alignment: AlignmentMetrics) -> Written | None:
        """Every barrier has come; return what is to be written, None if it is not captured yet."""
        captured = self._data
        if isinstance(captured, Captured):
            self._become(PartEvent.ALIGN)
            return Written(self.barrier, captured, alignment)
        self._become(PartEvent.ALIGN, alignment)
        return None

    def acknowledge(self) -> None:
        """Everything is written."""
        self._become(PartEvent.ACKNOWLEDGE)

    def refuse(self) -> None:
        """The subtask cannot capture or write its state."""
        self._become(PartEvent.REFUSE)

    def abort(self) -> Captured | None:
        """The checkpoint is given up; return what was captured and is not being written."""
        captured = self._data if isinstance(self._data, Captured) else None
        self._become(PartEvent.ABORT)
        return captured

    def _become(self, event: PartEvent, data: Captured | AlignmentMetrics | None = None) -> None:
        self.state, self._data = TRANSITIONS[self.state, event], data
