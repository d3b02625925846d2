"""Flink's names of the states of jobs, subtasks and vertices."""

from __future__ import annotations

from collections import Counter

import pytest

from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.coordinator.rest.flink.states import (
    aggregate_state,
    job_status,
    status_times,
    task_states,
)
from tests.unit.cluster.coordinator.rest.flink.jobs import (
    ms,
    open_all,
    release,
    result,
    submitted,
)


def test_a_job_that_is_deployed_or_committed_is_running() -> None:
    assert {state.value: job_status(state) for state in JobState} == {
        "CREATED": "CREATED",
        "DEPLOYING": "RUNNING",
        "RUNNING": "RUNNING",
        "FINISHING": "RUNNING",
        "FAILING": "FAILING",
        "CANCELLING": "CANCELLING",
        "FINISHED": "FINISHED",
        "FAILED": "FAILED",
        "CANCELED": "CANCELED",
        "RESTARTING": "RESTARTING",
    }


@pytest.mark.parametrize(
    ("states", "aggregate"),
    [
        ("RUNNING FAILED CANCELING", "FAILED"),
        ("CANCELING CANCELED FINISHED", "CANCELING"),
        ("CANCELED RUNNING", "CANCELED"),
        ("RUNNING DEPLOYING", "RUNNING"),
        ("FINISHED RUNNING", "RUNNING"),
        ("FINISHED DEPLOYING", "RUNNING"),
        ("FINISHED FINISHED", "FINISHED"),
        ("DEPLOYING DEPLOYING", "CREATED"),
    ],
)
def test_a_vertex_has_flinks_state_of_its_subtasks(states: str, aggregate: str) -> None:
    assert aggregate_state(Counter(states.split())) == aggregate


def test_times_are_when_each_state_was_reached() -> None:
    dispatcher, record = submitted(1.0)
    open_all(dispatcher, record, 2.0)
    dispatcher.cancel(record, 3.0)
    assert set(task_states(record).values()) == {"CANCELING"}
    release(dispatcher, record, 4.0)
    assert set(task_states(record).values()) == {"CANCELED"}
    reached = {status: at for status, at in status_times(record).items() if at}
    assert reached == {
        "INITIALIZING": ms(1.0),
        "CREATED": ms(1.0),
        "RUNNING": ms(1.0),
        "CANCELLING": ms(3.0),
        "CANCELED": ms(4.0),
    }


def test_a_finishing_job_keeps_the_time_at_which_it_began_to_run() -> None:
    dispatcher, record = submitted(1.0)
    open_all(dispatcher, record, 2.0)
    for at, subtask in enumerate(record.execution.subtask_states(), start=3):
        dispatcher.take_result(record, record.present, subtask, result(), float(at))
    release(dispatcher, record, 9.0)
    assert record.state is JobState.FINISHED
    times = status_times(record)
    assert (times["RUNNING"], times["FINISHED"], times["FAILED"]) == (ms(1.0), ms(9.0), 0)


def test_a_job_that_never_ran_here_has_no_time_for_it() -> None:
    _, record = submitted(1.0)
    record.state_since = {JobState.FAILED: 2.0}
    assert (status_times(record)["RUNNING"], status_times(record)["FAILED"]) == (0, ms(2.0))
