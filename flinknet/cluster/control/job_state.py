"""The states of a job attempt and of its subtasks, as coordinator and clients call them.

Theory of operation
-------------------
A row is a state, a column a step, ``-`` is refused; a state without a row is terminal. Of an
attempt (Flink's JobStatus)::

    state       deploy     opened   finished   failed   cancel      end
    CREATED     DEPLOYING  -        -          -        -           -
    DEPLOYING   -          RUNNING  -          FAILING  CANCELLING  -
    RUNNING     -          -        FINISHING  FAILING  CANCELLING  -
    FINISHING   -          -        -          FAILING  -           FINISHED
    FAILING     -          -        -          -        -           FAILED
    CANCELLING  -          -        -          -        -           CANCELED

and of a subtask, as the coordinator sees it (Flink's ExecutionState)::

    state       opened   finished   failed   cancel
    DEPLOYING   RUNNING  FINISHED   FAILED   CANCELED
    RUNNING     -        FINISHED   FAILED   CANCELED

What brings each step is told by ``job_execution.py``.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from flinknet.errors import LocalProtocolError

__all__ = ["AttemptKey", "JobState", "JobStep", "SubtaskState", "SubtaskStep"]


AttemptKey: TypeAlias = tuple[str, int]
"""(job id, number of the attempt)"""


class JobStep(Enum):
    """What moves a job attempt on."""

    DEPLOY = "deploy"
    """Every worker is told to open its subtasks."""
    OPENED = "opened"
    """Every worker has."""
    FINISHED = "finished"
    """Every subtask has come to its end."""
    FAILED = "failed"
    """A cause was settled."""
    CANCEL = "cancel"
    """The user wants the job to stop."""
    END = "end"
    """Nothing of the attempt is left on the workers, or what is left is not waited for."""


class JobState(Enum):
    """Where a job attempt stands."""

    CREATED = "CREATED"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    FINISHING = "FINISHING"
    FAILING = "FAILING"
    CANCELLING = "CANCELLING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    def takes(self, step: JobStep) -> bool:
        """Whether the step may come in this state."""
        return (self, step) in _JOB_AFTER

    def after(self, step: JobStep) -> JobState:
        """The state after a step; LocalProtocolError if it must not come in this state."""
        if not self.takes(step):
            raise LocalProtocolError(f"a job that is {self.value} takes no step {step.name}")
        return _JOB_AFTER[self, step]

    @property
    def is_ending(self) -> bool:
        """What comes next is the end."""
        return self.takes(JobStep.END)

    @property
    def is_terminal(self) -> bool:
        """Nothing changes any more."""
        return not any(self.takes(step) for step in JobStep)


class SubtaskStep(Enum):
    """What moves a subtask on, as the coordinator hears of it."""

    OPENED = "opened"
    """It runs, as every worker has opened its subtasks."""
    FINISHED = "finished"
    """Its result has been taken in."""
    FAILED = "failed"
    """It has failed, could not be opened, or its worker is lost."""
    CANCEL = "cancel"
    """Its worker has let go of it, as it was told to."""


class SubtaskState(Enum):
    """Where a subtask stands."""

    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    def takes(self, step: SubtaskStep) -> bool:
        """Whether the step may come in this state."""
        return (self, step) in _SUBTASK_AFTER

    def after(self, step: SubtaskStep) -> SubtaskState:
        """The state after a step; LocalProtocolError if it must not come in this state."""
        if not self.takes(step):
            raise LocalProtocolError(f"a subtask that is {self.value} takes no step {step.name}")
        return _SUBTASK_AFTER[self, step]

    @property
    def is_pending(self) -> bool:
        """It may still run on its worker."""
        return self.takes(SubtaskStep.FINISHED)


_JOB_AFTER = {
    (JobState.CREATED, JobStep.DEPLOY): JobState.DEPLOYING,
    (JobState.DEPLOYING, JobStep.OPENED): JobState.RUNNING,
    (JobState.DEPLOYING, JobStep.FAILED): JobState.FAILING,
    (JobState.DEPLOYING, JobStep.CANCEL): JobState.CANCELLING,
    (JobState.RUNNING, JobStep.FINISHED): JobState.FINISHING,
    (JobState.RUNNING, JobStep.FAILED): JobState.FAILING,
    (JobState.RUNNING, JobStep.CANCEL): JobState.CANCELLING,
    (JobState.FINISHING, JobStep.FAILED): JobState.FAILING,
    (JobState.FINISHING, JobStep.END): JobState.FINISHED,
    (JobState.FAILING, JobStep.END): JobState.FAILED,
    (JobState.CANCELLING, JobStep.END): JobState.CANCELED,
}

_SUBTASK_AFTER = {
    (SubtaskState.DEPLOYING, SubtaskStep.OPENED): SubtaskState.RUNNING,
    (SubtaskState.DEPLOYING, SubtaskStep.FINISHED): SubtaskState.FINISHED,
    (SubtaskState.DEPLOYING, SubtaskStep.FAILED): SubtaskState.FAILED,
    (SubtaskState.DEPLOYING, SubtaskStep.CANCEL): SubtaskState.CANCELED,
    (SubtaskState.RUNNING, SubtaskStep.FINISHED): SubtaskState.FINISHED,
    (SubtaskState.RUNNING, SubtaskStep.FAILED): SubtaskState.FAILED,
    (SubtaskState.RUNNING, SubtaskStep.CANCEL): SubtaskState.CANCELED,
}
