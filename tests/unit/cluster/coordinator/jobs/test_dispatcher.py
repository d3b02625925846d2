"""The coordinator's decisions, driven without processes and without a clock."""

from __future__ import annotations

from dataclasses import asdict, replace

import msgpack
import pytest

from flinknet.checkpoint.coordinator import Complete, Discard
from flinknet.checkpoint.failure_reason import CheckpointFailure, CheckpointFailureReason
from flinknet.cluster.control.failure import FailureCause, Gravity
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    AbortCheckpoint,
    AcknowledgeCheckpoint,
    AwaitCheckpoint,
    Cancel,
    CompleteCheckpoint,
    DeclineCheckpoint,
    Deploy,
    Failed,
    Heartbeat,
    Message,
    Opened,
    Progress,
    Register,
    Released,
    Run,
    Settled,
    TriggerCheckpoint,
)
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.wall_clock import WallClock
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.recovery import RecoveryState
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.config import ClusterConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.config.restart_strategy import NO_RESTART, FixedDelayRestart, RestartStrategy
from flinknet.errors import (
    InsufficientSlotsError,
    JobError,
    LocalProtocolError,
    RemoteProtocolError,
)
from flinknet.graph.graph import CheckpointedOutput
from flinknet.metrics.io_metrics import IOMetrics
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.counted_work import counted_work
from tests.unit.cluster.graphs import keyed_graph, two_pipelines

CONFIG = ClusterConfig(
    heartbeat_interval_ms=1_000.0,
    heartbeat_timeout_ms=10_000.0,
    cause_grace_ms=1_000.0,
    cancel_timeout_ms=5_000.0,
    collect_bytes_max=1024,
    jobs_retained=2,
    jobs_waiting_max=2,
    lost_workers_retained=5,
    attempts_retained=2,
    restart_slots_timeout_ms=20_000.0,
)
RESULT = {
    **asdict(IOMetrics(3, 2, 10, 20, 400, 500, 100)),
    "metrics": {},
    "committables": b"",
    "checkpoint_taken": -1,
}
WORKERS = ("worker-0", "worker-1")
CHECKPOINTING = JobCheckpointingConfig(10_000.0, timeout_ms=5_000.0)


class Cluster:
    """A dispatcher with two workers of two slots, and a record of its messages to them."""

    def __init__(self, restart: RestartStrategy = NO_RESTART, slots: int = 2) -> None:
        self.restart = restart
        self.checkpointing: JobCheckpointingConfig | None = None
        self.now = 0.0
        self.sent: list[tuple[str, Message]] = []
        self.dispatcher = Dispatcher(
            CONFIG,
            now=self.now,
            send=lambda *sent: self.sent.append(sent),
            keep=self.keep,
            seek=self.seek,
            wall=WallClock(1000.0),
        )
        for number, worker_id in enumerate(WORKERS):
            message = Register(worker_id, 100 + number, f"127.0.0.1:{1000 + number}", slots)
            self.dispatcher.register(message, self.now)

    def keep(self, record: JobRecord, attempt: AttemptRecord, order: Complete | Discard) -> None:
        raise AssertionError("jobs without checkpoints order none")

    def seek(self, record: JobRecord) -> None:
        raise AssertionError("jobs without checkpoints continue from none")

    def submit(self, parallelism: int = 2, waits_s: float = 0.0) -> JobRecord:
        # It is serialized, so that the dispatcher gets a shape without functions, as in a cluster.
        graph = replace(
            keyed_graph(parallelism=parallelism),
            restart=self.restart,
            checkpointing=self.checkpointing,
        )
        submission = replace(Submission.of_graph(graph), wait_for_slots_ms=1000 * waits_s)
        body = submission.to_bytes()
        return self.dispatcher.submit(Submission.from_bytes(body), self.now)

    def running(self, parallelism: int = 2) -> JobRecord:
        record = self.submit(parallelism)
        self.open(record)
        return record

    def open(self, record: JobRecord) -> None:
        for worker_id in record.execution.workers:
            self.say(worker_id, Opened(record.job_id, record.present.number))
        assert record.execution.state is JobState.RUNNING
        self.sent.clear()

    def fail(
        self, record: JobRecord, worker_id: str = "worker-0", error: str = "ValueError"
    ) -> None:
        """Let the present attempt fail, and every worker release it."""
        self.say(worker_id, failed(record, worker_id, Gravity.CAUSE, error=error))
        for worker_id in record.execution.workers:
            self.say(worker_id, Released(record.job_id, record.present.number))
        assert record.execution.state is JobState.FAILED
        self.sent.clear()

    def say(self, worker_id: str, message: Message) -> None:
        self.dispatcher.receive(worker_id, message, self.now)

    def finish(self, record: JobRecord, collected: bytes = b"") -> None:
        for subtask in record.execution.subtask_states():
            result = {**RESULT, "collected": collected}
            self.dispatcher.take_result(record, record.present, subtask, result, self.now)
        for worker_id in record.execution.workers:
            self.say(worker_id, Released(record.job_id, record.present.number))

    def free_slots(self) -> list[int]:
        return [worker.free_slots for worker in self.dispatcher.workers.workers()]

    def pass_time(self, until: float) -> None:
        """Tick at each deadline of the dispatcher, with heartbeats of all workers."""
        while self.dispatcher.deadline <= until:
            self.now = max(self.now, self.dispatcher.deadline)
            for worker in self.dispatcher.workers.registered():
                self.say(worker.worker_id, Heartbeat())
                self.sent.remove((worker.worker_id, Heartbeat()))
            self.dispatcher.tick(self.now)
        self.now = until


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def failed(
    record: JobRecord,
    worker_id: str,
    gravity: Gravity,
    message: str = "boom",
    error: str = "ValueError",
) -> Failed:
    vertex, index = next(
        subtask
        for subtask in record.execution.subtask_states()
        if record.execution.worker_of(subtask) == worker_id
    )
    cause = FailureCause(gravity, worker_id, 100, error, message, "Map (1/1)")
    return Failed(record.job_id, record.present.number, vertex, index, cause.to_dict())


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


def test_a_job_that_does_not_fit_is_refused_and_leaves_nothing(cluster: Cluster) -> None:
    with pytest.raises(InsufficientSlotsError, match="needs 5 slots"):
        cluster.submit(parallelism=5)
    cluster.running(parallelism=3)
    with pytest.raises(InsufficientSlotsError, match=r"needs 2 slots.*has 1"):
        cluster.submit(parallelism=2)
    assert len(cluster.dispatcher.jobs()) == 1


def test_jobs_wait_for_slots_in_order_of_their_submission(cluster: Cluster) -> None:
    first = cluster.running(parallelism=4)
    wide = cluster.submit(parallelism=3, waits_s=60.0)
    narrow = cluster.submit(parallelism=1, waits_s=60.0)
    assert [one.state for one in (wide, narrow)] == [JobState.CREATED] * 2
    status = wide.status(cluster.now)
    assert (status["state"], status["workers"], status["holders"]) == ("CREATED", [], [])
    assert cluster.sent == [], "no worker hears of them"
    for subtask in first.execution.subtask_states():
        result = {**RESULT, "collected": b""}
        cluster.dispatcher.take_result(first, first.present, subtask, result, cluster.now)
    cluster.say("worker-0", Released(first.job_id, 0))
    assert cluster.free_slots() == [2, 0]
    assert narrow.state is JobState.CREATED, "it would fit, and does not overtake"
    with pytest.raises(InsufficientSlotsError, match=r"needs 3 slots.*has 2"):
        cluster.submit(parallelism=3)
    cluster.say("worker-1", Released(first.job_id, 0))
    assert [one.state for one in (wide, narrow)] == [JobState.DEPLOYING] * 2
    assert (wide.present.number, len(wide.attempts)) == (0, 1)
    cluster.open(wide)
    cluster.finish(wide)
    assert wide.state is JobState.FINISHED


def test_a_job_that_has_waited_too_long_fails_with_the_numbers(cluster: Cluster) -> None:
    cluster.restart = FixedDelayRestart(3, 0.0)
    cluster.running(parallelism=4)
    waiting = cluster.submit(parallelism=3, waits_s=60.0)
    behind = cluster.submit(parallelism=3, waits_s=10.0)
    cluster.pass_time(59.9)
    assert (waiting.state, behind.state) == (JobState.CREATED, JobState.FAILED)
    cluster.pass_time(60.1)
    assert waiting.state is JobState.FAILED
    cause = waiting.execution.cause
    assert cause is not None
    assert "has waited for slots for 60 s" in cause.message
    assert "needs 3 slots" in cause.message
    assert waiting.submission.graph == b""


def test_a_job_that_waits_is_cancelled_or_ends_with_the_coordinator(cluster: Cluster) -> None:
    cluster.running(parallelism=4)
    cancelled = cluster.submit(parallelism=3, waits_s=60.0)
    ended = cluster.submit(parallelism=3, waits_s=60.0)
    cluster.dispatcher.cancel(cancelled, cluster.now)
    assert cancelled.state is JobState.CANCELED
    cluster.dispatcher.stop(FailureCause.of_coordinator(1, "stops"), cluster.now)
    assert ended.state is JobState.FAILED


def test_only_so_many_jobs_wait(cluster: Cluster) -> None:
    cluster.running(parallelism=4)
    for _ in range(CONFIG.jobs_waiting_max):
        cluster.submit(parallelism=1, waits_s=60.0)
    with pytest.raises(InsufficientSlotsError, match="2 jobs do already"):
        cluster.submit(parallelism=1, waits_s=60.0)


def shape(parallelism: int) -> Submission:
    return Submission.of_graph(keyed_graph(parallelism=parallelism))


def test_slots_on_their_way_back_are_waited_for(cluster: Cluster) -> None:
    record = cluster.running(parallelism=4)
    assert not cluster.dispatcher.may_fit_soon(shape(2)), "a running job may run for ever"
    for subtask in record.execution.subtask_states():
        result = {**RESULT, "collected": b""}
        cluster.dispatcher.take_result(record, record.present, subtask, result, cluster.now)
    assert cluster.dispatcher.may_fit_soon(shape(4))
    assert not cluster.dispatcher.may_fit_soon(shape(5)), "it never fits"
    cluster.say("worker-0", Released(record.job_id, 0))
    assert not cluster.dispatcher.may_fit_soon(shape(2)), "it fits now"
    assert cluster.dispatcher.may_fit_soon(shape(3))
    cluster.say("worker-1", Released(record.job_id, 0))
    assert record.execution.state is JobState.FINISHED
    assert cluster.submit(parallelism=4).execution.state is JobState.DEPLOYING


def test_slots_of_a_lost_worker_are_not_waited_for(cluster: Cluster) -> None:
    record = cluster.running(parallelism=4)
    cluster.dispatcher.worker_exited("worker-1", "exited with status 1", cluster.now)
    assert record.execution.state is JobState.FAILING
    assert not cluster.dispatcher.may_fit_soon(shape(3))
    assert cluster.dispatcher.may_fit_soon(shape(2))


def test_a_refusal_names_the_workers_that_are_lost(cluster: Cluster) -> None:
    cluster.dispatcher.worker_exited("worker-1", "killed by signal 9 (SIGKILL)", cluster.now)
    with pytest.raises(
        InsufficientSlotsError,
        match=r"has 2 on 1 workers: .*; worker worker-1 \(pid 101\) was lost: killed by signal 9",
    ):
        cluster.submit(parallelism=3)


def test_a_refusal_names_no_more_than_the_last_of_them(cluster: Cluster) -> None:
    for number in range(10, 16):
        message = Register(f"worker-{number}", number, f"127.0.0.1:{number}", 1)
        cluster.dispatcher.register(message, cluster.now)
        cluster.dispatcher.worker_exited(f"worker-{number}", "killed", cluster.now)
    with pytest.raises(InsufficientSlotsError, match="; 3 were lost before$") as raised:
        cluster.submit(parallelism=9)
    told = [f"worker-{number}" in str(raised.value) for number in range(10, 16)]
    assert told == [False, False, False, True, True, True]


def test_two_jobs_share_the_cluster(cluster: Cluster) -> None:
    first, second = cluster.running(), cluster.running()
    assert cluster.free_slots() == [0, 0]
    cluster.finish(first)
    assert cluster.free_slots() == [1, 1]
    assert second.execution.state is JobState.RUNNING


def test_progress_is_summed_over_the_subtasks_of_a_vertex(cluster: Cluster) -> None:
    record = cluster.running()
    rows = [[0, 0, 7, 7, 0, 70, 0, 9, 1], [1, 0, 3, 0, 30, 0, 8, 2, 0]]
    cluster.say("worker-0", Progress(record.job_id, 0, rows))
    cluster.say("worker-1", Progress(record.job_id, 0, [[1, 1, 4, 0, 40, 0, 1, 8, 1]]))
    source, sink = record.status(cluster.now)["vertices"]
    assert (source["records_in"], source["records_out"], source["bytes_out"]) == (7, 7, 70)
    assert (sink["records_in"], sink["records_out"], sink["bytes_in"]) == (7, 0, 70)
    times = [sink[f"{state}_time_ms"] for state in ("idle", "busy", "backpressured")]
    assert times == [9, 10, 1]


def test_the_numbers_of_a_finished_subtask_are_final(cluster: Cluster) -> None:
    record = cluster.running()
    result = {**RESULT, "collected": b""}
    cluster.dispatcher.take_result(record, record.present, (0, 0), result, cluster.now)
    cluster.say("worker-0", Progress(record.job_id, 0, [[0, 0, 1, 1, 1, 1, 1, 1, 1]]))
    assert record.status(cluster.now)["vertices"][0]["records_in"] == RESULT["records_in"]


def test_a_killed_worker_fails_the_job_with_its_exit_status(cluster: Cluster) -> None:
    """The echo comes first, then the closed connection, then the launcher's report."""
    record = cluster.running()
    cluster.say("worker-0", failed(record, "worker-0", Gravity.SYMPTOM, "connection lost"))
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
    cluster.say("worker-0", failed(record, "worker-0", Gravity.SYMPTOM, "connection lost"))
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


def test_slots_of_a_subtask_that_never_ends_stay_taken(cluster: Cluster) -> None:
    record = cluster.running()
    cluster.dispatcher.cancel(record, cluster.now)
    cluster.say("worker-0", Released(record.job_id, 0))
    cluster.pass_time(5.0)
    assert record.execution.state is JobState.CANCELED
    assert cluster.free_slots() == [2, 1]
    assert record.status(cluster.now)["holders"] == ["worker-1"]
    assert not cluster.dispatcher.may_fit_soon(shape(4)), "nobody knows when they come"
    with pytest.raises(InsufficientSlotsError, match=r"worker-1 holds slots of job .* has ended"):
        cluster.submit(parallelism=4)
    cluster.say("worker-1", Released(record.job_id, 0))
    assert cluster.free_slots() == [2, 2]


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
    cluster.say("worker-0", failed(record, "worker-0", Gravity.CAUSE))
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


def test_messages_of_unknown_jobs_and_attempts_are_dropped(cluster: Cluster) -> None:
    record = cluster.running()
    cluster.say("worker-0", Opened("no-such-job", 0))
    cluster.say("worker-0", Released(record.job_id, 7))
    assert record.execution.state is JobState.RUNNING
    assert cluster.sent == []


@pytest.mark.parametrize(
    ("vertex", "index", "cause"),
    [(9, 0, {}), (0, 0, {}), (0, 0, {"gravity": "WORSE"}), (-1, -1, {"gravity": "CAUSE"})],
)
def test_a_malformed_failure_breaks_the_protocol(
    cluster: Cluster, vertex: int, index: int, cause: dict[str, str]
) -> None:
    record = cluster.running()
    worker_id = record.execution.worker_of((0, 0))
    with pytest.raises(RemoteProtocolError):
        cluster.say(worker_id, Failed(record.job_id, 0, vertex, index, cause))


@pytest.mark.parametrize(
    "rows",
    [[1], [[0]], [[0, 0, *range(6)]], [[0, 0, *range(8)]], [[0, 0, "1", 2, 3, 4, 5, 6, 7]]],
)
def test_malformed_progress_breaks_the_protocol(cluster: Cluster, rows: list[object]) -> None:
    record = cluster.running()
    with pytest.raises(RemoteProtocolError, match="Progress"):
        cluster.say("worker-0", Progress(record.job_id, 0, rows))


def test_a_worker_reports_its_own_subtasks_only(cluster: Cluster) -> None:
    record = cluster.running()
    owner = record.execution.worker_of((0, 0))
    (other,) = set(WORKERS) - {owner}
    cause = FailureCause(Gravity.CAUSE, other, 101, "ValueError", "boom").to_dict()
    with pytest.raises(RemoteProtocolError, match="does not run subtask"):
        cluster.say(other, Failed(record.job_id, 0, 0, 0, cause))


def test_a_worker_must_not_talk_like_the_coordinator(cluster: Cluster) -> None:
    with pytest.raises(RemoteProtocolError, match="sent Run, which it must not"):
        cluster.say("worker-0", Run("job", 0))


# -- attempts


@pytest.fixture
def retrying() -> Cluster:
    """A cluster with jobs that take another attempt, in the far future unless the test begins
    it."""
    return Cluster(FixedDelayRestart(attempts=9, delay_ms=1_000_000.0))


def test_a_job_whose_attempt_has_failed_ends_with_it(cluster: Cluster) -> None:
    """It has no restart strategy."""
    record = cluster.running()
    cluster.fail(record)
    assert record.ended_at == cluster.now
    assert record.submission.graph == b""
    with pytest.raises(LocalProtocolError, match="has ended"):
        cluster.dispatcher.begin_attempt(record, cluster.now)


def test_a_failed_attempt_is_followed_by_another_that_answers_for_the_job(
    retrying: Cluster,
) -> None:
    record = retrying.running()
    retrying.now = 2.0
    retrying.fail(record)
    assert (record.ended_at, retrying.free_slots()) == (None, [2, 2])
    assert record.submission.graph, "the next attempt needs it"
    retrying.now = 3.0
    attempt = retrying.dispatcher.begin_attempt(record, retrying.now)
    assert record.present is attempt
    assert retrying.sent == [(worker_id, Deploy(record.job_id, 1)) for worker_id in WORKERS]
    assert retrying.free_slots() == [1, 1]
    retrying.open(record)
    retrying.now = 7.0
    retrying.finish(record)
    status = record.status(retrying.now)
    assert (status["attempt"], status["state"], status["seconds"]) == (1, "FINISHED", 7.0)
    assert status["cause"] is None
    story = [attempt.status(retrying.now) for attempt in record.attempts]
    assert [(past["attempt"], past["state"], past["seconds"]) for past in story] == [
        (0, "FAILED", 2.0),
        (1, "FINISHED", 4.0),
    ]
    assert story[0]["cause"]["message"] == "boom"
    assert record.ended_at == 7.0
    assert record.submission.graph == b""


def test_the_names_of_an_attempt_are_its_own(retrying: Cluster) -> None:
    """No channel of one attempt can then be taken for one of another."""
    record = retrying.running()
    retrying.fail(record)
    retrying.dispatcher.begin_attempt(record, retrying.now)
    partitions = [
        {
            result.partition_id
            for descriptors in attempt.placement.subtasks.values()
            for descriptor in descriptors
            for result in descriptor.results
        }
        for attempt in record.attempts
    ]
    assert all(partitions)
    assert not set.intersection(*partitions)


@pytest.fixture
def restarting() -> Cluster:
    """A cluster with jobs that are restarted once, a second after their failure."""
    return Cluster(FixedDelayRestart(attempts=1, delay_ms=1000.0))


def test_a_job_is_restarted_when_its_time_has_come(restarting: Cluster) -> None:
    record = restarting.running()
    assert not restarting.dispatcher.waits_to_restart
    restarting.fail(record)
    assert (record.state, record.status(0.5)["state"]) == (JobState.RESTARTING, "RESTARTING")
    assert restarting.dispatcher.waits_to_restart
    restarting.pass_time(0.9)
    assert record.present.number == 0
    restarting.pass_time(1.0)
    assert (record.present.number, record.state) == (1, JobState.DEPLOYING)
    assert restarting.sent == [(worker_id, Deploy(record.job_id, 1)) for worker_id in WORKERS]
    restarting.open(record)
    restarting.fail(record)
    assert (record.state, record.ended_at) == (JobState.FAILED, 1.0), "once, and not again"


def test_a_job_that_asks_for_what_cannot_be_is_not_restarted(restarting: Cluster) -> None:
    """The next attempt would fail in the same way until the restarts are used up, which never
    happens with checkpoints. In a job that has run before, the cause is something that had
    worked, so it is restarted."""
    wrong = restarting.running()
    restarting.fail(wrong, error="ConfigurationError")
    assert (wrong.state, wrong.ended_at) == (JobState.FAILED, 0.0)
    retrying = Cluster(FixedDelayRestart(attempts=9, delay_ms=1000.0))
    record = retrying.running()
    retrying.fail(record)
    retrying.pass_time(1.0)
    retrying.open(record)
    retrying.fail(record, error="ConfigurationError")
    assert record.state is JobState.RESTARTING


def test_a_restart_waits_for_a_worker_in_place_of_a_lost_one(restarting: Cluster) -> None:
    record = restarting.running(parallelism=4)
    restarting.dispatcher.worker_exited("worker-1", "killed by signal 9 (SIGKILL)", 0.0)
    restarting.say("worker-0", Released(record.job_id, 0))
    restarting.sent.clear()
    restarting.pass_time(15.0)
    assert (record.state, restarting.sent) == (JobState.RESTARTING, [])
    restarting.dispatcher.register(Register("worker-1.1", 7, "127.0.0.1:7", 2), restarting.now)
    assert restarting.sent == [], "it has not heard yet that it is registered"
    restarting.say("worker-1.1", Heartbeat())
    assert restarting.sent[1:] == [
        ("worker-0", Deploy(record.job_id, 1)),
        ("worker-1.1", Deploy(record.job_id, 1)),
    ]
    restarting.open(record)
    restarting.finish(record)
    assert record.state is JobState.FINISHED


def test_a_restart_does_not_wait_for_slots_for_ever(restarting: Cluster) -> None:
    record = restarting.running(parallelism=4)
    restarting.dispatcher.worker_exited("worker-1", "killed by signal 9 (SIGKILL)", 0.0)
    restarting.say("worker-0", Released(record.job_id, 0))
    restarting.pass_time(20.9)
    assert record.state is JobState.RESTARTING
    restarting.pass_time(21.0)
    assert (record.state, record.ended_at) == (JobState.FAILED, 21.0)
    assert record.status(21.0)["cause"]["message"] == "killed by signal 9 (SIGKILL)"


def test_a_job_that_waits_for_its_restart_can_be_cancelled(restarting: Cluster) -> None:
    record = restarting.running()
    restarting.fail(record)
    restarting.dispatcher.cancel(record, 0.5)
    assert (record.state, record.ended_at) == (JobState.CANCELED, 0.5)
    restarting.pass_time(5.0)
    assert record.present.number == 0


def test_nothing_is_restarted_when_the_coordinator_ends(restarting: Cluster) -> None:
    waiting, running = restarting.running(), restarting.running()
    restarting.fail(waiting)
    restarting.dispatcher.stop(FailureCause.of_coordinator(7, "was told to stop"), 0.0)
    for worker_id in WORKERS:
        restarting.say(worker_id, Released(running.job_id, 0))
    assert [waiting.state, running.state] == [JobState.FAILED, JobState.FAILED]
    assert not restarting.dispatcher.waits_to_restart


@pytest.mark.parametrize("worker_id", WORKERS)
def test_late_messages_of_an_earlier_attempt_change_nothing(
    retrying: Cluster, worker_id: str
) -> None:
    record = retrying.running()
    late_failure = failed(record, worker_id, Gravity.CAUSE, "late")
    retrying.fail(record)
    earlier, now = record.present, retrying.now
    retrying.dispatcher.begin_attempt(record, now)
    retrying.open(record)
    before = [attempt.status(now) for attempt in record.attempts], record.status(now)
    free = retrying.free_slots()
    for message in (
        Opened(record.job_id, 0),
        Progress(record.job_id, 0, [[0, 0, 7, 7, 0, 70, 0, 9, 1]]),
        late_failure,
        Settled(record.job_id, 0, {}),
        Released(record.job_id, 0),
    ):
        retrying.say(worker_id, message)
    result = {**RESULT, "collected": bytes(CONFIG.collect_bytes_max)}
    retrying.dispatcher.take_result(record, earlier, (0, 0), result, now)
    assert ([attempt.status(now) for attempt in record.attempts], record.status(now)) == before
    assert (retrying.sent, retrying.free_slots()) == ([], free)
    assert earlier.collected_bytes == 0


def test_a_worker_that_has_not_let_go_of_an_attempt_keeps_its_slots_during_the_next(
    retrying: Cluster,
) -> None:
    record = retrying.running()
    retrying.say("worker-0", failed(record, "worker-0", Gravity.CAUSE))
    retrying.say("worker-0", Released(record.job_id, 0))
    retrying.pass_time(5.0)
    assert record.execution.holders == ("worker-1",)
    retrying.dispatcher.begin_attempt(record, retrying.now)
    retrying.open(record)
    assert retrying.free_slots() == [1, 0]
    with pytest.raises(InsufficientSlotsError, match='worker-1 holds slots of job "sums"'):
        retrying.submit(parallelism=2)
    retrying.say("worker-1", Released(record.job_id, 0))
    assert retrying.free_slots() == [1, 1]
    assert record.execution.state is JobState.RUNNING


def test_the_loss_of_a_worker_concerns_the_attempt_that_runs_there(retrying: Cluster) -> None:
    record = retrying.running()
    retrying.dispatcher.worker_exited("worker-1", "exited with status 1", retrying.now)
    retrying.say("worker-0", Released(record.job_id, 0))
    attempt = retrying.dispatcher.begin_attempt(record, retrying.now)
    assert attempt.execution.workers == ("worker-0",)
    retrying.open(record)
    assert record.execution.state is JobState.RUNNING


def test_an_attempt_that_does_not_fit_leaves_the_job_as_it_is(retrying: Cluster) -> None:
    record = retrying.running(parallelism=4)
    retrying.dispatcher.worker_exited("worker-1", "exited with status 1", retrying.now)
    retrying.say("worker-0", Released(record.job_id, 0))
    with pytest.raises(InsufficientSlotsError, match="needs 4 slots"):
        retrying.dispatcher.begin_attempt(record, retrying.now)
    assert (record.present.number, record.ended_at) == (0, None)
    assert retrying.free_slots() == [2, 0]


def test_slots_come_back_of_a_job_that_is_forgotten(cluster: Cluster) -> None:
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


# -- checkpoints


class Checkpointed(Cluster):
    """A cluster with jobs that take a checkpoint every 10 seconds, and are restarted at once."""

    def __init__(self, slots: int = 2) -> None:
        super().__init__(FixedDelayRestart(attempts=9, delay_ms=0.0), slots)
        self.checkpointing = CHECKPOINTING
        self.orders: list[tuple[int, Complete | Discard]] = []
        self.sought = 0

    def keep(self, record: JobRecord, attempt: AttemptRecord, order: Complete | Discard) -> None:
        self.orders.append((attempt.number, order))

    def seek(self, record: JobRecord) -> None:
        self.sought += 1

    def found(self, record: JobRecord, found: RestorePoint | str) -> None:
        """Give the keeper's answer: the checkpoint for the next attempt, or the failure of the
        search."""
        point, failure = (None, found) if isinstance(found, str) else (found, None)
        self.dispatcher.checkpoint_found(record, point, failure, self.now)

    def completed(self, *outputs: CheckpointedOutput, count: int = 2) -> JobRecord:
        """Return a running job that has told ``outputs`` of this many checkpoints."""
        record = self.running()
        record.submission = replace(record.submission, outputs=outputs)
        for number in range(1, count + 1):
            self.pass_time(10.0 * number)
            self.complete(record, number)
        return record

    def failed_after_checkpoint(self) -> JobRecord:
        """Return a job that has failed after its first checkpoint, which the keeper is looking
        for."""
        record = self.running()
        self.pass_time(10.0)
        self.complete(record, 1)
        self.fail(record)
        assert (self.sought, record.state) == (1, JobState.RESTARTING)
        return record

    def acknowledge(self, record: JobRecord, checkpoint_id: int, *subtasks: SubtaskKey) -> None:
        for subtask in subtasks or record.execution.subtask_states():
            self.say(
                record.execution.worker_of(subtask),
                AcknowledgeCheckpoint(
                    record.job_id,
                    record.present.number,
                    checkpoint_id,
                    *subtask,
                    b"handle",
                    [1.0, 2.0, 3.0, 4.0, 5, 6, 7],
                ),
            )

    def complete(self, record: JobRecord, checkpoint_id: int) -> None:
        """Let all subtasks acknowledge a checkpoint, and the keeper keep it."""
        self.acknowledge(record, checkpoint_id)
        (_, order) = self.orders.pop()
        assert isinstance(order, Complete)
        self.dispatcher.checkpoint_kept(record, record.present, checkpoint_id, None, self.now)


@pytest.fixture
def checkpointed() -> Checkpointed:
    return Checkpointed()


def triggers(cluster: Cluster) -> list[tuple[str, Message]]:
    return [sent for sent in cluster.sent if isinstance(sent[1], TriggerCheckpoint)]


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


def test_the_next_attempt_goes_on_from_the_last_checkpoint(checkpointed: Checkpointed) -> None:
    record = checkpointed.running()
    assert record.present.restored_from == ""
    checkpointed.pass_time(10.0)
    checkpointed.complete(record, 1)
    checkpointed.pass_time(20.0)
    checkpointed.sent.clear()
    checkpointed.say("worker-0", failed(record, "worker-0", Gravity.CAUSE))
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


def test_a_savepoint_is_no_reason_to_commit(checkpointed: Checkpointed) -> None:
    """The next attempt continues from a checkpoint before it."""
    record = checkpointed.running()
    checkpointed.dispatcher.trigger_savepoint(record, CheckpointKind.SAVEPOINT, "/saved", 1.0)
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
    checkpointed.dispatcher.trigger_savepoint(record, kind, "/saved", 1.0)
    checkpointed.complete(record, 1)
    told = [one for one in checkpointed.sent if isinstance(one[1], CompleteCheckpoint)]
    assert told == [(one, CompleteCheckpoint(record.job_id, 0, 1, True)) for one in WORKERS]
    checkpointed.say("worker-0", failed(record, "worker-0", Gravity.CAUSE))
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


@pytest.mark.parametrize(
    "point",
    [
        RestorePoint("checkpoint-7-attempt-0", frozenset({(1, 1)})),
        RestorePoint("checkpoint-0-attempt-0"),
    ],
    ids=["a later one", "an older one"],
)
def test_an_attempt_continues_from_what_was_found(
    checkpointed: Checkpointed, point: RestorePoint
) -> None:
    """The job waits for the answer for any time, and needs no tick meanwhile."""
    record = checkpointed.failed_after_checkpoint()
    checkpointed.pass_time(100.0)
    assert (checkpointed.sought, record.present.number) == (1, 0)
    checkpointed.found(record, point)
    assert record.present.number == 1
    assert (record.present.restored_from, record.present.restored_finished) == point
    checkpointed.open(record)
    checkpointed.found(record, RestorePoint("late"))
    assert record.latest_checkpoint == point
    checkpointed.say("worker-0", failed(record, "worker-0", Gravity.CAUSE))
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 1))
    assert checkpointed.sought == (2 if point.directory else 1), "the start need not be found"


FILES = CheckpointedOutput(1, "files", can_withdraw=True)
PROGRAM = CheckpointedOutput(1, "program", can_withdraw=False)


def test_a_job_that_has_given_out_records_does_not_go_back(checkpointed: Checkpointed) -> None:
    """It fails at once, with any restarts left, as the same checkpoint would be found again."""
    record = checkpointed.completed(FILES, PROGRAM)
    checkpointed.fail(record)
    checkpointed.found(record, RestorePoint("checkpoint-1-attempt-0"))
    cause = record.execution.cause
    assert cause is not None
    assert 'told "program" that checkpoint 2 is complete' in cause.message
    assert "found checkpoint-1-attempt-0" in cause.message
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 1))
    assert (record.state, record.present.number) == (JobState.FAILED, 1)


@pytest.mark.parametrize("outputs", [(), (FILES,), (PROGRAM,)])
def test_a_job_that_goes_back_has_no_newer_checkpoint_from_then_on(
    checkpointed: Checkpointed,
    outputs: tuple[CheckpointedOutput, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    allowed = PROGRAM in outputs
    checkpointed.checkpointing = replace(CHECKPOINTING, allow_repeated_output=allowed)
    record = checkpointed.completed(*outputs)
    checkpointed.fail(record)
    checkpointed.found(record, RestorePoint("checkpoint-1-attempt-0"))
    assert record.present.restored_from == "checkpoint-1-attempt-0"
    (warning,) = caplog.messages
    assert "goes on from checkpoint-1-attempt-0, although it had completed checkpoint 2" in warning
    assert ("comes again" in warning) is allowed
    assert [record.completed.is_passed_over(number) for number in (1, 2, 3)] == [False, True, False]
    checkpointed.open(record)
    checkpointed.fail(record)
    checkpointed.found(record, RestorePoint("checkpoint-1-attempt-0"))
    assert len(caplog.messages) == 1, "it is the newest one now"
    checkpointed.open(record)
    checkpointed.pass_time(50.0)
    (*_, (_, trigger)) = triggers(checkpointed)
    assert isinstance(trigger, TriggerCheckpoint)
    assert trigger.checkpoint_id == 3


def test_a_job_without_any_of_its_checkpoints_does_not_begin_at_its_start(
    checkpointed: Checkpointed,
) -> None:
    """A missing mount may come back, so the restart strategy decides."""
    record = checkpointed.completed(FILES)
    checkpointed.fail(record)
    checkpointed.dispatcher.checkpoint_found(record, None, None, checkpointed.now, "it is empty")
    cause = record.execution.cause
    assert cause is not None
    assert "had completed checkpoint 2 and cannot go on without it" in cause.message
    assert "it is empty" in cause.message
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 1))
    assert record.state is JobState.RESTARTING
    checkpointed.found(record, RestorePoint("checkpoint-2-attempt-0"))
    assert record.present.restored_from == "checkpoint-2-attempt-0"


@pytest.mark.parametrize("error", ["CheckpointCorruptedError", "CheckpointNotFoundError"])
def test_all_files_are_read_after_one_was_damaged(checkpointed: Checkpointed, error: str) -> None:
    """If they had been read before, this attempt would not have been made.

    It therefore does not count as a restart.
    """
    record = checkpointed.failed_after_checkpoint()
    assert not record.doubts_checkpoints
    checkpointed.found(record, record.latest_checkpoint)
    checkpointed.open(record)
    restarts = record.backoff.restarts
    checkpointed.fail(record, error=error)
    assert (checkpointed.sought, record.state) == (2, JobState.RESTARTING)
    assert (record.doubts_checkpoints, record.backoff.restarts) == (True, restarts)
    checkpointed.found(record, RestorePoint("checkpoint-7-attempt-0"))
    checkpointed.open(record)
    checkpointed.fail(record, error=error)
    assert record.backoff.restarts == restarts + 1, "an error of the store: not for ever"
    checkpointed.found(record, RestorePoint("checkpoint-7-attempt-0"))
    checkpointed.open(record)
    checkpointed.pass_time(20.0)
    (*_, (_, trigger)) = triggers(checkpointed)
    assert isinstance(trigger, TriggerCheckpoint)
    checkpointed.orders.clear()
    checkpointed.complete(record, trigger.checkpoint_id)
    assert not record.doubts_checkpoints, "of a newer one nothing is known"


def test_damage_where_nothing_is_restored_is_a_failure(checkpointed: Checkpointed) -> None:
    record = checkpointed.running()
    corrupted = failed(record, "worker-0", Gravity.CAUSE, error="CheckpointCorruptedError")
    checkpointed.say("worker-0", corrupted)
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 0))
    assert record.present.number == 1
    assert (record.doubts_checkpoints, record.backoff.restarts) == (False, 1)


def test_what_was_found_is_kept_while_there_are_no_slots(checkpointed: Checkpointed) -> None:
    record = checkpointed.failed_after_checkpoint()
    other = checkpointed.submit(parallelism=4)
    checkpointed.found(record, record.latest_checkpoint)
    checkpointed.pass_time(11.0)
    assert record.recovery.state is RecoveryState.WAITING_FOR_SLOTS
    checkpointed.open(other)
    checkpointed.finish(other)
    assert (checkpointed.sought, record.present.number) == (1, 1)
    assert record.present.restored_from == "checkpoint-1-attempt-0"


def test_an_attempt_fails_with_the_place_of_its_checkpoint(checkpointed: Checkpointed) -> None:
    """The restart strategy decides whether to try again."""
    record = checkpointed.failed_after_checkpoint()
    checkpointed.found(record, "the place does not answer")
    assert record.present.number == 1
    assert record.execution.cause is not None
    assert record.execution.cause.message == "the place does not answer"
    ends = [message for _, message in checkpointed.sent if isinstance(message, Cancel)]
    assert ends == [Cancel(record.job_id, 1)] * 2
    for worker_id in WORKERS:
        checkpointed.say(worker_id, Released(record.job_id, 1))
    assert checkpointed.sought == 2
    checkpointed.found(record, record.latest_checkpoint)
    assert record.present.restored_from == "checkpoint-1-attempt-0"
    checkpointed.open(record)


def test_a_job_that_is_cancelled_meanwhile_continues_from_nothing(
    checkpointed: Checkpointed,
) -> None:
    record = checkpointed.failed_after_checkpoint()
    checkpointed.dispatcher.cancel(record, checkpointed.now)
    checkpointed.found(record, RestorePoint())
    assert (record.present.number, record.state) == (0, JobState.CANCELED)


def test_late_answers_about_checkpoints_change_nothing(checkpointed: Checkpointed) -> None:
    record = checkpointed.running()
    checkpointed.pass_time(10.0)
    checkpointed.say("worker-0", failed(record, "worker-0", Gravity.CAUSE))
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
    checkpointed.say("worker-0", failed(record, "worker-0", Gravity.CAUSE))
    checkpointed.orders.clear()
    checkpointed.sent.clear()
    checkpointed.dispatcher.checkpoint_kept(record, attempt, 1, None, checkpointed.now)
    assert checkpointed.orders == [(0, Discard(1))]
    assert checkpointed.sent == []
    assert record.latest_checkpoint == RestorePoint()


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


def test_a_last_checkpoint_is_triggered_for_those_who_wait_for_it(
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


def test_who_had_finished_is_not_run_again_and_keeps_its_result(
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


def failed_key(record: JobRecord, subtask: SubtaskKey) -> Failed:
    worker_id = record.execution.worker_of(subtask)
    cause = FailureCause(Gravity.CAUSE, worker_id, 100, "ValueError", "boom", "Map (1/1)")
    return Failed(record.job_id, record.present.number, *subtask, cause.to_dict())


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


# -- a part of a job that fails


class Parted(Checkpointed):
    """A cluster with jobs of two pipelines: each has a slice in both slots of the job."""

    def submit(self, parallelism: int = 2, waits_s: float = 0.0) -> JobRecord:
        graph = replace(
            two_pipelines(parallelism), restart=self.restart, checkpointing=self.checkpointing
        )
        body = Submission.of_graph(graph).to_bytes()
        return self.dispatcher.submit(Submission.from_bytes(body), self.now)

    def right(self, record: JobRecord, number: int) -> None:
        """Let a subtask of the right pipeline fail under an attempt number, and all its subtasks be
        released."""
        cause = FailureCause(Gravity.CAUSE, "worker-0", 100, "ValueError", "boom", "right (1/2)")
        self.say("worker-0", Failed(record.job_id, number, 3, 0, cause.to_dict()))
        cancels = [one for one in self.sent if isinstance(one[1], Cancel)]
        self.sent.clear()
        for worker_id, cancel in cancels:
            assert isinstance(cancel, Cancel)
            released = Released(record.job_id, number, cancel.subtasks)
            self.say(worker_id, released)

    def finish_subtask(self, record: JobRecord, subtask: SubtaskKey) -> None:
        result = {**RESULT, "collected": b""}
        self.dispatcher.take_result(record, record.present, subtask, result, self.now)

    def reopened(self, record: JobRecord, number: int) -> None:
        for worker_id in WORKERS:
            self.say(worker_id, Opened(record.job_id, number))


@pytest.fixture
def cluster_of_parts() -> Parted:
    return Parted()


def test_a_part_begins_again_from_the_last_checkpoint_and_the_rest_goes_on(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    record = cluster.running()
    cluster.pass_time(10.0)
    cluster.complete(record, 1)
    cluster.pass_time(20.0)
    cluster.sent.clear()
    cluster.right(record, 0)
    assert record.state is JobState.RESTARTING
    assert record.execution.state is JobState.RUNNING
    assert cluster.orders == [(0, Discard(2))], "what was under way is not completed"
    assert (cluster.sought, cluster.free_slots()) == (1, [1, 1]), "the other side has the slots"
    finished = frozenset({(2, 1), (0, 0)})
    cluster.sent.clear()
    cluster.found(record, RestorePoint("checkpoint-1-attempt-0", finished))
    assert cluster.sent == [(worker_id, Deploy(record.job_id, 1)) for worker_id in WORKERS]
    cluster.reopened(record, 1)
    assert cluster.sent[2:] == [(worker_id, Run(record.job_id, 1)) for worker_id in WORKERS]
    assert record.execution.all_run
    attempt = record.present
    assert (attempt.number, attempt.last_number) == (0, 1)
    assert attempt.restored_for(1) == RestorePoint("checkpoint-1-attempt-0", finished)
    assert attempt.restored_for(0).directory == ""
    assert attempt.restored_finished == {(2, 1)}, "of the other side nobody was restored"
    cluster.sent.clear()
    cluster.pass_time(30.0)
    parts = {
        (worker, message.attempt)
        for worker, message in triggers(cluster)
        if isinstance(message, TriggerCheckpoint)
    }
    assert parts == {("worker-0", 0), ("worker-1", 0), ("worker-0", 1)}
    assert record.attempt(1) is record.present
    assert record.attempt(2) is None
    assert attempt.story(cluster.now)["region_attempts"] == {"0-0": 0, "2-0": 1}


@pytest.mark.parametrize("vertex", [0, 3])
def test_of_a_part_only_its_own_outputs_matter(cluster_of_parts: Parted, vertex: int) -> None:
    """Vertex 3 belongs to the right pipeline, which goes back; vertex 0 belongs to the other, which
    goes on."""
    cluster = cluster_of_parts
    record = cluster.completed(CheckpointedOutput(vertex, "program", can_withdraw=False))
    cluster.sent.clear()
    cluster.right(record, 0)
    cluster.found(record, RestorePoint("checkpoint-1-attempt-0"))
    if vertex == 3:
        assert record.execution.state is JobState.FAILING
        return
    assert record.present.restored_for(1).directory == "checkpoint-1-attempt-0"
    assert record.completed.newest == 2, "the other part has been told of it"
    assert record.completed.is_passed_over(2), "neither goes on from it"


def test_a_part_is_restarted_as_often_as_the_strategy_says(cluster_of_parts: Parted) -> None:
    cluster = cluster_of_parts
    record = cluster.running()
    for number in range(9):
        cluster.right(record, number)
        cluster.reopened(record, number + 1)
        assert record.state is JobState.RUNNING
    cluster.right(record, 9)
    assert record.execution.state is JobState.FAILING
    assert record.execution.cause is not None
    assert record.execution.cause.message == "boom"
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    assert record.state is JobState.FAILED, "not another attempt of all of it"
    assert [one.cause.message for one in record.present.failures] == ["boom"] * 3, "the last ones"
    assert cluster.free_slots() == [2, 2]


def test_a_part_that_is_restarted_waits_for_slots_and_then_fails_the_job(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    cluster.restart = FixedDelayRestart(attempts=1, delay_ms=0.0)
    record = cluster.running()
    for subtask in ((0, 0), (0, 1), (1, 0), (1, 1)):
        cluster.finish_subtask(record, subtask)
    for worker_id in WORKERS:
        message = Register(f"other-{worker_id}", 1, "127.0.0.1:1", 1)
        cluster.dispatcher.register(message, cluster.now)
    cluster.dispatcher.worker_exited("worker-1", "exited with status 1", cluster.now)
    assert record.execution.failover.given_up == {"2-0"}, "the other side has finished"
    other = cluster.submit(parallelism=3)
    cluster.say("worker-0", Released(record.job_id, 0))
    cluster.pass_time(19.0)
    waiting = RecoveryState.WAITING_FOR_SLOTS, JobState.RESTARTING
    assert (record.recovery.state, record.state) == waiting
    cluster.pass_time(21.0)
    assert record.state is JobState.FAILED
    assert record.execution.cause is not None
    assert "for the restarted part" in record.execution.cause.message
    assert not other.execution.state.is_terminal


def test_what_was_found_for_a_part_is_judged_again_for_all_of_the_job(
    cluster_of_parts: Parted,
) -> None:
    """The part that goes back to an older checkpoint lacks slots, so the whole attempt fails.

    The other part has an output that must not go back.
    """
    cluster = cluster_of_parts
    record = cluster.completed(CheckpointedOutput(0, "program", can_withdraw=False))
    for subtask in ((0, 0), (0, 1), (1, 0), (1, 1)):
        cluster.finish_subtask(record, subtask)
    for worker_id in WORKERS:
        message = Register(f"other-{worker_id}", 1, "127.0.0.1:1", 1)
        cluster.dispatcher.register(message, cluster.now)
    cluster.dispatcher.worker_exited("worker-1", "exited with status 1", cluster.now)
    cluster.submit(parallelism=3)
    cluster.say("worker-0", Released(record.job_id, 0))
    cluster.found(record, RestorePoint("checkpoint-1-attempt-0"))
    assert record.recovery.state is RecoveryState.WAITING_FOR_SLOTS
    cluster.pass_time(cluster.now + CONFIG.restart_slots_timeout_ms / 1000 + 1.0)
    assert (record.state, cluster.sought) == (JobState.RESTARTING, 2)
    cluster.dispatcher.register(Register("spare", 1, "127.0.0.1:1", 4), cluster.now)
    cluster.found(record, RestorePoint("checkpoint-1-attempt-0"))
    assert record.execution.cause is not None
    assert 'told "program" that checkpoint 2 is complete' in record.execution.cause.message


def test_the_slots_of_a_job_are_counted_until_the_last_that_shares_one_has_gone(
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


def test_a_job_that_ends_with_a_savepoint_is_not_restarted_in_part(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    record = cluster.running()
    kind = CheckpointKind.SAVEPOINT_SUSPEND
    cluster.dispatcher.trigger_savepoint(record, kind, "/saved", 1.0)
    cluster.right(record, 0)
    assert (record.present.number, record.execution.state) == (1, JobState.DEPLOYING)


def test_what_a_part_has_made_before_it_begins_again_does_not_count(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    record = cluster.running()
    for subtask in ((0, 0), (2, 0)):
        cluster.finish_subtask(record, subtask)
    cluster.right(record, 0)
    assert set(record.present.results) == {(0, 0)}
    cluster.reopened(record, 1)
    row = [*range(9)]
    cluster.say("worker-0", Progress(record.job_id, 0, [[2, 0, *row[2:]]]))
    assert (2, 0) not in record.present.counters, "a late word of the part before"
    cluster.say("worker-0", Progress(record.job_id, 1, [[2, 0, *row[2:]]]))
    assert (2, 0) in record.present.counters
    late = FailureCause(Gravity.CAUSE, "worker-0", 100, "ValueError", "late", "right (1/2)")
    cluster.say("worker-0", Failed(record.job_id, 0, 3, 0, late.to_dict()))
    assert record.state is JobState.RUNNING


def test_a_part_whose_checkpoint_cannot_be_found_fails_all_of_the_attempt(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    record = cluster.running()
    cluster.pass_time(10.0)
    cluster.complete(record, 1)
    cluster.right(record, 0)
    assert cluster.sought == 1
    cluster.say("worker-0", Heartbeat())
    assert cluster.sought == 1, "it is being looked for"
    cluster.found(record, "the place does not answer")
    assert record.execution.state is JobState.FAILING
    assert record.execution.cause is not None
    assert record.execution.cause.message == "the place does not answer"
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    assert cluster.sought == 2, "for all of it"
    cluster.found(record, record.latest_checkpoint)
    assert (record.present.number, record.state) == (1, JobState.DEPLOYING)


@pytest.mark.parametrize("is_answered", ["before it is released", "afterwards"])
def test_all_of_an_attempt_fails_while_the_checkpoint_of_a_part_is_sought(
    cluster_of_parts: Parted, is_answered: str
) -> None:
    """The answer concerns only the part.

    Whenever it comes, the job finds a checkpoint and goes on.
    """
    cluster = cluster_of_parts
    record = cluster.running()
    cluster.pass_time(10.0)
    cluster.complete(record, 1)
    cluster.right(record, 0)
    assert cluster.sought == 1
    left = FailureCause(Gravity.CAUSE, "worker-0", 100, "ValueError", "left, too", "left (1/2)")
    cluster.say("worker-0", Failed(record.job_id, 0, 0, 0, left.to_dict()))
    assert record.execution.state is JobState.FAILING
    if is_answered == "before it is released":
        cluster.found(record, record.latest_checkpoint)
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    if is_answered == "before it is released":
        assert cluster.sought == 2, "for all of it"
    cluster.found(record, record.latest_checkpoint)
    assert (record.present.number, record.state) == (1, JobState.DEPLOYING)
    assert record.present.restored_from == "checkpoint-1-attempt-0"


def test_while_a_part_is_restarted_all_of_the_job_can_be_cancelled(
    cluster_of_parts: Parted,
) -> None:
    cluster = cluster_of_parts
    cluster.restart = FixedDelayRestart(attempts=1, delay_ms=60_000.0)
    record = cluster.running()
    cluster.right(record, 0)
    assert cluster.dispatcher.waits_to_restart
    cluster.dispatcher.cancel(record, cluster.now)
    assert not cluster.dispatcher.waits_to_restart
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    assert record.state is JobState.CANCELED
    assert cluster.free_slots() == [2, 2]
    cluster.pass_time(100.0)
    assert record.present.last_number == 0


def test_a_part_does_not_begin_again_while_the_job_is_being_cancelled(
    cluster_of_parts: Parted,
) -> None:
    """Its restart is due while a worker has not released the other subtasks yet."""
    cluster = cluster_of_parts
    cluster.restart = FixedDelayRestart(attempts=1, delay_ms=10.0)
    record = cluster.running()
    cluster.right(record, 0)
    cluster.dispatcher.cancel(record, cluster.now)
    cluster.pass_time(cluster.now + 0.02)
    assert (record.state, record.present.last_number) == (JobState.CANCELLING, 0)
    for worker_id in WORKERS:
        cluster.say(worker_id, Released(record.job_id, 0))
    assert record.state is JobState.CANCELED


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
    cause = FailureCause(Gravity.CAUSE, "worker-0", 100, "ValueError", "boom").to_dict()
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
