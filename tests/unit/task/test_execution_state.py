"""The states of a subtask: every row of the table, and nothing beside it."""

from __future__ import annotations

import pytest

from flinknet.errors import LocalProtocolError
from flinknet.task import execution_state
from flinknet.task.execution_state import ExecutionState, ExecutionStep
from tests.transition_table import transitions


@pytest.mark.parametrize(
    ("state", "step", "following"),
    transitions(execution_state.__doc__, ExecutionState, ExecutionStep),
)
def test_a_subtask_goes_by_the_table(
    state: ExecutionState, step: ExecutionStep, following: ExecutionState | None
) -> None:
    if following is not None:
        assert state.after(step, "it") is following
        return
    with pytest.raises(LocalProtocolError) as refused:
        state.after(step, "it")
    assert str(refused.value) == f"it takes no step {step.name}: {state.value}"


def test_a_state_in_which_nothing_may_come_is_terminal() -> None:
    rows = transitions(execution_state.__doc__, ExecutionState, ExecutionStep)
    left = {state for state, _, following in rows if following is not None}
    assert [state for state in ExecutionState if state.is_terminal] == [
        state for state in ExecutionState if state not in left
    ]
