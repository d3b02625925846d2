"""The states of a subtask in the worker that runs it.

Theory of operation (Flink's ExecutionState)::

    CREATED       OPEN -> DEPLOYING, FAILED -> FAILED, CANCEL -> CANCELED
    DEPLOYING     RUN -> INITIALIZING, FAILED -> FAILED, CANCEL -> CANCELED
    INITIALIZING  RUNNING -> RUNNING, FAILED -> FAILED, CANCEL -> CANCELING
    RUNNING       FINISHED -> FINISHED, FAILED -> FAILED, CANCEL -> CANCELING
    CANCELING     CLOSED -> CANCELED

``subtask.py`` takes the steps. What the coordinator knows of it is told by messages, and coarser
(``cluster/control/subtask_state.py``).
"""

from __future__ import annotations

from enum import Enum

from flinknet.errors import LocalProtocolError
from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "ExecutionState", "ExecutionStep"]


class ExecutionStep(Enum):
    """What moves a subtask on."""

    OPEN = "open"
    """Its partitions are registered, its gates have requested theirs."""
    RUN = "run"
    """Every subtask of the job has been opened: it may begin."""
    RUNNING = "running"
    """Its operators are open."""
    FINISHED = "finished"
    """Its whole input is processed, and its consumers have processed everything."""
    FAILED = "failed"
    """Something of it raised an error."""
    CANCEL = "cancel"
    """Nobody wants it any more."""
    CLOSED = "closed"
    """After a cancellation everything has been let go of."""


class ExecutionState(Enum):
    """Where a subtask stands; the value is what messages say of it."""

    CREATED = "it has not been opened"
    DEPLOYING = "it waits for the others to be opened"
    INITIALIZING = "its operators are being opened"
    RUNNING = "it is running"
    CANCELING = "it is being cancelled"
    FINISHED = "it has finished"
    CANCELED = "it has been cancelled"
    FAILED = "it has failed"

    def after(self, step: ExecutionStep, subtask: object) -> ExecutionState:
        """The state after a step. Raises LocalProtocolError, which names the subtask, for a step
        that must not come in this state."""
        if (self, step) not in TRANSITIONS:
            raise LocalProtocolError(f"{subtask} takes no step {step.name}: {self.value}")
        return TRANSITIONS[self, step]

    @property
    def is_terminal(self) -> bool:
        """Whether nothing changes any more."""
        return self in (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)


_S, _E = ExecutionState, ExecutionStep

TRANSITIONS: Transitions[ExecutionState, ExecutionStep] = Transitions(
    {
        (_S.CREATED, _E.OPEN): _S.DEPLOYING,
        (_S.CREATED, _E.FAILED): _S.FAILED,
        (_S.CREATED, _E.CANCEL): _S.CANCELED,
        (_S.DEPLOYING, _E.RUN): _S.INITIALIZING,
        (_S.DEPLOYING, _E.FAILED): _S.FAILED,
        (_S.DEPLOYING, _E.CANCEL): _S.CANCELED,
        (_S.INITIALIZING, _E.RUNNING): _S.RUNNING,
        (_S.INITIALIZING, _E.FAILED): _S.FAILED,
        (_S.INITIALIZING, _E.CANCEL): _S.CANCELING,
        (_S.RUNNING, _E.FINISHED): _S.FINISHED,
        (_S.RUNNING, _E.FAILED): _S.FAILED,
        (_S.RUNNING, _E.CANCEL): _S.CANCELING,
        (_S.CANCELING, _E.CLOSED): _S.CANCELED,
    }
)
