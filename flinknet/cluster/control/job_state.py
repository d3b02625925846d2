"""The states of a job attempt, as coordinator and clients name them (Flink's JobStatus).

::

    CREATED     DEPLOY -> DEPLOYING, FAIL -> FAILING, CANCEL -> CANCELLING
    DEPLOYING   OPEN -> RUNNING, FAIL -> FAILING, CANCEL -> CANCELLING
    RUNNING     FINISH -> FINISHING, FAIL -> FAILING, CANCEL -> CANCELLING
    FINISHING   FAIL -> FAILING, END -> FINISHED
    FAILING     END -> FAILED
    CANCELLING  END -> CANCELED

``coordinator/jobs/job_execution.py`` defines when each event happens. RESTARTING is no state of an
attempt: a job is RESTARTING between an attempt that has FAILED and the next one. A job that is
CREATED for longer than a moment waits for slots.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "AttemptKey", "JobEvent", "JobState"]

AttemptKey: TypeAlias = tuple[str, int]
"""(job id, number of the attempt)"""


class JobEvent(Enum):
    """An event in a job attempt."""

    DEPLOY = "every worker is told to open its subtasks"
    OPEN = "every worker has opened them"
    FINISH = "every subtask has come to its end"
    FAIL = "the cause of a failure is known"
    CANCEL = "the user wants the job to stop"
    END = "all workers have released it, or the wait for them has timed out"


class JobState(Enum):
    """The state of a job attempt; the names are part of the protocol."""

    CREATED = "CREATED"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    FINISHING = "FINISHING"
    FAILING = "FAILING"
    CANCELLING = "CANCELLING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    RESTARTING = "RESTARTING"

    def takes(self, event: JobEvent) -> bool:
        """Return whether the event may happen in this state."""
        return (self, event) in TRANSITIONS

    @property
    def is_ending(self) -> bool:
        """Whether only the end of the attempt can follow."""
        return self.takes(JobEvent.END)

    @property
    def is_terminal(self) -> bool:
        """Whether the state is final."""
        return self is not JobState.RESTARTING and not any(map(self.takes, JobEvent))


_S, _E = JobState, JobEvent

TRANSITIONS: Transitions[JobState, JobEvent] = Transitions(
    {
        (_S.CREATED, _E.DEPLOY): _S.DEPLOYING,
        (_S.CREATED, _E.FAIL): _S.FAILING,
        (_S.CREATED, _E.CANCEL): _S.CANCELLING,
        (_S.DEPLOYING, _E.OPEN): _S.RUNNING,
        (_S.DEPLOYING, _E.FAIL): _S.FAILING,
        (_S.DEPLOYING, _E.CANCEL): _S.CANCELLING,
        (_S.RUNNING, _E.FINISH): _S.FINISHING,
        (_S.RUNNING, _E.FAIL): _S.FAILING,
        (_S.RUNNING, _E.CANCEL): _S.CANCELLING,
        (_S.FINISHING, _E.FAIL): _S.FAILING,
        (_S.FINISHING, _E.END): _S.FINISHED,
        (_S.FAILING, _E.END): _S.FAILED,
        (_S.CANCELLING, _E.END): _S.CANCELED,
    }
)
