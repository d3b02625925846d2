"""The states of a job attempt."""

from __future__ import annotations

from flinknet.cluster.control import job_state as module
from flinknet.cluster.control.job_state import TRANSITIONS, JobEvent, JobState
from tests.unit.tables import named, shown_in, way_to


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


def test_every_state_is_reached_and_every_event_used() -> None:
    of_attempts = [state for state in JobState if state is not JobState.RESTARTING]
    assert all(way_to(state, JobState.CREATED, TRANSITIONS) for state in of_attempts[1:])
    assert {event for _, event in TRANSITIONS} == set(JobEvent)


def test_ending_and_ended_states() -> None:
    ending = [JobState.FINISHING, JobState.FAILING, JobState.CANCELLING]
    ended = [JobState.FINISHED, JobState.FAILED, JobState.CANCELED]
    assert [state for state in JobState if state.is_ending] == ending
    assert [state for state in JobState if state.is_terminal] == ended
