"""Savepoints, and the answers of workers and of the storage about checkpoints."""

from __future__ import annotations

import pytest

from flinknet.checkpoint.coordinator import Complete, Discard
from flinknet.checkpoint.failure_reason import CheckpointFailure, CheckpointFailureReason
from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    AcknowledgeCheckpoint,
    CompleteCheckpoint,
    DeclineCheckpoint,
    Failed,
    Released,
)
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.errors import (
    RemoteProtocolError,
)
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.cluster.coordinator.jobs.dispatched import (
    RESULT,
    WORKERS,
    Checkpointed,
    failed,
)


def test_a_savepoint_is_no_reason_to_commit(checkpointed: Checkpointed) -> None:
    """The next attempt continues from a checkpoint before it."""
    record = checkpointed.running()
    checkpointed.dispatcher.checkpoints.trigger_savepoint(
        record, CheckpointKind.SAVEPOINT, "/saved", 1.0
    )
    checkpointed.complete(record, 1)
    told = [one for one in checkpointed.sent if isinstance(one[1], CompleteCheckpoint)]
    assert told == [(one, CompleteCheckpoint(record.job_id, 0, 1, False)) for one in WORKERS]
    assert record.latest_checkpoint == RestorePoint()


def test_a_job_that_fails_after_the_savepoint_it_ends_with_continues_from_that(
    checkpointed: Checkpointed,
) -> None:
    """The sinks have committed with it."""
    record = checkpointed.running()
    kind = CheckpointKind.SAVEPOINT_SUSPEND
    checkpointed.dispatcher.checkpoints.trigger_savepoint(record, kind, "/saved", 1.0)
    checkpointed.complete(record, 1)
    told = [one for one in checkpointed.sent if isinstance(one[1], CompleteCheckpoint)]
    assert told == [(one, CompleteCheckpoint(record.job_id, 0, 1, True)) for one in WORKERS]
    checkpointed.say("worker-0", failed(record, "worker-0", CauseRank.CAUSE))
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 0))
    assert checkpointed.sought == 0, "it is none of its checkpoints"
    assert record.present.number == 1
    place = f"/saved/{record.job_id}/savepoint-1-attempt-0"
    assert (record.present.restored_from, record.has_stopped) == (place, True)
    checkpointed.open(record)
    checkpointed.pass_time(10.0)
    checkpointed.complete(record, 2)
    assert not record.has_stopped
    checkpointed.fail(record)
    assert checkpointed.sought == 1


def test_late_answers_about_checkpoints_change_nothing(checkpointed: Checkpointed) -> None:
    record = checkpointed.running()
    checkpointed.pass_time(10.0)
    checkpointed.say("worker-0", failed(record, "worker-0", CauseRank.CAUSE))
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 0))
    checkpointed.open(record)
    checkpointed.orders.clear()
    row = (1, 0, b"handle", [0.0, 0.0, 0.0, 0.0, 0, 0, 0])
    owner = record.execution.worker_of((1, 0))
    checkpointed.say(owner, AcknowledgeCheckpoint(record.job_id, 0, 1, *row))
    checkpointed.say(owner, AcknowledgeCheckpoint("forgotten", 0, 1, *row))
    checkpointed.acknowledge(record, 1)
    assert checkpointed.orders == []


def test_a_checkpoint_that_is_kept_after_its_attempt_has_ended_is_discarded(
    checkpointed: Checkpointed,
) -> None:
    """The next attempt may already run from the checkpoint before it, so no worker is told that
    this one is complete."""
    record = checkpointed.running()
    checkpointed.pass_time(10.0)
    checkpointed.acknowledge(record, 1)
    attempt = record.present
    checkpointed.say("worker-0", failed(record, "worker-0", CauseRank.CAUSE))
    checkpointed.orders.clear()
    checkpointed.sent.clear()
    checkpointed.dispatcher.checkpoint_kept(record, attempt, 1, None, checkpointed.now)
    assert checkpointed.orders == [(0, Discard(1))]
    assert checkpointed.sent == []
    assert record.latest_checkpoint == RestorePoint()


def test_a_checkpoint_that_cannot_be_kept_has_failed(checkpointed: Checkpointed) -> None:
    checkpointed.checkpointing = JobCheckpointingConfig(10_000.0, tolerable_failures=1)
    record = checkpointed.running()
    checkpointed.pass_time(10.0)
    checkpointed.acknowledge(record, 1)
    failure = CheckpointFailure(CheckpointFailureReason.COMPLETION_FAILURE, "not now")
    checkpointed.dispatcher.checkpoint_kept(record, record.present, 1, failure, 10.0)
    assert record.latest_checkpoint[0] == ""
    assert record.state is JobState.RUNNING
    assert record.checkpoints is not None
    assert record.checkpoints.history.failed == 1


def failed_key(record: JobRecord, subtask: SubtaskKey) -> Failed:
    worker_id = record.execution.worker_of(subtask)
    cause = FailureCause(CauseRank.CAUSE, worker_id, 100, "ValueError", "boom", "Map (1/1)")
    return Failed(record.job_id, record.present.number, *subtask, cause.to_dict())


def test_a_finished_subtask_does_not_run_again_and_keeps_its_result(
    checkpointed: Checkpointed,
) -> None:
    """O2: its acknowledgement may come after its result; then it had not finished in the
    checkpoint."""
    record = checkpointed.running()
    done = {**RESULT, "collected": b"the records", "checkpoint_taken": -1}
    checkpointed.dispatcher.take_result(record, record.present, (1, 0), dict(done), 1.0)
    checkpointed.pass_time(10.0)
    late = {**RESULT, "collected": b"", "checkpoint_taken": 1}
    checkpointed.dispatcher.take_result(record, record.present, (0, 0), late, 10.0)
    assert checkpointed.orders == []
    checkpointed.acknowledge(record, 1, (1, 1))
    assert checkpointed.orders == []
    checkpointed.acknowledge(record, 1, (0, 0))
    ((_, order),) = checkpointed.orders
    assert isinstance(order, Complete)
    assert order.checkpoint.finished == {(1, 0)}
    checkpointed.dispatcher.checkpoint_kept(record, record.present, 1, None, 10.0)
    checkpointed.say(record.execution.worker_of((1, 1)), failed_key(record, (1, 1)))
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 0))
    checkpointed.found(record, record.latest_checkpoint)
    assert record.present.restored_finished == {(1, 0)}
    empty = {**RESULT, "collected": b"", "checkpoint_taken": -1}
    for subtask in record.execution.subtask_states():
        checkpointed.dispatcher.take_result(record, record.present, subtask, dict(empty), 11.0)
    assert record.present.results[1, 0]["collected"] == b"the records"
    assert record.present.results[1, 1]["collected"] == b""


@pytest.mark.parametrize("field", ["subtask", "reason", "metrics"])
def test_malformed_answers_about_checkpoints_break_the_protocol(
    checkpointed: Checkpointed, field: str
) -> None:
    record = checkpointed.running()
    checkpointed.pass_time(10.0)
    owner = record.execution.worker_of((1, 0))
    (other,) = set(WORKERS) - {owner}
    decline = DeclineCheckpoint(record.job_id, 0, 1, 1, 0, "BOREDOM", "")
    acknowledge = AcknowledgeCheckpoint(record.job_id, 0, 1, 1, 0, b"", [0] * 11)
    with pytest.raises(RemoteProtocolError):
        match field:
            case "subtask":
                checkpointed.say(other, decline)
            case "reason":
                checkpointed.say(owner, decline)
            case "metrics":
                checkpointed.say(owner, acknowledge)
