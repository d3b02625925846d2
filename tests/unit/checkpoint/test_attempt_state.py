"""The states of an attempt with checkpoints."""

from __future__ import annotations

from flinknet.checkpoint import attempt_state
from flinknet.checkpoint.attempt_state import TRANSITIONS, AttemptState
from tests.unit.tables import named, shown_in, way_to


def test_the_table_is_the_one_that_the_docstring_shows() -> None:
    assert shown_in(attempt_state.__doc__) == named(TRANSITIONS)


def test_every_state_is_reached_and_each_but_the_first_can_end() -> None:
    for state in AttemptState:
        assert len(way_to(state, AttemptState.IDLE, TRANSITIONS)) <= 2
        assert (state, attempt_state.AttemptEvent.END) in TRANSITIONS
