"""The coordinator's decisions, driven without processes and without a clock."""

from __future__ import annotations

import msgpack
import pytest

from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    Cancel,
    Deploy,
    Heartbeat,
    Opened,
    Released,
    Run,
)
from flinknet.errors import (
    JobError,
    RemoteProtocolError,
)
from tests.unit.cluster.coordinator.jobs.dispatched import (
    CONFIG,
    RESULT,
    WORKERS,
    Cluster,
    failed,
)


def test_a_job_is_deployed_run_and_finished(cluster: Cluster) -> None:
    record = cluster.submit()
    job_id = record.job_id
    assert cluster.sent == [(worker_id, Deploy(job_id, 0)) for worker_id in WORKERS]
    assert cluster.free_slots() == [1, 1]
    cluster.sent.clear()
    cluster.say("worker-0", Opened(job_id, 0))
    assert cluster.sent == []
    cluster.say("worker-1", Opened(job_id, 0))
    assert cluster.sent == [(worker_id, Run(job_id, 0)) for worker_id in WORKERS]
    cluster.now = 2.5
    cluster.finish(record)
    assert record.execution.state is JobState.FINISHED
    assert record.submission.graph == b"", "nobody needs it any more"
    assert cluster.free_slots() == [2, 2]
    status = record.status(now=99.0)
    assert (status["state"], status["seconds"], status["cause"]) == ("FINISHED", 2.5, None)
    assert [vertex["states"] for vertex in status["vertices"]] == [
        {"FINISHED": 1},
        {"FINISHED": 2},
    ]


def test_the_coordinator_never_reads_user_code(cluster: Cluster) -> None:
    record = cluster.submit()
    for vertex in record.submission.shape.vertices:
        for operator in vertex.operators:
            with pytest.raises(AssertionError):
                operator.factory()
    with pytest.raises(AssertionError):
        record.submission.shape.edges[0].partitioner()


def test_two_jobs_share_the_cluster(cluster: Cluster) -> None:
    first, second = cluster.running(), cluster.running()
    assert cluster.free_slots() == [0, 0]
    cluster.finish(first)
    assert cluster.free_slots() == [1, 1]
    assert second.execution.state is JobState.RUNNING


def test_a_killed_worker_fails_the_job_with_its_exit_status(cluster: Cluster) -> None:
    """The echo comes first, then the closed connection, then the launcher's report."""
    record = cluster.running()
    cluster.say("worker-0", failed(record, "worker-0", CauseRank.SYMPTOM, "connection lost"))
    cluster.dispatcher.connection_closed("worker-1", cluster.now)
    assert cluster.sent == []
    cluster.dispatcher.worker_exited("worker-1", "killed by signal 9 (SIGKILL)", cluster.now)
    assert cluster.sent == [("worker-0", Cancel(record.job_id, 0))]
    cluster.say("worker-0", Released(record.job_id, 0))
    assert record.execution.state is JobState.FAILED
    assert record.execution.cause is not None
    assert record.execution.cause.message == "killed by signal 9 (SIGKILL)"
    assert cluster.free_slots() == [2, 0]


def test_a_lost_worker_does_not_touch_jobs_elsewhere(cluster: Cluster) -> None:
    record = cluster.running(parallelism=1)
    (worker_id,) = record.execution.workers
    (other,) = set(WORKERS) - {worker_id}
    cluster.dispatcher.worker_exited(other, "killed by signal 9 (SIGKILL)", cluster.now)
    assert record.execution.state is JobState.RUNNING


def test_a_symptom_becomes_the_cause_when_nothing_better_comes(cluster: Cluster) -> None:
    record = cluster.running()
    cluster.say("worker-0", failed(record, "worker-0", CauseRank.SYMPTOM, "connection lost"))
    cluster.pass_time(0.9)
    assert cluster.sent == []
    cluster.pass_time(1.0)
    assert [worker_id for worker_id, _ in cluster.sent] == list(WORKERS)
    assert record.execution.state is JobState.FAILING


def test_every_heartbeat_is_answered(cluster: Cluster) -> None:
    """A worker can therefore recognize a hanging coordinator by its silence."""
    cluster.say("worker-1", Heartbeat())
    assert cluster.sent == [("worker-1", Heartbeat())]


def test_a_coordinator_that_is_told_to_stop_is_the_cause_of_what_follows(cluster: Cluster) -> None:
    """Its workers, which it sends away, are not the cause."""
    record, ended = cluster.running(), cluster.running()
    cluster.finish(ended)
    cause = FailureCause.of_coordinator(7, "was told to stop")
    cluster.dispatcher.stop(cause, cluster.now)
    for worker_id in WORKERS:
        cluster.dispatcher.connection_closed(worker_id, cluster.now)
        cluster.dispatcher.worker_exited(worker_id, "exited with status 0", cluster.now)
    assert record.execution.state is JobState.FAILED
    assert record.execution.cause == cause
    assert str(cause.to_error("sums")) == (
        'job "sums" failed: the coordinator (pid 7) was told to stop'
    )
    assert ended.execution.state is JobState.FINISHED


def test_a_silent_worker_fails_its_job(cluster: Cluster) -> None:
    record = cluster.running()
    while record.execution.state is JobState.RUNNING and cluster.now < 60:
        cluster.now = cluster.dispatcher.deadline
        cluster.say("worker-0", Heartbeat())
        cluster.dispatcher.tick(cluster.now)
    assert cluster.now == CONFIG.heartbeat_timeout_ms / 1000
    assert record.execution.cause is not None
    assert record.execution.cause.worker_id == "worker-1"
    assert "no sign of life" in record.execution.cause.message


def test_collected_records_are_bounded_over_all_subtasks(cluster: Cluster) -> None:
    record = cluster.running()
    fits = {**RESULT, "collected": bytes(CONFIG.collect_bytes_max)}
    cluster.dispatcher.take_result(record, record.present, (1, 0), fits, cluster.now)
    one_more = {**RESULT, "collected": b"x"}
    with pytest.raises(JobError, match=r"1025 bytes.*cluster.collect_bytes_max = 1024.*Parquet"):
        cluster.dispatcher.take_result(record, record.present, (1, 1), one_more, cluster.now)
    assert record.execution.state is JobState.RUNNING


def test_collected_records_of_a_failed_job_are_dropped(cluster: Cluster) -> None:
    record = cluster.running()
    result = {**RESULT, "collected": bytes(100)}
    cluster.dispatcher.take_result(record, record.present, (1, 1), result, cluster.now)
    assert record.present.collected_bytes == 100
    cluster.say("worker-0", failed(record, "worker-0", CauseRank.CAUSE))
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    assert record.execution.state is JobState.FAILED
    assert record.present.collected_bytes == 0


def test_results_are_one_row_per_subtask_in_order(cluster: Cluster) -> None:
    record = cluster.running()
    cluster.finish(record)
    rows = record.present.result()
    assert [(row["vertex"], row["index"]) for row in rows] == [(0, 0), (1, 0), (1, 1)]
    assert {row["worker_id"] for row in rows} == set(WORKERS)
    assert rows[1]["name"] == "Reduce -> Sink: Collect (1/2)"
    assert msgpack.unpackb(msgpack.packb(rows)) == rows


def test_only_the_last_jobs_are_remembered(cluster: Cluster) -> None:
    records = []
    for _ in range(4):
        records.append(cluster.running())
        cluster.finish(records[-1])
    running = cluster.running()
    kept = [record.job_id for record in cluster.dispatcher.jobs()]
    assert kept == [*(record.job_id for record in records[-2:]), running.job_id]
    assert cluster.dispatcher.job(records[0].job_id) is None


def test_a_worker_must_not_send_messages_of_the_coordinator(cluster: Cluster) -> None:
    with pytest.raises(RemoteProtocolError, match="sent Run, which it must not"):
        cluster.say("worker-0", Run("job", 0))
