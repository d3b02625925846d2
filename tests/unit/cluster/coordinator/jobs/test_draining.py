"""Draining workers: their jobs move to other workers, and then they end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.checkpoint.failure_reason import CheckpointFailureReason
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    DeclineCheckpoint,
    Drain,
    Message,
    Register,
    Released,
    Stop,
    TriggerCheckpoint,
)
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.config.restart_strategy import NO_RESTART
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.cluster.coordinator.jobs.dispatched import (
    CHECKPOINTING,
    CONFIG,
    Checkpointed,
    Cluster,
    triggers,
)

GO = ("worker-0", Stop("it has drained"))


@pytest.fixture
def cluster() -> Checkpointed:
    """Return a cluster with jobs that tolerate no failure."""
    cluster = Checkpointed()
    cluster.restart = NO_RESTART
    return cluster


def told(cluster: Cluster, kind: type[Message]) -> list[str]:
    return [worker_id for worker_id, message in cluster.sent if isinstance(message, kind)]


def release(cluster: Cluster, record: JobRecord) -> None:
    for worker_id in record.execution.workers:
        cluster.say(worker_id, Released(record.job_id, record.present.number))


def asked_for(cluster: Checkpointed) -> list[int]:
    """Return the checkpoints that were triggered since the last call."""
    numbers = {
        message.checkpoint_id
        for _, message in triggers(cluster)
        if isinstance(message, TriggerCheckpoint)
    }
    cluster.sent.clear()
    return sorted(numbers)


def test_an_idle_worker_is_dismissed_at_once(cluster: Checkpointed) -> None:
    cluster.say("worker-0", Drain())
    assert cluster.sent == [GO]
    cluster.say("worker-0", Drain())
    assert cluster.sent == [GO], "it is told once"
    assert cluster.free_slots() == [0, 2]
    assert [one.status for one in cluster.dispatcher.workers.workers()] == [
        "DRAINING",
        "REGISTERED",
    ]


def test_a_job_takes_a_checkpoint_and_continues_from_it_on_other_workers(
    cluster: Checkpointed,
) -> None:
    """The restart strategy is not asked, as nothing has failed."""
    record = cluster.running()
    cluster.say("worker-0", Drain())
    cluster.pass_time(0.1)
    assert asked_for(cluster) == [1], "long before its interval is over"
    assert record.state is JobState.RUNNING
    cluster.complete(record, 1)
    assert record.execution.state is JobState.FAILING
    cluster.sent.clear()
    release(cluster, record)
    assert told(cluster, Stop) == ["worker-0"]
    cluster.dispatcher.connection_closed("worker-0", cluster.now)
    cluster.found(record, record.latest_checkpoint)
    assert record.present.number == 1
    assert record.present.restored_from == "checkpoint-1-attempt-0"
    assert record.execution.workers == ("worker-1",)
    assert record.backoff.restarts == 0


def test_a_checkpoint_under_way_does_not_do(cluster: Checkpointed) -> None:
    """It may have begun long ago. A failed one does not suffice either; the next one does."""
    cluster.checkpointing = replace(CHECKPOINTING, tolerable_failures=1)
    record = cluster.running()
    cluster.pass_time(10.0)
    assert asked_for(cluster) == [1]
    cluster.say("worker-0", Drain())
    cluster.complete(record, 1)
    assert record.state is JobState.RUNNING
    cluster.pass_time(10.1)
    assert asked_for(cluster) == [2]
    reason = CheckpointFailureReason.DECLINED.name
    cluster.say("worker-1", DeclineCheckpoint(record.job_id, 0, 2, 1, 1, reason, "not now"))
    assert record.state is JobState.RUNNING
    cluster.pass_time(20.1)
    assert asked_for(cluster) == [3]
    cluster.complete(record, 3)
    assert record.execution.state is JobState.FAILING


def test_a_job_that_is_forgotten_leaves_nothing(cluster: Checkpointed) -> None:
    """A long-lived cluster forgets jobs again and again."""
    draining = "worker-0"
    for number in range(CONFIG.jobs_retained + 2):
        record = cluster.running(parallelism=4)
        cluster.say(draining, Drain())
        cluster.pass_time(cluster.now + 0.1)
        assert asked_for(cluster) == [1]
        cluster.dispatcher.cancel(record, cluster.now)
        release(cluster, record)
        assert record.ended_at is not None
        cluster.dispatcher.connection_closed(draining, cluster.now)
        draining = f"worker-{number + 2}"
        message = Register(draining, number, f"127.0.0.1:{2000 + number}", 2)
        cluster.dispatcher.register(message, cluster.now)
    known = {job.job_id for job in cluster.dispatcher.jobs()}
    assert set(cluster.dispatcher._draining._after) <= known


def test_a_job_that_does_not_fit_elsewhere_waits_for_slots(cluster: Checkpointed) -> None:
    record = cluster.running(parallelism=4)
    cluster.say("worker-0", Drain())
    cluster.pass_time(0.1)
    cluster.complete(record, 1)
    release(cluster, record)
    cluster.found(record, record.latest_checkpoint)
    cluster.dispatcher.connection_closed("worker-0", cluster.now)
    cluster.pass_time(5.0)
    assert record.state is JobState.RESTARTING
    cluster.dispatcher.register(Register("worker-2", 102, "127.0.0.1:1002", 2), cluster.now)
    cluster.pass_time(6.0)
    assert set(record.execution.workers) == {"worker-1", "worker-2"}


def test_a_job_elsewhere_and_one_that_ends_with_a_savepoint_are_left_alone(
    cluster: Checkpointed,
) -> None:
    elsewhere = cluster.running(parallelism=1)
    (busy,) = elsewhere.execution.workers
    (other,) = {"worker-0", "worker-1"} - {busy}
    cluster.say(other, Drain())
    assert told(cluster, Stop) == [other]
    assert asked_for(cluster) == []
    kind = CheckpointKind.SAVEPOINT_SUSPEND
    cluster.dispatcher.checkpoints.trigger_savepoint(elsewhere, kind, "/saved", cluster.now)
    cluster.sent.clear()
    cluster.say(busy, Drain())
    cluster.pass_time(1.0)
    assert asked_for(cluster) == []
    assert elsewhere.state is JobState.RUNNING


def test_a_job_without_checkpoints_may_end_meanwhile() -> None:
    cluster = Cluster()
    record = cluster.running()
    cluster.say("worker-0", Drain())
    cluster.pass_time(1.0)
    assert cluster.sent == []
    cluster.finish(record)
    assert record.execution.state is JobState.FINISHED
    assert told(cluster, Stop) == ["worker-0"]


def test_a_worker_that_cannot_wait_any_longer_fails_no_job(
    cluster: Checkpointed,
) -> None:
    record = cluster.running()
    cluster.say("worker-0", Drain())
    cluster.pass_time(0.1)
    cluster.dispatcher.connection_closed("worker-0", cluster.now)
    cluster.pass_time(2.0)
    release(cluster, record)
    assert record.execution.workers == ("worker-1",)
    cause = record.attempts[0].execution.cause
    assert cause is not None
    assert cause.describe() == (
        "worker worker-0 (pid 100) leaves: it was told to end, and its "
        "subtasks continue on other workers"
    )
