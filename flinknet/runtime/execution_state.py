"""The states of a subtask in its worker.

Theory of operation (Flink's ExecutionState)::

    CREATED       OPEN -> DEPLOYING, FAILED -> FAILED, CANCEL -> CANCELED
    DEPLOYING     RUN -> INITIALIZING, FAILED -> FAILED, CANCEL -> CANCELED
    INITIALIZING  RUNNING -> RUNNING, FAILED -> FAILED, CANCEL -> CANCELING
    RUNNING       FINISHED -> FINISHED, FAILED -> FAILED, CANCEL -> CANCELING
    CANCELING     CLOSED -> CANCELED

``subtask.py`` takes the steps. The coordinator keeps a coarser state, which it derives from
messages (``cluster/control/subtask_state.py``).
"""

from __future__ import annotations

from enum import Enum

from flinknet.errors import LocalProtocolError
from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "ExecutionState", "ExecutionStep"]


class ExecutionStep(Enum):
    """A step of a subtask from one state to the next."""

    OPEN = "open"
    """Its partitions are registered, and its gates have requested their partitions."""
    RUN = "run"
    """Every subtask of the job is open, so this one may begin."""
    RUNNING = "running"
    """Its operators are open."""
    FINISHED = "finished"
    """Its whole input is processed, and its consumers have processed all of its output."""
    FAILED = "failed"
    """Its code, or a component of it, raised an error."""
    CANCEL = "cancel"
    """Its job was cancelled, or the subtask is closed early."""
    CLOSED = "closed"
    """All resources are released after a cancellation."""


class ExecutionState(Enum):
    """The state of a subtask; messages use the value as text."""

    CREATED = "it has not been opened"
    DEPLOYING = "it waits until the other subtasks are opened"
    INITIALIZING = "its operators are being opened"
    RUNNING = "it is running"
    CANCELING = "it is being cancelled"
    FINISHED = "it has finished"
    CANCELED = "it has been cancelled"
    FAILED = "it has failed"

    def after(self, step: ExecutionStep, subtask: object) -> ExecutionState:
        """Return the state after a step.

        Raises LocalProtocolError, which names ``subtask``, if the step is illegal in this state.
        """
        if (self, step) not in TRANSITIONS:
            raise LocalProtocolError(f"{subtask} cannot take the step {step.name}: {self.value}")
        return TRANSITIONS[self, step]

    @property
    def is_terminal(self) -> bool:
        """Whether the state is final."""
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
