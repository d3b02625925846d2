"""One job attempt: its states, and which of several failure reports the user sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import pytest

from flinknet.cluster.control import subtask_state
from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.job_state import TRANSITIONS, JobEvent, JobState
from flinknet.cluster.control.messages import Cancel, Deploy, Run, Settle
from flinknet.cluster.control.subtask_state import SubtaskEvent, SubtaskState
from flinknet.cluster.coordinator.jobs.job_execution import Commands, JobExecution
from flinknet.cluster.coordinator.jobs.pipelined_region import PipelinedRegion
from flinknet.errors import RemoteProtocolError
from tests.unit.tables import way_to

GRACE, CANCEL_TIMEOUT = 1.0, 5.0
SOURCE, SINK, OTHER_SOURCE, OTHER_SINK = (0, 0), (1, 0), (0, 1), (1, 1)

REGIONS = [PipelinedRegion("0-0", frozenset({SOURCE, SINK, OTHER_SOURCE, OTHER_SINK}), frozenset())]

SYMPTOM = FailureCause(CauseRank.SYMPTOM, "worker-0", 100, "RemoteTransportError", "gone", "Sink")
SUSPICION = FailureCause.of_lost_worker("worker-1", 101, "closed", CauseRank.SUSPICION)
LOSS = FailureCause.of_lost_worker("worker-1", 101, "killed by signal 9 (SIGKILL)")
ERROR = FailureCause(CauseRank.CAUSE, "worker-0", 100, "ValueError", "boom", "Source")


def new_execution(commit_timeout_s: float | None = None) -> JobExecution:
    return JobExecution(
        "job",
        0,
        REGIONS,
        {"worker-0": [SOURCE, SINK], "worker-1": [OTHER_SOURCE, OTHER_SINK]},
        cause_grace_s=GRACE,
        cancel_timeout_s=CANCEL_TIMEOUT,
        commit_timeout_s=commit_timeout_s,
    )


@pytest.fixture
def running() -> JobExecution:
    execution = new_execution()
    execution.start()
    execution.opened("worker-0", 0)
    execution.opened("worker-1", 0)
    assert state_of(execution) is JobState.RUNNING
    return execution


def state_of(execution: JobExecution) -> JobState:
    """Return the state; a call keeps a type checker from believing that it never changes."""
    return execution.state


def holders_of(execution: JobExecution) -> list[str]:
    return list(execution.holders)


def cancelled_workers(commands: Commands) -> list[str]:
    assert all(isinstance(message, Cancel) for _, message in commands)
    return [worker_id for worker_id, _ in commands]


# -- success


def test_a_job_runs_once_every_worker_has_opened() -> None:
    execution = new_execution()
    assert execution.start() == [("worker-0", Deploy("job", 0)), ("worker-1", Deploy("job", 0))]
    assert execution.opened("worker-1", 0) == []
    assert execution.opened("worker-1", 0) == []
    assert state_of(execution) is JobState.DEPLOYING
    assert execution.opened("worker-0", 0) == [
        ("worker-0", Run("job", 0)),
        ("worker-1", Run("job", 0)),
    ]
    assert set(execution.subtask_states().values()) == {SubtaskState.RUNNING}


def test_a_job_finishes_with_its_last_subtask(running: JobExecution) -> None:
    for subtask in (SOURCE, OTHER_SOURCE, SINK):
        running.finished(subtask, now=1.0)
    running.released("worker-0", 0, [], now=1.0)
    assert state_of(running) is JobState.RUNNING
    running.finished(OTHER_SINK, now=2.0)
    assert state_of(running) is JobState.FINISHING
    running.released("worker-1", 0, [], now=2.0)
    assert state_of(running) is JobState.FINISHED
    assert running.cause is None
    assert running.deadline is None


def test_the_loss_of_a_worker_whose_subtasks_have_finished_fails_nothing(
    running: JobExecution,
) -> None:
    running.finished(OTHER_SOURCE, now=1.0)
    running.finished(OTHER_SINK, now=1.0)
    assert running.worker_lost(LOSS, now=1.0) == []
    assert state_of(running) is JobState.RUNNING
    running.finished(SOURCE, now=1.0)
    running.finished(SINK, now=1.0)
    assert running.holders == ("worker-0",)
    running.released("worker-0", 0, [], now=1.0)
    assert state_of(running) is JobState.FINISHED


# -- the end and the slots


def finish(execution: JobExecution) -> None:
    for subtask in execution.subtask_states():
        execution.finished(subtask, now=1.0)


def fail(execution: JobExecution) -> None:
    execution.failed(SOURCE, ERROR, now=1.0)


def cancel(execution: JobExecution) -> None:
    execution.cancel(now=1.0)


ENDS = pytest.mark.parametrize(
    ("begin_end", "ending", "end"),
    [
        (finish, JobState.FINISHING, JobState.FINISHED),
        (fail, JobState.FAILING, JobState.FAILED),
        (cancel, JobState.CANCELLING, JobState.CANCELED),
    ],
    ids=["finished", "failed", "cancelled"],
)
Begin = Callable[[JobExecution], None]


@ENDS
@pytest.mark.parametrize("how", ["released", "lost"])
def test_a_job_ends_when_every_worker_has_released_it(
    running: JobExecution, begin_end: Begin, ending: JobState, end: JobState, how: str
) -> None:
    begin_end(running)
    assert state_of(running) is ending
    assert running.is_ending
    assert holders_of(running) == ["worker-0", "worker-1"]
    running.released("worker-0", 0, [], now=1.5)
    assert (state_of(running), holders_of(running)) == (ending, ["worker-1"])
    if how == "released":
        running.released("worker-1", 0, [], now=2.0)
    else:
        running.worker_lost(LOSS, now=2.0)
    assert (state_of(running), holders_of(running), running.is_ending) == (end, [], False)
    assert running.deadline is None


@ENDS
def test_a_job_ends_without_a_worker_that_never_lets_go_and_says_so(
    running: JobExecution, begin_end: Begin, ending: JobState, end: JobState
) -> None:
    begin_end(running)
    running.released("worker-0", 0, [], now=1.5)
    assert running.deadline == 1.0 + CANCEL_TIMEOUT
    running.tick(5.9)
    assert state_of(running) is ending
    running.tick(6.0)
    assert (state_of(running), holders_of(running)) == (end, ["worker-1"])
    running.released("worker-1", 0, [], now=60.0)
    assert (state_of(running), holders_of(running)) == (end, [])


def test_a_job_that_waits_for_its_cause_is_ending(running: JobExecution) -> None:
    assert not running.is_ending
    running.failed(SINK, SYMPTOM, now=1.0)
    assert running.is_ending


# -- two-phase sinks


COMMIT_TIMEOUT = 60.0
COMMIT_FAILED = FailureCause(CauseRank.CAUSE, "worker-0", 100, "JobFailedError", "no space left")


@pytest.fixture
def committing() -> JobExecution:
    """Return a running job with something to commit."""
    execution = new_execution(commit_timeout_s=COMMIT_TIMEOUT)
    execution.start()
    execution.opened("worker-0", 0)
    execution.opened("worker-1", 0)
    return execution


def release_all(execution: JobExecution) -> Commands:
    return [
        command
        for worker_id in execution.holders
        for command in execution.released(worker_id, 0, [], now=2.0)
    ]


@ENDS
def test_sinks_are_settled_once_after_all_subtasks_have_ended(
    committing: JobExecution, begin_end: Begin, ending: JobState, end: JobState
) -> None:
    """They are committed if every subtask has finished, and aborted otherwise."""
    begin_end(committing)
    assert committing.released("worker-1", 0, [], now=1.5) == []
    settle = Settle("job", 0, commit=end is JobState.FINISHED)
    assert committing.released("worker-0", 0, [], now=2.0) == [("worker-0", settle)]
    assert committing.released("worker-0", 0, [], now=2.0) == []
    assert (state_of(committing), committing.deadline) == (ending, 2.0 + COMMIT_TIMEOUT)
    committing.settled("worker-1", None, now=3.0)
    assert state_of(committing) is ending, "nobody asked that one"
    assert committing.settled("worker-0", None, now=3.0) == []
    assert (state_of(committing), committing.deadline) == (end, None)


def test_a_commit_that_fails_is_aborted_and_fails_the_job(committing: JobExecution) -> None:
    finish(committing)
    release_all(committing)
    abort = Settle("job", 0, commit=False)
    assert committing.settled("worker-0", COMMIT_FAILED, now=3.0) == [("worker-0", abort)]
    assert (state_of(committing), committing.cause) == (JobState.FAILING, COMMIT_FAILED)
    committing.settled("worker-0", ERROR, now=4.0)
    assert (state_of(committing), committing.cause) == (JobState.FAILED, COMMIT_FAILED)


def test_another_worker_commits_if_the_committing_worker_is_lost(committing: JobExecution) -> None:
    finish(committing)
    release_all(committing)
    loss = replace(LOSS, worker_id="worker-0")
    commit = Settle("job", 0, commit=True)
    assert committing.worker_lost(loss, now=3.0) == [("worker-1", commit)]
    assert committing.worker_lost(loss, now=3.1) == [], "the same loss, with its reason"
    committing.settled("worker-1", None, now=4.0)
    assert (state_of(committing), committing.cause) == (JobState.FINISHED, None)


def test_without_a_worker_that_could_commit_the_job_fails(committing: JobExecution) -> None:
    finish(committing)
    release_all(committing)
    committing.worker_lost(replace(LOSS, worker_id="worker-0"), now=3.0)
    assert committing.worker_lost(LOSS, now=4.0) == []
    assert (state_of(committing), committing.cause) == (JobState.FAILED, LOSS)


def test_workers_that_are_lost_before_the_commit_do_not_commit(committing: JobExecution) -> None:
    finish(committing)
    committing.worker_lost(replace(LOSS, worker_id="worker-0"), now=1.5)
    assert committing.released("worker-1", 0, [], now=2.0) == [
        ("worker-1", Settle("job", 0, commit=True))
    ]


def test_all_workers_lost_before_the_commit_fail_the_job(committing: JobExecution) -> None:
    finish(committing)
    committing.worker_lost(replace(LOSS, worker_id="worker-0"), now=1.5)
    assert committing.worker_lost(LOSS, now=1.5) == []
    assert state_of(committing) is JobState.FAILED
    assert committing.cause is not None
    assert "could have committed" in committing.cause.message


def test_a_commit_that_hangs_fails_the_job_in_time_and_another_worker_aborts(
    committing: JobExecution,
) -> None:
    finish(committing)
    release_all(committing)
    assert committing.tick(2.0 + COMMIT_TIMEOUT) == [("worker-1", Settle("job", 0, commit=False))]
    assert committing.cause is not None
    assert "commit_timeout_ms" in committing.cause.describe()
    assert committing.settled("worker-0", None, now=70.0) == [], "too late"
    assert state_of(committing) is JobState.FAILING
    committing.tick(2.0 + 2 * COMMIT_TIMEOUT)
    assert state_of(committing) is JobState.FAILED, "an abort that hangs is left to itself"


def test_sinks_are_aborted_without_a_stuck_worker(committing: JobExecution) -> None:
    cancel(committing)
    committing.released("worker-0", 0, [], now=1.5)
    assert committing.tick(6.0) == [("worker-0", Settle("job", 0, commit=False))]
    assert committing.released("worker-1", 0, [], now=6.5) == []
    committing.settled("worker-0", None, now=7.0)
    assert state_of(committing) is JobState.CANCELED


# -- failures


def test_a_cause_fails_the_job_at_once_and_cancels_the_rest(running: JobExecution) -> None:
    running.finished(OTHER_SOURCE, now=1.0)
    running.finished(OTHER_SINK, now=1.0)
    running.released("worker-1", 0, [], now=1.0)
    assert cancelled_workers(running.failed(SOURCE, ERROR, now=1.0)) == ["worker-0"]
    assert state_of(running) is JobState.FAILING
    running.released("worker-0", 0, [], now=1.0)
    assert state_of(running) is JobState.FAILED
    assert running.cause == ERROR
    assert running.subtask_states() == {
        SOURCE: SubtaskState.FAILED,
        SINK: SubtaskState.CANCELED,
        OTHER_SOURCE: SubtaskState.FINISHED,
        OTHER_SINK: SubtaskState.FINISHED,
    }


def test_the_first_cause_stays(running: JobExecution) -> None:
    running.failed(SOURCE, ERROR, now=1.0)
    running.worker_lost(LOSS, now=1.1)
    running.released("worker-0", 0, [], now=1.0)
    assert state_of(running) is JobState.FAILED
    assert running.cause == ERROR


def test_a_symptom_cancels_nothing_until_the_grace_ends(running: JobExecution) -> None:
    assert running.failed(SINK, SYMPTOM, now=1.0) == []
    assert state_of(running) is JobState.RUNNING
    assert running.deadline == 1.0 + GRACE
    assert running.tick(1.9) == []
    assert cancelled_workers(running.tick(2.0)) == ["worker-0", "worker-1"]
    assert state_of(running) is JobState.FAILING
    assert running.cause == SYMPTOM


def test_a_symptom_gives_way_to_a_cause(running: JobExecution) -> None:
    running.failed(SINK, SYMPTOM, now=1.0)
    running.failed(SOURCE, ERROR, now=1.5)
    assert state_of(running) is JobState.FAILING
    assert running.cause == ERROR


def test_the_grace_is_not_prolonged_by_more_symptoms(running: JobExecution) -> None:
    running.failed(SINK, SYMPTOM, now=1.0)
    running.failed(OTHER_SINK, SYMPTOM, now=1.5)
    running.worker_lost(SUSPICION, now=1.8)
    assert running.deadline == 1.0 + GRACE
    running.tick(2.0)
    assert state_of(running) is JobState.FAILING
    assert running.cause == SUSPICION, "the heaviest report wins"


@pytest.mark.parametrize("order", list(permutations([SYMPTOM, SUSPICION, LOSS])))
def test_a_killed_worker_is_the_cause_in_whatever_order_it_is_noticed(
    running: JobExecution, order: tuple[FailureCause, ...]
) -> None:
    """The order of a neighbour's broken connection, the closed control connection and the exit
    status does not matter."""
    for now, cause in enumerate(order):
        if cause is SYMPTOM:
            running.failed(SINK, cause, now=now * 0.1)
        elif not (cause is SUSPICION and LOSS in order[:now]):  # the registry drops this one
            running.worker_lost(cause, now=now * 0.1)
    assert running.cause == LOSS
    assert state_of(running) is JobState.FAILING
    running.released("worker-0", 0, [], now=1.0)
    assert state_of(running) is JobState.FAILED


def test_a_job_with_symptoms_only_still_waits_for_its_cause(running: JobExecution) -> None:
    for subtask in (SOURCE, SINK, OTHER_SOURCE, OTHER_SINK):
        running.failed(subtask, SYMPTOM, now=1.0)
    running.released("worker-0", 0, [], now=1.0)
    assert state_of(running) is JobState.RUNNING
    running.worker_lost(LOSS, now=1.2)
    assert state_of(running) is JobState.FAILED
    assert running.cause == LOSS


def test_the_loss_of_the_only_worker_ends_the_job_at_once() -> None:
    execution = JobExecution(
        "job",
        0,
        REGIONS,
        {"worker-1": [SOURCE]},
        cause_grace_s=GRACE,
        cancel_timeout_s=CANCEL_TIMEOUT,
    )
    execution.start()
    assert execution.worker_lost(LOSS, now=1.0) == []
    assert state_of(execution) is JobState.FAILED


def test_a_worker_that_cannot_open_fails_the_job() -> None:
    execution = new_execution()
    execution.start()
    execution.opened("worker-0", 0)
    assert cancelled_workers(execution.open_failed("worker-1", 0, ERROR, now=1.0)) == ["worker-0"]
    execution.released("worker-1", 0, [], now=1.0)
    assert state_of(execution) is JobState.FAILING
    execution.released("worker-0", 0, [], now=1.0)
    assert state_of(execution) is JobState.FAILED
    assert execution.opened("worker-0", 0) == []


def test_dropping_subtasks_unasked_breaks_the_protocol(running: JobExecution) -> None:
    with pytest.raises(
        RemoteProtocolError, match="worker-1 released subtasks that were not cancelled"
    ):
        running.released("worker-1", 0, [], now=1.0)
    running.worker_lost(SUSPICION, now=1.0)
    running.tick(1.0 + GRACE)
    assert running.cause == SUSPICION


# -- cancellation


@pytest.mark.parametrize("is_deployed", [True, False])
def test_a_job_is_cancelled_on_request(is_deployed: bool) -> None:
    execution = new_execution()
    execution.start()
    if is_deployed:
        execution.opened("worker-0", 0)
        execution.opened("worker-1", 0)
    assert cancelled_workers(execution.cancel(now=1.0)) == ["worker-0", "worker-1"]
    assert state_of(execution) is JobState.CANCELLING
    execution.failed(SOURCE, ERROR, now=1.1)
    execution.released("worker-0", 0, [], now=1.0)
    execution.released("worker-1", 0, [], now=1.0)
    assert state_of(execution) is JobState.CANCELED
    assert execution.cause is None


def test_cancelling_twice_or_too_late_does_nothing(running: JobExecution) -> None:
    running.cancel(now=1.0)
    assert running.cancel(now=2.0) == []
    assert running.deadline == 1.0 + CANCEL_TIMEOUT
    running.tick(6.0)
    assert state_of(running) is JobState.CANCELED
    assert running.cancel(now=7.0) == []


def test_a_failing_job_cannot_be_cancelled(running: JobExecution) -> None:
    running.failed(SOURCE, ERROR, now=1.0)
    assert running.cancel(now=1.1) == []
    running.released("worker-0", 0, [], now=1.0)
    running.released("worker-1", 0, [], now=1.0)
    assert state_of(running) is JobState.FAILED


# -- after the end


@pytest.mark.parametrize("end", ["finished", "failed", "cancelled"])
def test_nothing_changes_a_job_that_has_ended(running: JobExecution, end: str) -> None:
    if end == "finished":
        for subtask in running.subtask_states():
            running.finished(subtask, now=1.0)
    elif end == "failed":
        running.failed(SOURCE, ERROR, now=1.0)
        running.worker_lost(LOSS, now=1.0)
    else:
        running.cancel(now=1.0)
    running.released("worker-0", 0, [], now=1.0)
    running.released("worker-1", 0, [], now=1.0)
    state, cause, subtasks = running.state, running.cause, running.subtask_states()
    assert state.is_terminal
    for subtask in subtasks:
        running.finished(subtask, now=1.0)
        assert running.failed(subtask, ERROR, now=9.0) == []
    for worker_id in running.workers:
        assert running.opened(worker_id, 0) == []
        assert running.open_failed(worker_id, 0, ERROR, now=9.0) == []
        running.released(worker_id, 0, [], now=1.0)
    assert running.worker_lost(LOSS, now=9.0) == []
    assert running.cancel(now=9.0) == []
    assert running.tick(99.0) == []
    assert (running.state, running.cause, running.subtask_states()) == (state, cause, subtasks)


def test_a_subtask_that_is_not_of_the_job_breaks_the_protocol(running: JobExecution) -> None:
    assert running.worker_of(OTHER_SINK) == "worker-1"
    with pytest.raises(RemoteProtocolError, match="no subtask"):
        running.worker_of((7, 0))


def happens(execution: JobExecution, event: JobEvent) -> None:
    """Cause an event, as workers and users do."""
    match event:
        case JobEvent.DEPLOY:
            execution.start()
        case JobEvent.OPEN:
            for worker_id in execution.workers:
                execution.opened(worker_id, 0)
        case JobEvent.FINISH:
            finish(execution)
        case JobEvent.FAIL if execution.state is JobState.FINISHING:
            release_all(execution)
            execution.settled("worker-0", COMMIT_FAILED, now=2.0)
        case JobEvent.FAIL:
            execution.failed(SOURCE, ERROR, now=1.0)
        case JobEvent.CANCEL:
            execution.cancel(now=1.0)
        case JobEvent.END:
            release_all(execution)
            execution.settled("worker-0", None, now=3.0)


@pytest.mark.parametrize("event", JobEvent)
@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RESTARTING])
def test_every_pair_of_state_and_event(state: JobState, event: JobEvent) -> None:
    execution = new_execution(commit_timeout_s=COMMIT_TIMEOUT)
    for step in way_to(state, JobState.CREATED, TRANSITIONS):
        happens(execution, step)
    assert execution.state is state
    if state.takes(event):
        happens(execution, event)
        assert execution.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(AssertionError, match="must not happen"):
            execution._become(event)
        assert execution.state is state


@pytest.mark.parametrize("event", SubtaskEvent)
@pytest.mark.parametrize("state", SubtaskState)
def test_late_reports_about_a_subtask_change_nothing(
    state: SubtaskState, event: SubtaskEvent
) -> None:
    execution = new_execution()
    execution._states[SOURCE] = state
    assert execution._move(SOURCE, event) == state.takes(event)
    expected = subtask_state.TRANSITIONS[state, event] if state.takes(event) else state
    assert execution.subtask_states()[SOURCE] is expected


def test_an_execution_has_its_regions_by_name() -> None:
    regions = [
        PipelinedRegion("0-0", frozenset({SOURCE}), frozenset()),
        PipelinedRegion("1-0", frozenset({SINK, OTHER_SINK}), frozenset({"0-0"})),
    ]
    execution = JobExecution(
        "job",
        0,
        regions,
        {"worker-0": [SOURCE, SINK], "worker-1": [OTHER_SINK]},
        cause_grace_s=GRACE,
        cancel_timeout_s=CANCEL_TIMEOUT,
    )
    assert list(execution.regions.values()) == regions
    execution.finished(SOURCE, now=1.0)
    assert execution.region_states() == {"0-0": {"FINISHED": 1}, "1-0": {"DEPLOYING": 2}}


# -- failures of some regions only

LEFT, RIGHT = frozenset({SOURCE, SINK}), frozenset({OTHER_SOURCE, OTHER_SINK})
TWO_REGIONS = [
    PipelinedRegion("0-0", LEFT, frozenset()),
    PipelinedRegion("0-1", RIGHT, frozenset()),
]
SPREAD = {"worker-0": [SOURCE, OTHER_SOURCE], "worker-1": [SINK, OTHER_SINK]}
APART = {"worker-0": [SOURCE, SINK], "worker-1": [OTHER_SOURCE, OTHER_SINK]}


def parted(assignment: dict[str, list[tuple[int, int]]]) -> JobExecution:
    """Return a running execution of two regions that are restarted separately."""
    execution = JobExecution(
        "job",
        0,
        TWO_REGIONS,
        assignment,
        cause_grace_s=GRACE,
        cancel_timeout_s=CANCEL_TIMEOUT,
        by_region=True,
    )
    execution.start()
    for worker_id in assignment:
        execution.opened(worker_id, 0)
    return execution


def rows(*subtasks: tuple[int, int]) -> list[list[int]]:
    return [list(subtask) for subtask in subtasks]


def test_only_the_region_of_a_subtask_that_failed_is_cancelled() -> None:
    execution = parted(SPREAD)
    assert execution.failed(SINK, ERROR, now=1.0) == [
        ("worker-0", Cancel("job", 0, rows(SOURCE))),
        ("worker-1", Cancel("job", 0, rows(SINK))),
    ]
    assert state_of(execution) is JobState.RUNNING
    assert execution.cause is None, "that of the region is told"
    failure = execution.failover.take_failure()
    assert failure is not None
    assert (failure.regions, failure.cause) == (frozenset({"0-0"}), ERROR)
    assert not execution.all_run
    assert execution.deadline == 1.0 + CANCEL_TIMEOUT
    assert execution.failed(SOURCE, SYMPTOM, now=1.1) == [], "an echo"
    assert execution.released("worker-0", 0, [SOURCE], now=1.2) == []
    assert execution.released("worker-1", 0, [SINK], now=1.3) == []
    assert execution.failover.is_released
    assert execution.deadline is None
    assert execution.held_subtasks() == {
        ("worker-0", 0): [OTHER_SOURCE],
        ("worker-1", 0): [OTHER_SINK],
    }
    assert execution.redeploy(frozenset({"0-0"}), 1, {"worker-1": [SOURCE, SINK]}) == [
        ("worker-1", Deploy("job", 1))
    ]
    assert execution.workers == ("worker-1", "worker-0")
    assert execution.opened("worker-1", 1) == [("worker-1", Run("job", 1))]
    assert execution.all_run
    assert [execution.number_of(one) for one in (SOURCE, SINK, OTHER_SOURCE)] == [1, 1, 0]
    assert execution.parts == (("worker-1", 1), ("worker-0", 0), ("worker-1", 0))
    for subtask in (SOURCE, SINK, OTHER_SOURCE, OTHER_SINK):
        execution.finished(subtask, now=3.0)
    for part in execution.parts:
        execution.released(*part, [], now=3.0)
    assert state_of(execution) is JobState.FINISHED


def test_a_worker_with_only_failed_regions_cancels_all_its_subtasks() -> None:
    execution = parted(APART)
    assert execution.failed(SINK, ERROR, now=1.0) == [("worker-0", Cancel("job", 0))]
    execution.released("worker-0", 0, [], now=1.1)
    assert execution.failover.is_released
    assert holders_of(execution) == ["worker-1"]


def test_the_loss_of_a_worker_fails_the_regions_that_ran_on_it() -> None:
    execution = parted(APART)
    assert execution.worker_lost(LOSS, now=1.0) == [], "nobody is left to be told"
    assert execution.failover.given_up == {"0-1"}
    assert execution.failover.is_released
    execution.redeploy(frozenset({"0-1"}), 1, {"worker-0": [OTHER_SOURCE, OTHER_SINK]})
    assert execution.opened("worker-0", 1) == [("worker-0", Run("job", 1))]
    execution = parted(SPREAD)
    execution.worker_lost(LOSS, now=1.0)
    assert state_of(execution) is JobState.FAILING, "both"


def test_a_finished_region_is_not_restarted_with_another() -> None:
    execution = parted(APART)
    for subtask in RIGHT:
        execution.finished(subtask, now=1.0)
    execution.failed(SINK, ERROR, now=2.0)
    assert execution.failover.given_up == {"0-0"}
    assert state_of(execution) is JobState.RUNNING


def test_other_regions_finish_during_a_restart_and_the_job_does_not() -> None:
    execution = parted(APART)
    execution.failed(SINK, ERROR, now=1.0)
    execution.released("worker-0", 0, [], now=1.1)
    for subtask in RIGHT:
        execution.finished(subtask, now=2.0)
    execution.released("worker-1", 0, [], now=2.1)
    assert state_of(execution) is JobState.RUNNING
    assert execution.redeploy(frozenset({"0-0"}), 1, {"worker-0": [SOURCE, SINK]})
    execution.opened("worker-0", 1)
    execution.finished(SOURCE, now=3.0)
    execution.finished(SINK, now=3.0)
    execution.released("worker-0", 1, [], now=3.0)
    assert state_of(execution) is JobState.FINISHED


def test_the_failure_of_the_last_running_region_fails_the_job() -> None:
    execution = parted(APART)
    execution.failed(SINK, ERROR, now=1.0)
    assert execution.failed(OTHER_SINK, ERROR, now=1.1)[-1] == ("worker-1", Cancel("job", 0))
    assert state_of(execution) is JobState.FAILING
    assert execution.cause is ERROR
    execution.released("worker-0", 0, [], now=1.2)
    execution.released("worker-1", 0, [], now=1.3)
    assert state_of(execution) is JobState.FAILED


def test_subtasks_that_do_not_end_in_time_fail_the_job() -> None:
    """A function that never returns keeps its slot, as in a job that ends."""
    execution = parted(SPREAD)
    execution.failed(SINK, ERROR, now=1.0)
    assert execution.tick(1.0 + CANCEL_TIMEOUT / 2) == []
    commands = execution.tick(1.0 + CANCEL_TIMEOUT)
    assert commands == [("worker-0", Cancel("job", 0)), ("worker-1", Cancel("job", 0))]
    assert state_of(execution) is JobState.FAILING
    assert execution.cause is ERROR


def test_a_restarted_region_that_cannot_open_fails_again() -> None:
    """The regions that were to be opened together with it are cancelled, too, as none of them runs
    yet."""
    third = PipelinedRegion("2-0", frozenset({(2, 0)}), frozenset())
    execution = JobExecution(
        "job",
        0,
        [*TWO_REGIONS, third],
        {"worker-0": [SOURCE, SINK, (2, 0)], "worker-1": [OTHER_SOURCE, OTHER_SINK]},
        cause_grace_s=GRACE,
        cancel_timeout_s=CANCEL_TIMEOUT,
        by_region=True,
    )
    execution.start()
    for worker_id in ("worker-0", "worker-1"):
        execution.opened(worker_id, 0)
    execution.failed(SINK, ERROR, now=1.0)
    execution.failed(OTHER_SINK, ERROR, now=1.0)
    execution.released("worker-0", 0, [SOURCE, SINK], now=1.1)
    execution.released("worker-1", 0, [], now=1.1)
    both = frozenset({"0-0", "0-1"})
    execution.redeploy(
        both, 1, {"worker-0": [SOURCE, SINK], "worker-1": [OTHER_SOURCE, OTHER_SINK]}
    )
    execution.opened("worker-1", 1)
    commands = execution.open_failed("worker-0", 1, ERROR, now=2.0)
    assert commands == [("worker-0", Cancel("job", 1)), ("worker-1", Cancel("job", 1))]
    assert execution.failover.given_up == both
    assert execution.opened("worker-0", 1) == [], "it comes too late"
    assert execution.subtask_states()[2, 0] is SubtaskState.RUNNING
    assert execution.open_failed("worker-0", 0, ERROR, now=2.0) != [], "what still runs there"


def test_reports_under_an_earlier_number_are_late() -> None:
    execution = parted(APART)
    execution.worker_lost(LOSS, now=1.0)
    execution.redeploy(frozenset({"0-1"}), 1, {"worker-0": [OTHER_SOURCE, OTHER_SINK]})
    execution.opened("worker-0", 1)
    before = execution.subtask_states()
    assert execution.opened("worker-1", 0) == []
    assert execution.released("worker-1", 0, [OTHER_SINK], now=2.0) == []
    assert execution.released("worker-1", 0, [], now=2.0) == []
    assert execution.open_failed("worker-1", 0, ERROR, now=2.0) == []
    assert (execution.subtask_states(), execution.all_run) == (before, True)


def test_a_failure_of_the_job_fails_all_regions() -> None:
    execution = parted(APART)
    execution.fail(ERROR, now=1.0)
    assert state_of(execution) is JobState.FAILING


def test_a_cancelled_job_does_not_wait_for_a_restart() -> None:
    execution = parted(APART)
    execution.failed(SINK, ERROR, now=1.0)
    execution.released("worker-0", 0, [], now=1.1)
    assert execution.cancel(now=2.0) == [("worker-1", Cancel("job", 0))]
    execution.released("worker-1", 0, [], now=2.1)
    assert state_of(execution) is JobState.CANCELED


def test_a_worker_must_not_release_running_subtasks() -> None:
    execution = parted(SPREAD)
    execution.failed(SINK, ERROR, now=1.0)
    with pytest.raises(RemoteProtocolError, match="released subtasks that were not cancelled"):
        execution.released("worker-0", 0, [], now=1.1)
