"""The slots that jobs occupy, and for which they wait."""

from __future__ import annotations

import pytest

from flinknet.cluster.control.failure import CauseRank
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    Register,
    Released,
)
from flinknet.cluster.control.submission import Submission
from flinknet.errors import (
    InsufficientSlotsError,
)
from tests.unit.cluster.coordinator.jobs.dispatched import (
    CONFIG,
    RESULT,
    WORKERS,
    Cluster,
    Parted,
    failed,
)
from tests.unit.cluster.graphs import keyed_graph


def shape(parallelism: int) -> Submission:
    return Submission.of_graph(keyed_graph(parallelism=parallelism))


def test_a_job_waits_for_slots_of_ending_jobs(cluster: Cluster) -> None:
    record = cluster.running(parallelism=4)
    assert not cluster.dispatcher.slots.may_fit_soon(shape(2)), "a running job may run for ever"
    for subtask in record.execution.subtask_states():
        result = {**RESULT, "collected": b""}
        cluster.dispatcher.take_result(record, record.present, subtask, result, cluster.now)
    assert cluster.dispatcher.slots.may_fit_soon(shape(4))
    assert not cluster.dispatcher.slots.may_fit_soon(shape(5)), "it never fits"
    cluster.say("worker-0", Released(record.job_id, 0))
    assert not cluster.dispatcher.slots.may_fit_soon(shape(2)), "it fits now"
    assert cluster.dispatcher.slots.may_fit_soon(shape(3))
    cluster.say("worker-1", Released(record.job_id, 0))
    assert record.execution.state is JobState.FINISHED
    assert cluster.submit(parallelism=4).execution.state is JobState.DEPLOYING


def test_slots_of_a_lost_worker_are_not_waited_for(cluster: Cluster) -> None:
    record = cluster.running(parallelism=4)
    cluster.dispatcher.worker_exited("worker-1", "exited with status 1", cluster.now)
    assert record.execution.state is JobState.FAILING
    assert not cluster.dispatcher.slots.may_fit_soon(shape(3))
    assert cluster.dispatcher.slots.may_fit_soon(shape(2))


def test_a_refusal_names_the_workers_that_are_lost(cluster: Cluster) -> None:
    cluster.dispatcher.worker_exited("worker-1", "killed by signal 9 (SIGKILL)", cluster.now)
    with pytest.raises(
        InsufficientSlotsError,
        match=r"has 2 on 1 worker: .*; worker worker-1 \(pid 101\) was lost: killed by signal 9",
    ):
        cluster.submit(parallelism=3)


def test_a_refusal_names_only_the_last_lost_workers(cluster: Cluster) -> None:
    for number in range(10, 16):
        message = Register(f"worker-{number}", number, f"127.0.0.1:{number}", 1)
        cluster.dispatcher.register(message, cluster.now)
        cluster.dispatcher.worker_exited(f"worker-{number}", "killed", cluster.now)
    with pytest.raises(InsufficientSlotsError, match="; 3 were lost before$") as raised:
        cluster.submit(parallelism=9)
    told = [f"worker-{number}" in str(raised.value) for number in range(10, 16)]
    assert told == [False, False, False, True, True, True]


def test_slots_of_a_subtask_that_never_ends_stay_taken(cluster: Cluster) -> None:
    record = cluster.running()
    cluster.dispatcher.cancel(record, cluster.now)
    cluster.say("worker-0", Released(record.job_id, 0))
    cluster.pass_time(5.0)
    assert record.execution.state is JobState.CANCELED
    assert cluster.free_slots() == [2, 1]
    assert record.status(cluster.now)["holders"] == ["worker-1"]
    assert not cluster.dispatcher.slots.may_fit_soon(shape(4)), "nobody knows when they come"
    with pytest.raises(InsufficientSlotsError, match=r"worker-1 holds slots of job .* has ended"):
        cluster.submit(parallelism=4)
    cluster.say("worker-1", Released(record.job_id, 0))
    assert cluster.free_slots() == [2, 2]


def test_slots_of_a_forgotten_job_are_released(cluster: Cluster) -> None:
    record = cluster.running(parallelism=1)
    (worker_id,) = record.execution.workers
    cluster.dispatcher.cancel(record, cluster.now)
    cluster.pass_time(5.0)
    assert record.execution.holders == (worker_id,)
    for _ in range(CONFIG.jobs_retained + 1):
        cluster.finish(cluster.running(parallelism=1))
    assert cluster.dispatcher.job(record.job_id) is None
    assert sum(cluster.free_slots()) == 3
    cluster.say(worker_id, Released(record.job_id, 0))
    assert cluster.free_slots() == [2, 2]


def test_slots_of_an_unreleased_attempt_stay_occupied_during_the_next(
    retrying: Cluster,
) -> None:
    record = retrying.running()
    retrying.say("worker-0", failed(record, "worker-0", CauseRank.CAUSE))
    retrying.say("worker-0", Released(record.job_id, 0))
    retrying.pass_time(5.0)
    assert record.execution.holders == ("worker-1",)
    retrying.dispatcher.starts.begin_attempt(record, retrying.now)
    retrying.open(record)
    assert retrying.free_slots() == [1, 0]
    with pytest.raises(InsufficientSlotsError, match='worker-1 holds slots of job "sums"'):
        retrying.submit(parallelism=2)
    retrying.say("worker-1", Released(record.job_id, 0))
    assert retrying.free_slots() == [1, 1]
    assert record.execution.state is JobState.RUNNING


def test_a_shared_slot_stays_occupied_until_its_last_subtask_is_released(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    record = cluster.running()
    cluster.right(record, 0)
    cluster.reopened(record, 1)
    assert cluster.free_slots() == [1, 1]
    for subtask in ((0, 0), (0, 1), (1, 0), (1, 1)):
        cluster.finish_subtask(record, subtask)
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    assert cluster.free_slots() == [1, 1], "the restarted side has them"
    for subtask in ((2, 0), (2, 1), (3, 0), (3, 1)):
        cluster.finish_subtask(record, subtask)
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 1))
    assert cluster.free_slots() == [2, 2]
    assert record.state is JobState.FINISHED
