"""A dispatcher with workers that the test plays, without processes and without a clock."""

from __future__ import annotations

from dataclasses import asdict, replace

from flinknet.checkpoint.coordinator import Complete, Discard
from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    AcknowledgeCheckpoint,
    Cancel,
    Failed,
    Heartbeat,
    Message,
    Opened,
    Register,
    Released,
    TriggerCheckpoint,
)
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.wall_clock import WallClock
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_persistence import Repository
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.config import ClusterConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.config.restart_strategy import NO_RESTART, FixedDelayRestart, RestartStrategy
from flinknet.graph.graph import CheckpointedOutput
from flinknet.metrics.io_metrics import IOMetrics
from tests.unit.cluster.graphs import keyed_graph, two_pipelines

__all__ = [
    "CHECKPOINTING",
    "CONFIG",
    "RESULT",
    "WORKERS",
    "Checkpointed",
    "Cluster",
    "Parted",
    "failed",
    "triggers",
]

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

    def __init__(
        self,
        restart: RestartStrategy = NO_RESTART,
        slots: int = 2,
        repository: Repository | None = None,
    ) -> None:
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
            repository=repository,
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
        self.say(worker_id, failed(record, worker_id, CauseRank.CAUSE, error=error))
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


def failed(
    record: JobRecord,
    worker_id: str,
    rank: CauseRank,
    message: str = "boom",
    error: str = "ValueError",
) -> Failed:
    vertex, index = next(
        subtask
        for subtask in record.execution.subtask_states()
        if record.execution.worker_of(subtask) == worker_id
    )
    cause = FailureCause(rank, worker_id, 100, error, message, "Map (1/1)")
    return Failed(record.job_id, record.present.number, vertex, index, cause.to_dict())


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
        """Give the completer's answer: the checkpoint for the next attempt, or the failure of the
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
        """Return a job that has failed after its first checkpoint, which the completer is looking
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
        """Let all subtasks acknowledge a checkpoint, and the completer complete it."""
        self.acknowledge(record, checkpoint_id)
        (_, order) = self.orders.pop()
        assert isinstance(order, Complete)
        self.dispatcher.checkpoint_kept(record, record.present, checkpoint_id, None, self.now)


def triggers(cluster: Cluster) -> list[tuple[str, Message]]:
    return [sent for sent in cluster.sent if isinstance(sent[1], TriggerCheckpoint)]


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
        cause = FailureCause(CauseRank.CAUSE, "worker-0", 100, "ValueError", "boom", "right (1/2)")
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
