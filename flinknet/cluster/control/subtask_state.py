"""The states of a subtask, from the coordinator's point of view (Flink's ExecutionState).

::

    DEPLOYING  RUN -> RUNNING, FINISH -> FINISHED, FAIL -> FAILED, RELEASE -> CANCELED
    RUNNING    FINISH -> FINISHED, FAIL -> FAILED, RELEASE -> CANCELED

An event that is not in the table for the present state comes too late.
"""

from __future__ import annotations

from enum import Enum

from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "SubtaskEvent", "SubtaskState"]


class SubtaskEvent(Enum):
    """An event in a subtask."""

    RUN = "every worker has opened its subtasks"
    FINISH = "its result has arrived"
    FAIL = "it has failed, could not be opened, or its worker is lost"
    RELEASE = "its worker has released it"


class SubtaskState(Enum):
    """The state of a subtask; the names are part of the protocol."""

    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    def takes(self, event: SubtaskEvent) -> bool:
        """Return whether the event may happen in this state."""
        return (self, event) in TRANSITIONS

    @property
    def is_pending(self) -> bool:
        """Whether the subtask may still run on its worker."""
        return self.takes(SubtaskEvent.RELEASE)


_S, _E = SubtaskState, SubtaskEvent

TRANSITIONS: Transitions[SubtaskState, SubtaskEvent] = Transitions(
    {
        (_S.DEPLOYING, _E.RUN): _S.RUNNING,
        (_S.DEPLOYING, _E.FINISH): _S.FINISHED,
        (_S.DEPLOYING, _E.FAIL): _S.FAILED,
        (_S.DEPLOYING, _E.RELEASE): _S.CANCELED,
        (_S.RUNNING, _E.FINISH): _S.FINISHED,
        (_S.RUNNING, _E.FAIL): _S.FAILED,
        (_S.RUNNING, _E.RELEASE): _S.CANCELED,
    }
)
