"""The state of the attempt for which a coordinator takes checkpoints.

Theory of operation
-------------------
::

    IDLE       RUN -> RUNNING, END -> IDLE
    RUNNING    SUSPEND -> SUSPENDED, END -> IDLE
    SUSPENDED  RESTART -> SUSPENDED, RESUME -> RUNNING, END -> IDLE

Checkpoints are triggered while the attempt is RUNNING. It is SUSPENDED while failed regions
restart. Regions may restart repeatedly, together or in succession, and the subtasks of one may run
and end before those of another are deployed. Each RESTART names the subtasks that restart. Their
earlier messages are void, their later messages count, and so does every message of the subtasks
that continue. RESUME names no subtasks: it says that each one runs or has ended.
"""

from __future__ import annotations

from enum import Enum

from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "AttemptEvent", "AttemptState"]


class AttemptEvent(Enum):
    """An event in the life of an attempt."""

    RUN = "every subtask of a new attempt runs"
    SUSPEND = "some subtasks will restart, and the others continue"
    RESTART = "some subtasks restart"
    RESUME = "every subtask runs again, or has ended"
    END = "the attempt has failed, is cancelled or ends"


class AttemptState(Enum):
    """The state of an attempt."""

    IDLE = "there is no attempt in which every subtask runs"
    RUNNING = "every subtask runs, or has ended"
    SUSPENDED = "some subtasks will restart or are restarting, and the others continue"


_S, _E = AttemptState, AttemptEvent

TRANSITIONS: Transitions[AttemptState, AttemptEvent] = Transitions(
    {
        (_S.IDLE, _E.RUN): _S.RUNNING,
        (_S.IDLE, _E.END): _S.IDLE,
        (_S.RUNNING, _E.SUSPEND): _S.SUSPENDED,
        (_S.RUNNING, _E.END): _S.IDLE,
        (_S.SUSPENDED, _E.RESTART): _S.SUSPENDED,
        (_S.SUSPENDED, _E.RESUME): _S.RUNNING,
        (_S.SUSPENDED, _E.END): _S.IDLE,
    }
)
