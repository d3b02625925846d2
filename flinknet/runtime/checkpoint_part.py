"""The part of one subtask in one checkpoint: its captured state, and the states it goes through.

Theory of operation
-------------------
::

    DUE        CAPTURE -> CAPTURED, ALIGN -> ALIGNED, REFUSE -> DECLINED, ABORT -> ABORTED
    ALIGNED    CAPTURE -> WRITING, REFUSE -> DECLINED, ABORT -> ABORTED
    CAPTURED   ALIGN -> WRITING, ABORT -> ABORTED
    WRITING    ACKNOWLEDGE -> ACKNOWLEDGED, REFUSE -> DECLINED, ABORT -> ABORTED

Writing begins when two things have happened, in either order: the state is captured, and every
barrier has arrived. The capture normally comes first. The exception is a savepoint that stops the
job, because its capture is a mail. ACKNOWLEDGED, DECLINED and ABORTED are final: an abort after an
answer does not take the answer back.

The part owns the snapshots only in CAPTURED, and ``abort`` returns them to be closed. In WRITING
they belong to the task that writes them. It closes them in every case, even if it is cancelled
before it starts.
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
    """An event in the life of a part."""

    CAPTURE = "the state is captured"
    ALIGN = "every barrier has arrived"
    ACKNOWLEDGE = "the state is written"
    REFUSE = "the subtask cannot capture or write its state"
    ABORT = "the checkpoint is aborted"


class PartState(Enum):
    """The state of a part."""

    DUE = "its state is not captured yet, and barriers are missing"
    ALIGNED = "its state is to be captured, and every barrier has arrived"
    CAPTURED = "its state is captured, and barriers are missing"
    WRITING = "its state is being written"
    ACKNOWLEDGED = "the coordinator is notified of the written state"
    DECLINED = "the coordinator is notified of the failure"
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
    """Result of the synchronous half of a checkpoint, and input of the asynchronous half."""

    snapshots: list[OperatorSnapshot]
    in_flight: InFlight | None
    sync_ms: float
    has_finished: bool
    """Whether the subtask had emitted its last record; then there may be no snapshots."""

    def close(self) -> None:
        """Release the snapshots. Idempotent."""
        for snapshot in self.snapshots:
            snapshot.close()


@dataclass(frozen=True, slots=True)
class Written:
    """Captured state to be written, with the alignment of its barriers."""

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
        """Whether the part is in a final state."""
        return self.state in _FINAL

    def capture(self, captured: Captured) -> Written | None:
        """Add the captured state; return the data to write, or None if barriers are missing."""
        alignment = self._data
        if isinstance(alignment, AlignmentMetrics):
            self._become(PartEvent.CAPTURE)
            return Written(self.barrier, captured, alignment)
        self._become(PartEvent.CAPTURE, captured)
        return None

    def align(self, alignment: AlignmentMetrics) -> Written | None:
        """Add the alignment; return the data to write, or None if the state is not captured yet."""
        captured = self._data
        if isinstance(captured, Captured):
            self._become(PartEvent.ALIGN)
            return Written(self.barrier, captured, alignment)
        self._become(PartEvent.ALIGN, alignment)
        return None

    def acknowledge(self) -> None:
        """Note that everything is written."""
        self._become(PartEvent.ACKNOWLEDGE)

    def refuse(self) -> None:
        """Note that the subtask cannot capture or write its state."""
        self._become(PartEvent.REFUSE)

    def abort(self) -> Captured | None:
        """Give the part up; return captured state that is not being written, to be closed."""
        captured = self._data if isinstance(self._data, Captured) else None
        self._become(PartEvent.ABORT)
        return captured

    def _become(self, event: PartEvent, data: Captured | AlignmentMetrics | None = None) -> None:
        self.state, self._data = TRANSITIONS[self.state, event], data
