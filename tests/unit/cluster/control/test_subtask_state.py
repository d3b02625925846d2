"""The states of a subtask, as the coordinator sees it."""

from __future__ import annotations

from flinknet.cluster.control import subtask_state as module
from flinknet.cluster.control.subtask_state import TRANSITIONS, SubtaskEvent, SubtaskState
from tests.unit.tables import named, shown_in, way_to


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


def test_every_state_is_reached_and_every_event_used() -> None:
    first, *others = SubtaskState
    assert all(way_to(state, first, TRANSITIONS) for state in others)
    assert {event for _, event in TRANSITIONS} == set(SubtaskEvent)


def test_a_subtask_is_pending_until_it_has_ended() -> None:
    pending = [SubtaskState.DEPLOYING, SubtaskState.RUNNING]
    assert [state for state in SubtaskState if state.is_pending] == pending
