"""The states of a subtask: every row of the table, and no other transition."""

from __future__ import annotations

import pytest

from flinknet.errors import LocalProtocolError
from flinknet.runtime import execution_state as module
from flinknet.runtime.execution_state import TRANSITIONS, ExecutionState, ExecutionStep
from tests.unit.tables import named, shown_in


@pytest.mark.parametrize("step", ExecutionStep)
@pytest.mark.parametrize("state", ExecutionState)
def test_every_pair_of_state_and_step(state: ExecutionState, step: ExecutionStep) -> None:
    if (state, step) in TRANSITIONS:
        assert state.after(step, "it") is TRANSITIONS[state, step]
        return
    with pytest.raises(LocalProtocolError) as refused:
        state.after(step, "it")
    assert str(refused.value) == f"it cannot take the step {step.name}: {state.value}"


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


def test_a_state_in_which_nothing_may_come_is_terminal() -> None:
    left = {state for state, _ in TRANSITIONS}
    assert [state for state in ExecutionState if state.is_terminal] == [
        state for state in ExecutionState if state not in left
    ]
