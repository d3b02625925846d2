"""The coordinator's logic for workers and jobs, without I/O and without a clock.

Theory of operation
-------------------
All inputs are method calls with ``now``; all orders to workers go out through ``send``;
``deadline`` says when to call ``tick``. The state of the control plane is thus one object, which
tests and simulations can drive without a process.

- ``WorkerRegistry`` tracks the workers. A ``JobRecord`` holds the attempts of a job, and the
  ``JobExecution`` of each attempt holds its state.
- An input changes a job in one of these: ``JobStarts`` starts and restarts it on the slots that
  ``JobSlots`` counts, ``worker_reports.py`` applies the reports of workers, and
  ``CheckpointRequests`` has its checkpoints and savepoints.
- ``OrderExecutor`` carries out what they decide: ``JobPersistence`` persists the new state, then
  the messages go to the workers.
- A job ends with its attempt, unless the attempt has failed and the restart strategy allows another
  one. ``recovery.py`` has the states between two attempts. A worker that was told to end reports
  this, and its jobs leave it (``draining.py``).
- State that a successor needs is persisted before anything depends on it: the number of an attempt
  before its deployment, the end of all subtasks before their sinks are committed, the end of the
  job before clients see it.

Flink: Dispatcher, JobMaster.
"""

from __future__ import annotations

from typing import Any

from flinknet import machine
from flinknet.checkpoint.coordinator import Complete, Discard
from flinknet.checkpoint.failure_reason import CheckpointFailure
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    AcknowledgeCheckpoint,
    AwaitCheckpoint,
    DeclineCheckpoint,
    Drain,
    Failed,
    Heartbeat,
    Message,
    Opened,
    Printed,
    Progress,
    Register,
    Released,
    Settled,
    StatisticsReport,
    Stop,
)
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import check_collected_bytes
from flinknet.cluster.control.wall_clock import WallClock
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.checkpoint_requests import CheckpointRequests
from flinknet.cluster.coordinator.jobs.draining import Draining
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_persistence import JobPersistence, Repository
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.job_slots import JobSlots
from flinknet.cluster.coordinator.jobs.job_starts import JobStarts, Seek
from flinknet.cluster.coordinator.jobs.order_executor import Keep, OrderExecutor, Send
from flinknet.cluster.coordinator.jobs.recovery import Scope
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.cluster.coordinator.jobs.worker_reports import Report, apply_report
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord, WorkerRegistry
from flinknet.config import ClusterConfig
from flinknet.errors import RemoteProtocolError

__all__ = ["Dispatcher"]


def _keep_nothing(record: JobRecord, attempt: AttemptRecord, order: Complete | Discard) -> None:
    """Do nothing: the default for jobs without checkpoints."""


def _seek_nothing(record: JobRecord) -> None:
    """Do nothing: the default for jobs without checkpoints."""


class Dispatcher:
    """The workers and jobs of a coordinator, and the rules by which jobs run on workers."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        now: float,
        send: Send,
        keep: Keep = _keep_nothing,
        seek: Seek = _seek_nothing,
        repository: Repository | None = None,
        wall: WallClock | None = None,
        takes_back: bool = False,
    ) -> None:
        """Start without workers and without jobs.

        ``keep`` completes checkpoints, and its result comes back through ``checkpoint_kept``. The
        answer of ``seek`` comes back through ``checkpoint_found``. ``repository`` keeps the jobs
        for a successor. ``wall`` converts to the time of day. ``takes_back`` allows a lost worker
        to register again.
        """
        self._wall = wall or WallClock()
        self._config = config
        self._send = send
        self.workers = WorkerRegistry(
            now=now,
            heartbeat_interval_s=config.heartbeat_interval_ms / 1000,
            heartbeat_timeout_s=config.heartbeat_timeout_ms / 1000,
            stuck_timeout_s=config.task_stuck_timeout_ms / 1000,
            lost_retained=config.lost_workers_remembered,
            takes_back=takes_back,
        )
        self._jobs: dict[str, JobRecord] = {}
        self._draining = Draining()
        self._persistence = JobPersistence(repository)
        self._executor = OrderExecutor(send, keep, self._persistence)
        self.slots = JobSlots(self.workers, self._jobs)
        self.starts = JobStarts(
            self._jobs,
            self.workers,
            self.slots,
            self._executor,
            self._persistence,
            seek,
            config.jobs_waiting_max,
        )
        self.checkpoints = CheckpointRequests(self._executor, self._persistence)

    def wall_ms(self, at: float) -> int:
        """Convert a time of the coordinator's clock to milliseconds since 1970."""
        return self._wall.ms(at)

    # -- jobs, as clients see them

    def jobs(self) -> tuple[JobRecord, ...]:
        """Return every job that is not forgotten, oldest first."""
        return tuple(self._jobs.values())

    def job(self, job_id: str) -> JobRecord | None:
        """Return a job, or None if it is unknown or forgotten."""
        return self._jobs.get(job_id)

    def submit(
        self,
        submission: Submission,
        now: float,
        restored: RestorePoint | None = None,
        job_id: str | None = None,
    ) -> JobRecord:
        """Start a job, from the checkpoint ``restored`` if that is given.

        If a job with this id exists already, it is returned, because the client has repeated its
        request. Raises InsufficientSlotsError if the job does not fit the free slots.
        """
        if job_id is not None and job_id in self._jobs:
            return self._jobs[job_id]
        record = JobRecord(
            job_id or machine.unique_id(),
            submission,
            self._config,
            submitted_at=now,
            wall=self._wall,
            restored=restored,
        )
        self.starts.start(record, now)
        self._jobs[record.job_id] = record
        self._forget_oldest()
        return record

    def resume(
        self, record: JobRecord, state: JobState, cause: FailureCause | None, now: float
    ) -> None:
        """Continue a job of the previous coordinator from the ``state`` of its last attempt.

        Of a job that has ended, only the record is kept.
        """
        self._jobs[record.job_id] = record
        commands = [] if record.is_queued else record.resume_execution(state, cause, now)
        self._persistence.note_saved(record)
        self._executor.carry_out(record, record.present, commands, now)
        self._forget_oldest()

    def cancel(self, record: JobRecord, now: float) -> None:
        """Cancel a job on request; do nothing if it has ended or is ending."""
        # Between two attempts there is no execution to cancel.
        if record.recovery.scope is Scope.JOB and not record.is_queued:
            record.end(now, cancelled=True)
            self._persistence.save(record)
            return
        self._executor.carry_out(record, record.present, record.execution.cancel(now), now)

    def stop(self, cause: FailureCause, now: float) -> None:
        """Fail all jobs, because the coordinator ends for this ``cause``."""
        self._persistence.close()
        for record in self.jobs():
            if record.recovery.scope is Scope.JOB and not record.is_queued:
                # Between two attempts. This is not persisted, so a successor restarts the job.
                record.end(now)
                continue
            self._executor.fail(record, record.present, cause, now)

    def take_result(
        self,
        record: JobRecord,
        attempt: AttemptRecord,
        subtask: SubtaskKey,
        result: dict[str, Any],
        now: float,
    ) -> None:
        """Take the result of a subtask that has finished, once.

        Do nothing if the attempt has ended, or if the worker sends the result again because the
        connection of its request broke. Raises JobError if the job collects too many bytes.
        """
        if attempt.ended_at is not None or subtask in attempt.finished_at:
            return
        check_collected_bytes(
            attempt.collected_bytes + len(result["collected"]), self._config.collect_bytes_max
        )
        taken = result.pop("checkpoint_taken")
        # A subtask that had finished before the restored checkpoint did nothing in this attempt, so
        # its earlier result counts.
        before = record.result_before(subtask)
        attempt.note_result(subtask, result if before is None else before)
        attempt.finished_at[subtask] = now
        self._executor.order(
            record, attempt, record.checkpoints.subtask_finished(subtask, taken), now
        )
        self._executor.carry_out(record, attempt, attempt.execution.finished(subtask, now), now)

    # -- workers, as their connections and the launcher see them

    def register(self, message: Register, now: float) -> WorkerRecord:
        """Add a worker; raise ConfigurationError if it is refused."""
        self._lose(self.workers.connected_again(message), now)
        return self.workers.register(message, now)

    def receive(self, worker_id: str, message: Message, now: float) -> None:
        """Handle a message of a registered worker.

        Raises RemoteProtocolError if the worker must not send it.
        """
        self.workers.heard(worker_id, now)
        match message:
            case Heartbeat():
                self.workers.is_at_step(worker_id, message.step_of, message.step_s)
                self.workers.has_clock(worker_id, message.clock_offset_s, message.clock_error_s)
                self._send(worker_id, Heartbeat(sent_s=message.sent_s))
            case Drain():
                self.workers.drain(worker_id)
            case StatisticsReport() | Printed():
                # Counts as a sign of life. The stores take the content.
                pass
            case Progress() | Opened() | Failed() | Released() | Settled():
                self._take_report(worker_id, message, now)
            case AcknowledgeCheckpoint() | DeclineCheckpoint() | AwaitCheckpoint():
                asked = self._jobs.get(message.job_id)
                if asked is not None:
                    self.checkpoints.take_answer(asked, worker_id, message, now)
            case _:
                raise RemoteProtocolError(
                    f"worker {worker_id} sent {type(message).__name__}, which it must not"
                )
        for record in self.jobs():
            # A resumed attempt may need any worker to commit its sinks.
            commands = record.execution.offer(worker_id, now)
            if commands:
                self._executor.carry_out(record, record.present, commands, now)
        self._drain_workers(now)
        self.starts.restart_due(now)

    def _take_report(self, worker_id: str, message: Report, now: float) -> None:
        if isinstance(message, Released) and not message.subtasks:
            # Slots are freed even if the job is forgotten. Any other message of an unknown job or
            # attempt is dropped: it is late, not wrong.
            self.workers.release(worker_id, (message.job_id, message.attempt))
        record = self._jobs.get(message.job_id)
        attempt = None if record is None else record.attempt(message.attempt)
        if record is not None and attempt is not None:
            commands = apply_report(attempt, worker_id, message, now)
            if isinstance(message, Released):
                self.slots.occupy_again(record, attempt)
            self._executor.carry_out(record, attempt, commands, now)

    def connection_closed(self, worker_id: str, now: float) -> None:
        """Handle the end of a worker's control connection."""
        self._lose(self.workers.connection_closed(worker_id), now)

    def worker_exited(self, worker_id: str, how: str, now: float) -> None:
        """Handle the launcher's report that a worker's process has ended."""
        self._lose(self.workers.exited(worker_id, how), now)

    # -- time

    @property
    def deadline(self) -> float:
        """Time at which ``tick`` must be called at the latest."""
        deadlines = [record.execution.deadline for record in self._jobs.values()]
        deadlines += [self.starts.deadline(record) for record in self.jobs()]
        deadlines += [record.checkpoints.deadline for record in self.jobs()]
        return min([self.workers.next_tick, *(time for time in deadlines if time is not None)])

    def tick(self, now: float) -> None:
        """Act on all deadlines that have passed."""
        if now >= self.workers.next_tick:
            for cause in self.workers.tick(now):
                self._lose(cause, now)
        for record in self.jobs():
            self._executor.carry_out(record, record.present, record.execution.tick(now), now)
            self._executor.order(record, record.present, record.checkpoints.tick(now), now)
        self._drain_workers(now)
        self.starts.restart_due(now)

    # -- checkpoints

    def checkpoint_kept(
        self,
        record: JobRecord,
        attempt: AttemptRecord,
        checkpoint_id: int,
        failure: CheckpointFailure | None,
        now: float,
    ) -> None:
        """Handle a completed checkpoint, or the ``failure`` of its completion."""
        self.checkpoints.kept(record, attempt, checkpoint_id, failure, now)
        if failure is None:
            self._drain_workers(now)

    def checkpoint_found(
        self,
        record: JobRecord,
        found: RestorePoint | None,
        failure: str | None,
        now: float,
        damage: str = "",
    ) -> None:
        """Handle the answer to ``seek``; do nothing if the job has ended.

        ``found`` is the newest checkpoint that can be restored, or None. ``damage`` describes the
        defects of later ones. ``failure`` is set if the checkpoint storage could not be read.
        """
        record.take_found(found, failure, now, damage)
        self.starts.restart_due(now)

    def _drain_workers(self, now: float) -> None:
        """Have jobs leave draining workers, and dismiss workers that are no longer needed."""
        for worker in self.workers.draining():
            for record in self.jobs():
                if self._draining.is_to_leave(record, worker):
                    cause = FailureCause.of_drained_worker(worker.worker_id, worker.pid)
                    self._executor.fail(record, record.present, cause, now)
            if not worker.is_dismissed and self._draining.may_go(self.jobs(), worker):
                worker.is_dismissed = True
                self._send(worker.worker_id, Stop("it has drained"))

    def _lose(self, cause: FailureCause | None, now: float) -> None:
        if cause is None:
            return
        for record in self.jobs():
            # An attempt that has ended may still hold slots on the worker.
            for attempt in record.attempts:
                if cause.worker_id in attempt.execution.workers:
                    commands = attempt.execution.worker_lost(cause, now)
                    self._executor.carry_out(record, attempt, commands, now)

    def _forget_oldest(self) -> None:
        """Forget ended jobs beyond the last ``jobs_retained``."""
        ended = [record for record in self.jobs() if record.ended_at is not None]
        for record in ended[: max(0, len(ended) - self._config.jobs_retained)]:
            del self._jobs[record.job_id]
            self._draining.forget(record.job_id)
            self._persistence.forget(record.job_id)
