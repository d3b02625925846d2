"""The states of a subtask, as the coordinator sees it and tells it (Flink's ExecutionState).

::

    DEPLOYING  RUN -> RUNNING, FINISH -> FINISHED, FAIL -> FAILED, RELEASE -> CANCELED
    RUNNING    FINISH -> FINISHED, FAIL -> FAILED, RELEASE -> CANCELED

What a worker says of a subtask for which nothing is in the table comes too late.
"""

from __future__ import annotations

from enum import Enum

from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "SubtaskEvent", "SubtaskState"]


class SubtaskEvent(Enum):
    """What happens to a subtask."""

    RUN = "every worker has opened its subtasks"
    FINISH = "its result has been taken in"
    FAIL = "it has failed, could not be opened, or its worker is lost"
    RELEASE = "its worker has let go of it"


class SubtaskState(Enum):
    """Where a subtask stands; the names travel."""

    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    def takes(self, event: SubtaskEvent) -> bool:
        """Whether the event may happen in this state."""
        return (self, event) in TRANSITIONS

    @property
    def is_pending(self) -> bool:
        """It may still run on its worker."""
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
