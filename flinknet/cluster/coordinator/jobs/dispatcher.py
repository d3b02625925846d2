"""The coordinator's logic for workers and jobs, without I/O and without a clock.

Theory of operation
-------------------
All inputs are method calls with ``now``; all orders to workers go out through ``send``;
``deadline`` says when to call ``tick``. The state of the control plane is thus one object, which
tests and simulations can drive without a process.

- ``WorkerRegistry`` tracks the workers. A ``JobRecord`` holds the attempts of a job, and the
  ``JobExecution`` of each attempt holds its state.
- A job is refused unless it fits the free slots. The caller waits first if slots of ending jobs,
  which end within their timeouts, would suffice (``may_fit_soon``). A submission may ask to wait
  for slots. Such jobs start in the order of submission, but a job that does not wait may overtake
  them. An attempt occupies its slots on a worker until the worker has released it.
- A job ends with its attempt, unless the attempt has failed and the restart strategy allows another
  one. ``recovery.py`` has the states between two attempts; the dispatcher sends its events. If only
  some regions have failed, they restart as part of the same attempt, under a new number
  (``region_failover.py``).
- A worker that was told to end reports this, and its jobs leave it (``draining.py``).
- State that a successor needs is persisted (``Books``) before anything depends on it: the number of
  an attempt before its deployment, the end of all subtasks before their sinks are committed, the
  end of the job before clients see it. Failures caused by the shutdown of this coordinator are not.

Flink: Dispatcher, JobMaster, and the slot bookkeeping of the ResourceManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from flinknet import machine
from flinknet.checkpoint.coordinator import (
    Complete,
    Discard,
    FailJob,
    NotifyAborted,
    NotifyCompleted,
    Order,
    Trigger,
)
from flinknet.checkpoint.failure_reason import CheckpointFailure, CheckpointFailureReason
from flinknet.checkpoint.metadata import CheckpointDirectory
from flinknet.checkpoint.pending_checkpoint import SubtaskReport
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.messages import (
    AbortCheckpoint,
    AcknowledgeCheckpoint,
    AwaitCheckpoint,
    CompleteCheckpoint,
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
    TriggerCheckpoint,
)
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import check_collected_bytes
from flinknet.cluster.control.wall_clock import WallClock
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.draining import Draining
from flinknet.cluster.coordinator.jobs.job_execution import Commands, Part, SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.recovery import RecoveryState, Scope
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.cluster.coordinator.jobs.savepoint_request import SavepointRequest
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord, WorkerRegistry
from flinknet.config import ClusterConfig
from flinknet.errors import InsufficientSlotsError, RemoteProtocolError
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = ["Books", "Dispatcher", "NoBooks"]

_LOSSES_TOLD = 3
"""Number of lost workers that an error names: the latest, as a cluster may lose many over time."""

Send = Callable[[str, Message], None]
"""Arguments: worker id, message. The function ignores workers that are gone."""


Keep = Callable[[JobRecord, AttemptRecord, Complete | Discard], None]
"""Complete a checkpoint of an attempt in its storage, or remove the files of a failed one."""


def _keep_nothing(record: JobRecord, attempt: AttemptRecord, order: Complete | Discard) -> None:
    """Do nothing: the default for jobs without checkpoints."""


Seek = Callable[[JobRecord], None]
"""Find the newest intact checkpoint of a job."""


def _seek_nothing(record: JobRecord) -> None:
    """Do nothing: the default for jobs without checkpoints."""


class Books(Protocol):
    """Persistent storage of jobs, for the coordinator that succeeds this one."""

    def write_down(self, record: JobRecord) -> str | None:
        """Persist the state of a job; return the reason for a failure, or None."""

    def forget(self, job_id: str) -> None:
        """Drop a job that clients no longer ask for."""


class NoBooks:
    """The books of a coordinator without a successor."""

    def write_down(self, record: JobRecord) -> None:
        """Do nothing."""

    def forget(self, job_id: str) -> None:
        """Do nothing."""


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
        books: Books | None = None,
        wall: WallClock | None = None,
        takes_back: bool = False,
    ) -> None:
        """Start without workers and without jobs.

        ``keep`` completes checkpoints, and its result comes back through ``checkpoint_kept``. The
        answer of ``seek`` comes back through ``checkpoint_found``. ``wall`` converts to the time of
        day. ``takes_back`` allows a lost worker to register again.
        """
        self._keep = keep
        self._seek = seek
        self._books = books or NoBooks()
        self._phases: dict[str, tuple[object, ...]] = {}
        """The phase of each job that was persisted last."""
        self._wall = wall or WallClock()
        self._config = config
        self._send = send
        self._stopping = False
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
        # A job that may wait for slots does not overtake the jobs that wait already.
        if not (submission.wait_for_slots_ms and self._waiting()):
            try:
                self.begin_attempt(record, now)
            except InsufficientSlotsError:
                if not submission.wait_for_slots_ms:
                    raise
        if not record.attempts:
            self._queue(record, now)
        self._jobs[record.job_id] = record
        self._forget_oldest()
        return record

    def _waiting(self) -> list[JobRecord]:
        return [record for record in self.jobs() if record.is_queued]

    def _queue(self, record: JobRecord, now: float) -> None:
        limit = self._config.jobs_waiting_max
        if len(self._waiting()) >= limit:
            raise InsufficientSlotsError(
                f'job "{record.submission.name}" cannot wait for slots: {limit} jobs do already '
                "(cluster.jobs_waiting_max)"
            )
        record.queue(now)
        self._write_down(record)

    def begin_attempt(self, record: JobRecord, now: float) -> AttemptRecord:
        """Start the first attempt of a job, or the next one after the present attempt has ended.

        Raises InsufficientSlotsError if it does not fit the free slots, and LocalProtocolError if
        the job or its present attempt does not allow another attempt.
        """
        try:
            attempt = record.begin_attempt(self.workers.registered(), now)
        except InsufficientSlotsError as error:
            raise InsufficientSlotsError(f"{error}{self._slots_missing()}") from error
        for worker_id, slots in attempt.placement.slots.items():
            self.workers.occupy(worker_id, (record.job_id, attempt.number), slots)
        commands = attempt.execution.start()
        failure = self._write_down(record)
        if failure is not None:
            # No worker may run an attempt under a number that a successor might assign again.
            why = f"cannot write down that attempt {attempt.number} begins: {failure}"
            cause = FailureCause.of_coordinator(machine.process_id(), why)
            commands = attempt.execution.fail(cause, now)
        self._carry_out(record, attempt, commands, now)
        return attempt

    def resume(
        self, record: JobRecord, state: JobState, cause: FailureCause | None, now: float
    ) -> None:
        """Continue a job of the previous coordinator from the ``state`` of its last attempt.

        Of a job that has ended, only the record is kept.
        """
        self._jobs[record.job_id] = record
        commands = [] if record.is_queued else record.resume_execution(state, cause, now)
        # The books have this phase already. They are written again when it changes.
        self._phases[record.job_id] = record.phase
        self._carry_out(record, record.present, commands, now)
        self._forget_oldest()

    @property
    def waits_to_restart(self) -> bool:
        """Whether a job, or a part of one, is between two attempts.

        Such a job needs the slots of lost workers.
        """
        return any(record.recovery.scope is not None for record in self.jobs())

    def may_fit_soon(self, submission: Submission, coming: int = 0) -> bool:
        """Return whether the job does not fit the free slots, but will soon.

        Counts the slots of jobs that are ending, and ``coming`` slots of workers that are being
        started.
        """
        returning: Counter[str] = Counter()
        for record in self.jobs():
            if record.execution.is_ending:
                for worker_id, number in record.execution.held_subtasks():
                    key = record.job_id, number
                    returning[worker_id] += self.workers.slots_of(worker_id, key)
        required = submission.shape.slots_required()
        return self._slots_free(Counter()) < required <= self._slots_free(returning) + coming

    def _slots_free(self, returning: Counter[str]) -> int:
        return sum(
            worker.free_slots + returning[worker.worker_id]
            for worker in self.workers.registered()
            if not worker.drains
        )

    def _slots_missing(self) -> str:
        """Return the text for an error about slots held by ended jobs and about lost workers."""
        losses = [worker.loss for worker in self.workers.workers() if worker.loss is not None]
        reasons = [
            f'worker {worker_id} holds slots of job "{record.submission.name}", which has ended, '
            "because a function of it has not returned"
            for record in self.jobs()
            for attempt in record.attempts
            if attempt.ended_at is not None
            for worker_id in attempt.execution.holders
        ]
        reasons += [loss.describe() for loss in losses[-_LOSSES_TOLD:]]
        before = len(losses[:-_LOSSES_TOLD]) + self.workers.forgotten
        if before:
            reasons.append(f"{before} were lost before")
        return "".join(f"; {reason}" for reason in reasons)

    def cancel(self, record: JobRecord, now: float) -> None:
        """Cancel a job on request; do nothing if it has ended or is ending."""
        # Between two attempts there is no execution to cancel.
        if record.recovery.scope is Scope.JOB and not record.is_queued:
            record.end(now, cancelled=True)
            self._write_down(record)
            return
        self._carry_out(record, record.present, record.execution.cancel(now), now)

    def stop(self, cause: FailureCause, now: float) -> None:
        """Fail all jobs, because the coordinator ends for this ``cause``."""
        self._stopping = True
        for record in self.jobs():
            if record.recovery.scope is Scope.JOB and not record.is_queued:
                # Between two attempts. The books are not written, so a successor restarts the job.
                record.end(now)
                continue
            commands = record.execution.fail(cause, now)
            self._carry_out(record, record.present, commands, now)

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
        self._order(record, attempt, record.checkpoints.subtask_finished(subtask, taken), now)
        self._carry_out(record, attempt, attempt.execution.finished(subtask, now), now)

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
                if isinstance(message, Released) and not message.subtasks:
                    # Slots are freed even if the job is forgotten. Any other message of an unknown
                    # job or attempt is dropped: it is late, not wrong.
                    self.workers.release(worker_id, (message.job_id, message.attempt))
                record = self._jobs.get(message.job_id)
                attempt = None if record is None else record.attempt(message.attempt)
                if record is not None and attempt is not None:
                    commands = _apply(attempt, worker_id, message, now)
                    if isinstance(message, Released):
                        self._occupy_again(record, attempt)
                    self._carry_out(record, attempt, commands, now)
            case AcknowledgeCheckpoint() | DeclineCheckpoint() | AwaitCheckpoint():
                self._take_checkpoint_answer(worker_id, message, now)
            case _:
                raise RemoteProtocolError(
                    f"worker {worker_id} sent {type(message).__name__}, which it must not"
                )
        for record in self.jobs():
            # A resumed attempt may need any worker to commit its sinks.
            commands = record.execution.offer(worker_id, now)
            if commands:
                self._carry_out(record, record.present, commands, now)
        self._drain_workers(now)
        self._restart_jobs(now)

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
        deadlines += [self._restart_deadline(record) for record in self.jobs()]
        deadlines += [record.checkpoints.deadline for record in self.jobs()]
        return min([self.workers.next_tick, *(time for time in deadlines if time is not None)])

    def tick(self, now: float) -> None:
        """Act on all deadlines that have passed."""
        if now >= self.workers.next_tick:
            for cause in self.workers.tick(now):
                self._lose(cause, now)
        for record in self.jobs():
            self._carry_out(record, record.present, record.execution.tick(now), now)
            self._order(record, record.present, record.checkpoints.tick(now), now)
        self._drain_workers(now)
        self._restart_jobs(now)

    # -- checkpoints

    def trigger_savepoint(
        self,
        record: JobRecord,
        kind: CheckpointKind,
        directory: str,
        now: float,
        request_id: str | None = None,
    ) -> SavepointRequest:
        """Trigger a savepoint to ``directory``, an absolute path or URL.

        Some kinds of savepoint also end the job. ``request_id`` is generated if it is not given.
        Raises LocalProtocolError unless all subtasks of the job run.
        """
        trigger = record.checkpoints.trigger_savepoint(kind, now)
        request = SavepointRequest(
            request_id or machine.unique_id(), trigger.checkpoint_id, kind, directory
        )
        record.note_savepoint(request)
        self._write_down(record)
        self._order(record, record.present, [trigger], now)
        return request

    def checkpoint_kept(
        self,
        record: JobRecord,
        attempt: AttemptRecord,
        checkpoint_id: int,
        failure: CheckpointFailure | None,
        now: float,
    ) -> None:
        """Handle a completed checkpoint, or the ``failure`` of its completion."""
        books = record.checkpoints
        if failure is not None:
            self._order(record, attempt, books.completion_failed(checkpoint_id, failure, now), now)
            return
        finished = [one.finished for one in books.pending if one.checkpoint_id == checkpoint_id]
        orders = books.completed(checkpoint_id, now)
        request = record.savepoints.get(checkpoint_id)
        if request is not None:
            place = f"{request.directory}/{record.job_id}"
            directory = CheckpointDirectory(True, checkpoint_id, attempt.number)
            request.written(place, directory)
            commits = request.kind.stops and record.submission.shape.checkpointing is not None
            if finished and commits:
                # Sinks commit with this savepoint. A job that continued from an earlier point would
                # commit the same output again.
                record.continue_from(
                    RestorePoint(f"{place}/{directory}", frozenset(*finished)), is_savepoint=True
                )
        latest = books.latest
        if latest is not None and latest.checkpoint_id == checkpoint_id:
            directory = CheckpointDirectory(False, checkpoint_id, attempt.number)
            record.continue_from(RestorePoint(str(directory), frozenset(latest.finished)))
        self._write_down(record)
        self._order(record, attempt, orders, now)
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
        self._restart_jobs(now)

    def _take_checkpoint_answer(
        self,
        worker_id: str,
        message: AcknowledgeCheckpoint | DeclineCheckpoint | AwaitCheckpoint,
        now: float,
    ) -> None:
        record = self._jobs.get(message.job_id)
        if record is None:
            return
        attempt, books = record.present, record.checkpoints
        subtask = message.vertex, message.index
        if attempt.execution.number_of(subtask) != message.attempt:
            return
        _check_runs(attempt, worker_id, subtask)
        orders: list[Order] = []
        try:
            if isinstance(message, AcknowledgeCheckpoint):
                report = SubtaskReport(message.handle, *message.metrics)
                report = report._replace(acknowledged_ms=self.wall_ms(now))
                order = books.acknowledge(message.checkpoint_id, subtask, report)
                orders = [] if order is None else [order]
            elif isinstance(message, AwaitCheckpoint):
                orders = books.subtask_awaits(subtask, message.taken)
            else:
                reason = CheckpointFailureReason[message.reason]
                explanation = f"subtask {subtask}: {message.explanation}"
                orders = books.decline(message.checkpoint_id, reason, explanation, now)
        except (KeyError, TypeError) as error:
            raise RemoteProtocolError(
                f"malformed {type(message).__name__} message: {error}"
            ) from error
        self._order(record, attempt, orders, now)

    def _order(
        self, record: JobRecord, attempt: AttemptRecord, orders: Iterable[Order], now: float
    ) -> None:
        job_id, execution = record.job_id, attempt.execution
        for order in orders:
            match order:
                case Trigger():
                    self._trigger(record, attempt, order)
                case NotifyAborted(checkpoint_id):
                    request = record.savepoints.get(checkpoint_id)
                    if request is not None:
                        request.failed(record.checkpoints.history.why_failed(checkpoint_id))
                        self._write_down(record)
                    for worker_id, number in execution.parts:
                        self._send(worker_id, AbortCheckpoint(job_id, number, checkpoint_id))
                case Complete() | Discard():
                    self._keep(record, attempt, order)
                case FailJob(explanation):
                    cause = FailureCause.of_coordinator(machine.process_id(), explanation)
                    self._carry_out(record, attempt, execution.fail(cause, now), now)
                case NotifyCompleted(checkpoint_id, kind):
                    # The job does not restart from a savepoint that it survives. Output committed
                    # with such a savepoint would be repeated after a failure.
                    commits = kind.stops or not kind.is_savepoint
                    for worker_id, number in execution.parts:
                        message = CompleteCheckpoint(job_id, number, checkpoint_id, commits)
                        self._send(worker_id, message)

    def _trigger(self, record: JobRecord, attempt: AttemptRecord, order: Trigger) -> None:
        execution = attempt.execution
        roots: dict[Part, list[SubtaskKey]] = {}
        directory = ""
        if order.kind.is_savepoint:
            # Every worker that writes a part of the savepoint must know its directory.
            roots = {part: [] for part in execution.parts}
            directory = record.savepoints[order.checkpoint_id].directory
        for subtask in order.subtasks:
            part = execution.worker_of(subtask), execution.number_of(subtask)
            roots.setdefault(part, []).append(subtask)
        for (worker_id, number), subtasks in roots.items():
            rows = [list(subtask) for subtask in subtasks]
            self._send(
                worker_id,
                TriggerCheckpoint(
                    record.job_id,
                    number,
                    order.checkpoint_id,
                    order.timestamp_ms,
                    int(order.kind),
                    rows,
                    directory,
                ),
            )

    def _follow_checkpoints(self, record: JobRecord, attempt: AttemptRecord, now: float) -> None:
        """Allow checkpoints only while all subtasks of the present attempt run."""
        books, execution = record.checkpoints, attempt.execution
        if attempt is not record.present:
            return
        all_run = execution.all_run
        if all_run and books.is_suspended:
            books.resume(now)
        elif all_run and not books.is_running:
            books.attempt_runs(execution.subtask_states(), attempt.restored_finished, now)
        elif books.is_running and not all_run:
            goes_on = execution.state is JobState.RUNNING
            orders = books.suspend(now) if goes_on else books.attempt_ends(now)
            self._order(record, attempt, orders, now)
        elif books.is_suspended and execution.state is not JobState.RUNNING:
            self._order(record, attempt, books.attempt_ends(now), now)

    def _drain_workers(self, now: float) -> None:
        """Have jobs leave draining workers, and dismiss workers that are no longer needed."""
        for worker in self.workers.draining():
            for record in self.jobs():
                if self._draining.is_to_leave(record, worker):
                    cause = FailureCause.of_drained_worker(worker.worker_id, worker.pid)
                    commands = record.execution.fail(cause, now)
                    self._carry_out(record, record.present, commands, now)
            if not worker.is_dismissed and self._draining.may_go(self.jobs(), worker):
                worker.is_dismissed = True
                self._send(worker.worker_id, Stop("it has drained"))

    def _restart_jobs(self, now: float) -> None:
        """Start or restart all jobs and regions that are due, as far as there are slots."""
        lacks_slots = False
        for record in self.jobs():
            recovery = record.recovery
            if record.is_queued:
                # Queued jobs start in the order of submission. A job past its time limit is
                # tried as well, so that it fails even behind another one.
                if not lacks_slots or now >= (recovery.deadline or now):
                    self._restart_job(record, now)
                lacks_slots = lacks_slots or record.is_queued
                continue
            # A job that was taken over does not restart before a worker has registered.
            if self.workers.registered():
                recovery.get_worker(now)
            if not recovery.is_due(now) or self._waits_for_release(record):
                continue
            if recovery.state is RecoveryState.BACKING_OFF and record.may_have_checkpoint:
                # The newest intact checkpoint must be known before the restart.
                recovery.seek()
                self._seek(record)
            elif recovery.scope is Scope.JOB:
                self._restart_job(record, now)
            else:
                self._restart_regions(record, now)

    def _restart_job(self, record: JobRecord, now: float) -> None:
        failure = record.recovery.answer.failure
        try:
            attempt = self.begin_attempt(record, now)
        except InsufficientSlotsError as error:
            # A lost worker may be replaced within ``restart_slots_timeout_ms``. The first heartbeat
            # of the new worker triggers another try.
            is_overdue = record.recovery.lack_slots(now)
            if is_overdue and record.is_queued:
                self._give_up_waiting(record, error, now)
            elif is_overdue:
                record.end(now)
                self._write_down(record)
            return
        if failure is not None:
            # The search for a checkpoint failed, so the attempt fails with that.
            cause = FailureCause.of_coordinator(machine.process_id(), failure)
            self._carry_out(record, attempt, attempt.execution.fail(cause, now), now)

    def _give_up_waiting(
        self, record: JobRecord, error: InsufficientSlotsError, now: float
    ) -> None:
        waited_s = record.submission.wait_for_slots_ms / 1000
        why = f"it has waited for slots for {waited_s:g} s: {error}"
        cause = FailureCause.of_coordinator(machine.process_id(), why)
        self._carry_out(record, record.present, record.execution.fail(cause, now), now)

    def _restart_regions(self, record: JobRecord, now: float) -> None:
        attempt, answer = record.present, record.recovery.answer
        commands: Commands = []
        why = answer.failure
        if answer.is_final:
            record.recovery.give_up()
        elif why is None:
            try:
                commands = record.restart_regions(self.workers.registered(), now)
            except InsufficientSlotsError as error:
                if not record.recovery.lack_slots(now):
                    return
                why = f"{error}{self._slots_missing()}"
            else:
                why = self._write_down(record)
        if why is not None:
            cause = FailureCause.of_coordinator(machine.process_id(), why)
            commands = attempt.execution.fail(cause, now)
        self._occupy_again(record, attempt)
        self._carry_out(record, attempt, commands, now)

    def _waits_for_release(self, record: JobRecord) -> bool:
        """Return whether subtasks of the regions to be restarted still run."""
        is_released = record.execution.failover.is_released
        return record.recovery.scope is Scope.REGIONS and not is_released

    def _occupy_again(self, record: JobRecord, attempt: AttemptRecord) -> None:
        """Recount the slots of an attempt with restarted regions.

        A restarted region may share slots with regions that go on, and keeps those slots when they
        end.
        """
        if not attempt.failures:
            return
        groups = [vertex.slot_sharing_group for vertex in record.submission.shape.vertices]
        counted: set[tuple[str, str, int]] = set()
        for (worker_id, number), subtasks in attempt.execution.held_subtasks().items():
            slots = {(worker_id, groups[vertex], index) for vertex, index in subtasks} - counted
            counted |= slots
            self.workers.reoccupy(worker_id, (record.job_id, number), len(slots))

    def _give_up_regions(
        self, record: JobRecord, attempt: AttemptRecord, commands: Commands, now: float
    ) -> Commands:
        """Decide whether failed regions are restarted while the others go on."""
        execution = attempt.execution
        while (failure := execution.failover.take_failure()) is not None:
            if not record.regions_failed(failure, now):
                commands = [*commands, *execution.fail(failure.cause, now)]
        return commands

    def _restart_deadline(self, record: JobRecord) -> float | None:
        # The release is a message of a worker, which triggers the next try itself.
        return None if self._waits_for_release(record) else record.recovery.deadline

    def _lose(self, cause: FailureCause | None, now: float) -> None:
        if cause is None:
            return
        for record in self.jobs():
            # An attempt that has ended may still hold slots on the worker.
            for attempt in record.attempts:
                if cause.worker_id in attempt.execution.workers:
                    commands = attempt.execution.worker_lost(cause, now)
                    self._carry_out(record, attempt, commands, now)

    def _carry_out(
        self, record: JobRecord, attempt: AttemptRecord, commands: Commands, now: float
    ) -> None:
        commands = self._give_up_regions(record, attempt, commands, now)
        state = attempt.execution.state
        if attempt is record.present and not attempt.execution.failover.given_up:
            record.recovery.spread()
        self._follow_checkpoints(record, attempt, now)
        if attempt.ended_at is None and state.is_terminal:
            record.attempt_ended(now, may_restart=not self._stopping)
        record.note_state(now)
        self._write_down(record)
        # Sent last: no worker acts on a state that is not persisted.
        for worker_id, message in commands:
            self._send(worker_id, message)

    def _write_down(self, record: JobRecord) -> str | None:
        """Persist a job if a successor needs its new state; return the reason for a failure."""
        phase = record.phase
        # Failures that the shutdown of this coordinator causes are not persisted.
        if self._stopping or self._phases.get(record.job_id) == phase:
            return None
        self._phases[record.job_id] = phase
        return self._books.write_down(record)

    def _forget_oldest(self) -> None:
        """Forget ended jobs beyond the last ``jobs_retained``."""
        ended = [record for record in self.jobs() if record.ended_at is not None]
        for record in ended[: max(0, len(ended) - self._config.jobs_retained)]:
            del self._jobs[record.job_id]
            self._phases.pop(record.job_id, None)
            self._draining.forget(record.job_id)
            self._books.forget(record.job_id)


def _apply(
    attempt: AttemptRecord,
    worker_id: str,
    message: Progress | Opened | Failed | Released | Settled,
    now: float,
) -> Commands:
    execution = attempt.execution
    match message:
        case Progress():
            try:
                attempt.note_progress(message.rows, message.attempt)
            except (TypeError, ValueError) as error:
                raise RemoteProtocolError(f"malformed Progress message: {error}") from error
        case Opened():
            return execution.opened(worker_id, message.attempt)
        # The worker could not open its subtasks.
        case Failed(vertex=-1):
            return execution.open_failed(worker_id, message.attempt, _cause_of(message), now)
        case Failed():
            subtask = (message.vertex, message.index)
            if execution.number_of(subtask) != message.attempt:
                return []
            _check_runs(attempt, worker_id, subtask)
            return execution.failed(subtask, _cause_of(message), now)
        case Released():
            return execution.released(worker_id, message.attempt, _subtasks_of(message), now)
        case Settled():
            cause = _cause_of(message) if message.cause else None
            return execution.settled(worker_id, cause, now)
    return []


def _check_runs(attempt: AttemptRecord, worker_id: str, subtask: SubtaskKey) -> None:
    if attempt.execution.worker_of(subtask) != worker_id:
        raise RemoteProtocolError(f"worker {worker_id} does not run subtask {subtask}")


def _subtasks_of(message: Released) -> list[SubtaskKey]:
    try:
        return [(vertex, index) for vertex, index in message.subtasks]
    except (TypeError, ValueError) as error:
        raise RemoteProtocolError(f"malformed Released message: {error}") from error


def _cause_of(message: Failed | Settled) -> FailureCause:
    try:
        return FailureCause.from_dict(message.cause)
    except (KeyError, TypeError) as error:
        raise RemoteProtocolError(f"malformed {type(message).__name__} message: {error}") from error
