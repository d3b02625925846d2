"""The states of attempts and subtasks: every row of the tables, and nothing beside them."""

from __future__ import annotations

import pytest

from flinknet.cluster.control import job_state
from flinknet.cluster.control.job_state import JobState, JobStep, SubtaskState, SubtaskStep
from flinknet.errors import LocalProtocolError
from tests.transition_table import transitions


@pytest.mark.parametrize(
    ("state", "step", "following"), transitions(job_state.__doc__, JobState, JobStep)
)
def test_a_job_goes_by_the_table(
    state: JobState, step: JobStep, following: JobState | None
) -> None:
    assert state.takes(step) == (following is not None)
    if following is not None:
        assert state.after(step) is following
        return
    with pytest.raises(LocalProtocolError) as refused:
        state.after(step)
    assert str(refused.value) == f"a job that is {state.value} takes no step {step.name}"


@pytest.mark.parametrize(
    ("state", "step", "following"), transitions(job_state.__doc__, SubtaskState, SubtaskStep)
)
def test_a_subtask_goes_by_the_table(
    state: SubtaskState, step: SubtaskStep, following: SubtaskState | None
) -> None:
    assert state.takes(step) == (following is not None)
    if following is not None:
        assert state.after(step) is following
        return
    with pytest.raises(LocalProtocolError) as refused:
        state.after(step)
    assert str(refused.value) == f"a subtask that is {state.value} takes no step {step.name}"


def test_what_is_ending_and_what_has_ended() -> None:
    ending = [JobState.FINISHING, JobState.FAILING, JobState.CANCELLING]
    ended = [JobState.FINISHED, JobState.FAILED, JobState.CANCELED]
    assert [state for state in JobState if state.is_ending] == ending
    assert [state for state in JobState if state.is_terminal] == ended
    pending = [SubtaskState.DEPLOYING, SubtaskState.RUNNING]
    assert [state for state in SubtaskState if state.is_pending] == pending
