"""The messages to workers, and the orders for checkpoints, that follow from decisions."""

from __future__ import annotations

import pytest

from flinknet.checkpoint.coordinator import Discard
from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    AbortCheckpoint,
    AwaitCheckpoint,
    CompleteCheckpoint,
    DeclineCheckpoint,
    Failed,
    Released,
    TriggerCheckpoint,
)
from tests.counted_work import counted_work
from tests.unit.cluster.coordinator.jobs.dispatched import (
    RESULT,
    WORKERS,
    Checkpointed,
    failed,
    triggers,
)


def test_a_running_job_takes_checkpoints(checkpointed: Checkpointed) -> None:
    record = checkpointed.submit()
    checkpointed.pass_time(9.0)
    checkpointed.open(record)
    checkpointed.pass_time(18.9)
    assert triggers(checkpointed) == [], "an interval after all subtasks run"
    checkpointed.pass_time(19.0)
    (worker_id, message), *others = triggers(checkpointed)
    assert (worker_id, others) == (record.execution.worker_of((0, 0)), [])
    assert message == TriggerCheckpoint(record.job_id, 0, 1, 1_019_000, 0, [[0, 0]])
    checkpointed.sent.clear()
    checkpointed.complete(record, 1)
    told = [one for one in checkpointed.sent if isinstance(one[1], CompleteCheckpoint)]
    assert told == [(one, CompleteCheckpoint(record.job_id, 0, 1)) for one in WORKERS]
    assert record.latest_checkpoint == ("checkpoint-1-attempt-0", frozenset())
    assert record.checkpoints is not None
    assert record.checkpoints.history.last_completed is not None
    assert record.checkpoints.history.last_completed.metrics["state_bytes"] == 15


def test_the_next_attempt_continues_from_the_last_checkpoint(checkpointed: Checkpointed) -> None:
    record = checkpointed.running()
    assert record.present.restored_from == ""
    checkpointed.pass_time(10.0)
    checkpointed.complete(record, 1)
    checkpointed.pass_time(20.0)
    checkpointed.sent.clear()
    checkpointed.say("worker-0", failed(record, "worker-0", CauseRank.CAUSE))
    aborts = [one for one in checkpointed.sent if isinstance(one[1], AbortCheckpoint)]
    assert aborts == [(one, AbortCheckpoint(record.job_id, 0, 2)) for one in WORKERS]
    assert checkpointed.orders == [(0, Discard(2))]
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 0))
    checkpointed.found(record, record.latest_checkpoint)
    assert record.present.restored_from == "checkpoint-1-attempt-0"
    checkpointed.open(record)
    checkpointed.pass_time(30.0)
    assert [message.checkpoint_id for _, message in triggers(checkpointed)] == [3]  # type: ignore[union-attr]


def test_a_checkpoint_that_a_subtask_declines_may_fail_the_job(
    checkpointed: Checkpointed,
) -> None:
    record = checkpointed.running()
    checkpointed.pass_time(10.0)
    owner = record.execution.worker_of((1, 1))
    decline = DeclineCheckpoint(record.job_id, 0, 1, 1, 1, "ASYNC_FAILURE", "the disk is full")
    checkpointed.say(owner, decline)
    assert record.state is JobState.FAILING
    assert record.execution.cause is not None
    assert "subtask (1, 1): the disk is full" in record.execution.cause.message


def test_a_last_checkpoint_is_triggered_for_the_subtasks_that_wait_for_it(
    checkpointed: Checkpointed,
) -> None:
    """O2: this happens at once when all the others have finished, for all that wait."""
    record = checkpointed.running()
    done = {**RESULT, "collected": b"", "checkpoint_taken": -1}
    checkpointed.dispatcher.take_result(record, record.present, (0, 0), done, 1.0)
    checkpointed.sent.clear()
    for index in range(2):
        owner = record.execution.worker_of((1, index))
        checkpointed.say(owner, AwaitCheckpoint(record.job_id, 0, 1, index, -1))
    assert checkpointed.dispatcher.deadline <= checkpointed.now
    checkpointed.pass_time(0.0)
    triggers = [
        (worker_id, message.checkpoint_id, subtask)
        for worker_id, message in checkpointed.sent
        if isinstance(message, TriggerCheckpoint)
        for subtask in message.subtasks
    ]
    assert sorted(triggers) == sorted(
        (record.execution.worker_of((1, index)), 1, [1, index]) for index in range(2)
    )


END_OF_SUBTASKS = ["finish", "finish last first", "await, then finish", "fail", "be cancelled"]


@pytest.mark.parametrize("how", END_OF_SUBTASKS)
def test_the_work_at_the_end_of_a_subtask_does_not_grow_with_their_number(how: str) -> None:
    """This is tested with a pending checkpoint and without one.

    Eight times the subtasks may take hardly more than eight times the work.
    """
    few, many = (work_of_ending(parallelism, how) for parallelism in (40, 320))
    assert many < 9 * few


def work_of_ending(parallelism: int, how: str) -> int:
    cluster = Checkpointed(slots=parallelism)
    record = cluster.running(parallelism)
    job_id, execution = record.job_id, record.execution
    cluster.pass_time(11.0)
    assert len(record.checkpoints.pending) == 1
    subtasks = list(execution.subtask_states())
    sinks = [subtask for subtask in subtasks if subtask[0] > 0]
    if how == "finish last first":
        subtasks.reverse()
    result = {**RESULT, "collected": b"."}
    cause = FailureCause(CauseRank.CAUSE, "worker-0", 100, "ValueError", "boom").to_dict()
    with counted_work() as work:
        if how.startswith("await"):
            for subtask in sinks:
                cluster.say(execution.worker_of(subtask), AwaitCheckpoint(job_id, 0, *subtask, -1))
        if how == "fail":
            for subtask in subtasks:
                cluster.say(execution.worker_of(subtask), Failed(job_id, 0, *subtask, cause))
        elif how == "be cancelled":
            cluster.dispatcher.cancel(record, cluster.now)
        else:
            for subtask in subtasks:
                cluster.dispatcher.take_result(record, record.present, subtask, dict(result), 12.0)
        for worker_id in WORKERS:
            cluster.say(worker_id, Released(job_id, 0))
    record.checkpoints.check_invariants()
    assert execution.state.is_terminal
    return work.lines
