"""The coordinator on an event loop.

It gives the dispatcher a clock and connections, which the dispatcher itself does without, and wakes
the requests that wait for a change. ``serving.py`` runs it in a process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from flinknet import machine
from flinknet.checkpoint.failure_reason import CheckpointFailure
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.kept_output import KeptOutput
from flinknet.cluster.control.messages import (
    Heartbeat,
    Message,
    Printed,
    Register,
    Registered,
    StatisticsReport,
)
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.wall_clock import WallClock, describe_jump
from flinknet.cluster.coordinator.checkpoints.checkpoint_completer import CheckpointCompleter
from flinknet.cluster.coordinator.job_log import JobLog
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.job_repository import JobRepository
from flinknet.cluster.coordinator.jobs.job_store import JobStore
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint, find_restore_point
from flinknet.cluster.coordinator.jobs.result_store import ResultStore
from flinknet.cluster.coordinator.jobs.savepoint_request import SavepointRequest
from flinknet.cluster.coordinator.metrics.metric_store import MetricStore
from flinknet.cluster.coordinator.metrics.printed_store import PrintedStore
from flinknet.cluster.coordinator.metrics.stack_sample_store import StackSampleStore
from flinknet.cluster.coordinator.worker_replacement import WorkerReplacement
from flinknet.cluster.coordinator.workers.inquiries import Inquiries
from flinknet.cluster.coordinator.workers.worker_connection import WorkerConnection
from flinknet.config import CheckpointingConfig, ClusterConfig
from flinknet.errors import (
    ConfigurationError,
    CoordinatorSupersededError,
    JobError,
)
from flinknet.net.refusal_log import RefusalLog
from flinknet.texts import text_of
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = ["Coordinator"]

log = logging.getLogger("flinknet.coordinator")


class Coordinator:
    """The dispatcher on the current event loop. Must be used from that loop only."""

    def __init__(
        self,
        config: ClusterConfig,
        want_worker: Callable[[str], None] = lambda lost: None,
        checkpointing: CheckpointingConfig | None = None,
        store: JobStore | None = None,
        output: KeptOutput | None = None,
        takes_back: bool = False,
    ) -> None:
        """Start with the jobs of ``store``, which are resumed.

        ``want_worker`` is called with the id of each lost worker that should be replaced. ``store``
        keeps the jobs. ``output`` is the recorded output of this process, for diagnosis.
        ``takes_back`` means that a lost worker may register again, because no launcher replaces it.
        """
        self._takes_back = takes_back
        self.output = output or KeptOutput("coordinator", config.output_kept_bytes)
        self._checkpointing = checkpointing or CheckpointingConfig()
        self._epoch = None if store is None else store.epoch
        self._completer = CheckpointCompleter(
            self._checkpointing, self._kept, self._found, self._check_epoch
        )
        self._job_log = JobLog()
        self._loop = asyncio.get_running_loop()
        self._connections: dict[str, WorkerConnection] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ticking: asyncio.Task[None] | None = None
        """The check for a successor before a ``tick``; None if none is under way."""
        self._closed = False
        self._ends: dict[str, asyncio.Event] = {}
        self.submissions_waiting = 0
        """Number of submissions that wait for slots."""
        self._progressed = asyncio.Event()
        """Set, and replaced by a new event, after every input."""
        self.config = config
        self.http_refusals = RefusalLog()
        self.metrics = MetricStore(self._send, config.statistics_interval_ms / 1000)
        self.printed = PrintedStore(config.output_kept_bytes)
        self.answers = Inquiries[bytes](self._send)
        """Pending questions to workers that have long answers."""
        self.results = ResultStore(store)
        self._wall = WallClock(machine.wall_time() - self.now())
        self.stacks = StackSampleStore(self.answers, config, self.now, self._wall.ms)
        repository = None if store is None else JobRepository(store, config, self._wall)
        self.dispatcher = Dispatcher(
            config,
            now=self.now(),
            send=self._send,
            keep=self._completer.carry_out,
            seek=self._completer.seek,
            repository=repository,
            wall=self._wall,
            takes_back=takes_back,
        )
        self._replacement = WorkerReplacement(config, self.dispatcher, want_worker)
        self.ready = asyncio.Event()
        """Set once the expected number of workers has registered."""
        self.superseded: asyncio.Future[CoordinatorSupersededError] = self._loop.create_future()
        """Done once another coordinator has replaced this one. By then this coordinator has cut off
        its workers, and it must end."""
        if self._epoch is not None:
            self._epoch.on_superseded = self._hear_of_successor
        if not config.workers:
            self.ready.set()
        if repository is not None:
            self._resume_jobs(repository)
        self._settle()

    def _resume_jobs(self, repository: JobRepository) -> None:
        for record, state, cause in repository.resume(self.now()):
            name = record.submission.name
            if record.ended_at is None:
                self._ends[record.job_id] = asyncio.Event()
                log.info('job "%s" (%s) is resumed, it was %s', name, record.job_id, state.value)
            self.dispatcher.resume(record, state, cause, self.now())

    def now(self) -> float:
        """Return the current time of the clock that the dispatcher uses throughout."""
        return self._loop.time()

    # -- workers

    @property
    def return_ms(self) -> float:
        """Milliseconds for which workers try to register again after they lose this coordinator."""
        stays = self._takes_back or self._epoch is not None
        return self.config.coordinator_return_ms if stays else 0.0

    def registered_workers(self) -> int:
        """Return the number of workers that are registered now."""
        return len(self.dispatcher.workers.registered())

    def join(self, message: Register, connection: WorkerConnection) -> None:
        """Register a worker that has introduced itself on a connection.

        Raises ConfigurationError if the worker is refused, and CoordinatorSupersededError if
        another coordinator has taken over.
        """
        if self.superseded.done():
            raise self.superseded.result()
        self._refuse_if_closed(f"worker {message.worker_id}")
        state_id, epoch = "", 0
        if self._epoch is not None:
            state_id, epoch = self._epoch.state_id, self._epoch.number
            self._epoch.hear(message.state_id, message.epoch)
        self.dispatcher.register(message, self.now())
        # A worker may register again before the end of its old connection is noticed.
        before = self._connections.get(message.worker_id)
        if before is not None:
            before.abort()
            self._forget_connection(message.worker_id)
        self._connections[message.worker_id] = connection
        log.info("worker %s (pid %d) registered", message.worker_id, message.pid)
        config = self.config
        connection.send(
            Registered(
                config.heartbeat_interval_ms,
                config.progress_interval_ms,
                self.return_ms,
                state_id,
                epoch,
            )
        )
        self._settle()

    def answered(self) -> None:
        """Note that a worker has been sent its registration.

        The cluster is ready once all expected workers have it: if the coordinator dies after that,
        each worker knows how long to wait for another coordinator.
        """
        answered = sum(connection.is_answered for connection in self._connections.values())
        if answered >= self.config.workers:
            self.ready.set()

    def receive(self, worker_id: str, message: Message) -> None:
        """Handle a message of a registered worker.

        Raises RemoteProtocolError if the worker must not send it.
        """
        self.dispatcher.receive(worker_id, message, self.now())
        if isinstance(message, StatisticsReport):
            self.metrics.take(worker_id, message, self.now())
        if isinstance(message, Printed) and self.dispatcher.job(message.job_id) is not None:
            self.printed.take(message.job_id, [str(line) for line in message.lines])
        self._settle()

    def leave(self, worker_id: str, connection: WorkerConnection) -> None:
        """Handle the end of a worker's connection."""
        if self._connections.get(worker_id) is not connection:
            return  # The worker has connected again.
        self._forget_connection(worker_id)
        if self.superseded.done():
            return
        self.dispatcher.connection_closed(worker_id, self.now())
        self._settle()

    def _forget_connection(self, worker_id: str) -> None:
        del self._connections[worker_id]
        self.metrics.forget(worker_id)
        self.answers.forget(worker_id)

    def worker_exited(self, worker_id: str, how: str) -> None:
        """Handle the launcher's report that a worker's process has ended."""
        log.warning("worker %s: %s", worker_id, how)
        self._replacement.worker_exited(worker_id)
        self.dispatcher.worker_exited(worker_id, how, self.now())
        self._settle()

    def close(self, reason: str) -> None:
        """Fail the running jobs and dismiss every worker. No deadline is acted on afterwards."""
        self.dispatcher.stop(FailureCause.of_coordinator(machine.process_id(), reason), self.now())
        for connection in self._connections.values():
            connection.dismiss(reason)
        self._closed = True
        self._settle()

    async def finish_checkpoints(self) -> None:
        """Wait, after ``close``, until pending checkpoint operations have completed."""
        if self._ticking is not None:
            self._ticking.cancel()
        await self.stacks.close()
        await self._completer.close()

    async def wait_for_workers(self) -> None:
        """Wait, after ``close``, until every worker has been told of it and has disconnected.

        The wait ends after half of ``stop_timeout_ms``, since a launcher kills the coordinator
        after the whole. A worker that has not disconnected by then will treat the coordinator as
        lost.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.stop_timeout_ms / 1000 / 2):
                while self._connections:
                    await self._progressed.wait()

    # -- jobs

    async def wait_for_slots(self, submission: Submission) -> None:
        """Wait until the job fits the free slots.

        Also returns once the job would not fit even with all slots that will be freed soon.
        """
        self.submissions_waiting += 1
        try:
            while self._may_fit_soon(submission):
                with suppress(TimeoutError):
                    # After this time the slots of replacements no longer count, so look again.
                    async with asyncio.timeout_at(self._replacement.expected_by):
                        await self._progressed.wait()
        finally:
            self.submissions_waiting -= 1

    def _may_fit_soon(self, submission: Submission) -> bool:
        coming = self._replacement.slots_coming(self.now())
        return self.dispatcher.slots.may_fit_soon(submission, coming)

    async def find_restore_point(self, submission: Submission) -> RestorePoint | None:
        """Read the checkpoint that the job is to continue from; return None if there is none.

        Raises CheckpointError or ConfigurationError if the job cannot continue from it.
        """
        if submission.restore is None:
            return None
        return await find_restore_point(submission.shape, submission.restore, self._checkpointing)

    def submit(
        self,
        submission: Submission,
        restored: RestorePoint | None = None,
        job_id: str | None = None,
    ) -> JobRecord:
        """Start a job, from the checkpoint ``restored`` if that is given.

        If a job with this id exists already, it is returned. Raises InsufficientSlotsError if the
        job does not fit the free slots, and ConfigurationError if the coordinator is about to end.
        """
        known = None if job_id is None else self.dispatcher.job(job_id)
        if known is not None:
            return known
        self._refuse_if_closed(f'job "{submission.name}"')
        if submission.shape.checkpointing is not None:
            self._completer.check(submission.shape.checkpointing.directory)
        record = self.dispatcher.submit(submission, self.now(), restored, job_id)
        # Drop the lines of jobs that the dispatcher has forgotten.
        for printing in self.printed.jobs():
            if self.dispatcher.job(printing) is None:
                self.printed.forget(printing)
        self._ends[record.job_id] = asyncio.Event()
        log.info('job "%s" (%s) submitted', submission.name, record.job_id)
        self._settle()
        return record

    def trigger_savepoint(
        self,
        record: JobRecord,
        kind: CheckpointKind,
        directory: str,
        request_id: str | None = None,
    ) -> SavepointRequest:
        """Trigger a savepoint in ``directory``.

        An empty ``directory`` means the job's checkpoint directory. If a request with this
        ``request_id`` exists already, it is returned, because the client has repeated its request.
        Raises ConfigurationError if there is no such place, and LocalProtocolError unless all
        subtasks run.
        """
        known = None if request_id is None else record.savepoint(request_id)
        if known is not None:
            return known
        place = self._completer.savepoint_place(record, directory)
        request = self.dispatcher.checkpoints.trigger_savepoint(
            record, kind, place, self.now(), request_id
        )
        log.info(
            'job "%s": %s %d to %s',
            record.submission.name,
            kind.name,
            request.checkpoint_id,
            place,
        )
        self._settle()
        return request

    async def wait_for_savepoint(self, request: SavepointRequest, timeout_s: float) -> None:
        """Wait until the savepoint has succeeded or failed, or until the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not request.is_done:
                    await self._progressed.wait()

    def cancel(self, record: JobRecord) -> None:
        """Cancel a job on a client's request."""
        self.dispatcher.cancel(record, self.now())
        self._settle()

    def take_results(
        self,
        record: JobRecord,
        attempt: AttemptRecord,
        number: int,
        results: Mapping[SubtaskKey, dict[str, Any]],
    ) -> dict[SubtaskKey, str]:
        """Take the results of finished subtasks that were deployed under ``number``.

        Returns the reason for each result that is refused: the job collects too many bytes, or the
        subtask has been restarted under another number.
        """
        refused = {}
        for subtask, result in results.items():
            try:
                if attempt.execution.number_of(subtask) != number:
                    raise JobError(f"subtask {subtask} was restarted under another number")
                self.dispatcher.take_result(record, attempt, subtask, result, self.now())
            except JobError as error:
                refused[subtask] = text_of(error)
        self._settle()
        return refused

    def one_was_held_up(self, within_s: float) -> bool:
        """Return whether user code has blocked a worker's event loop within the last seconds."""
        return self.dispatcher.workers.one_was_held_up(self.now() - within_s)

    def take_pulse(self, worker_id: str) -> None:
        """Note a worker's pulse: its process is alive while user code blocks its event loop."""
        self.dispatcher.workers.lives(worker_id, self.now())

    async def wait_for_end(self, record: JobRecord, timeout_s: float) -> None:
        """Wait until the job has ended and its checkpoints are in their final state.

        Also returns after the timeout.
        """
        end = self._ends.get(record.job_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                if end is not None:
                    await end.wait()
                if record.ended_at is not None:
                    await self._completer.settled(record.job_id)

    async def wait_for_printed(self, record: JobRecord, number: int, timeout_s: float) -> None:
        """Wait until the job has printed the line ``number`` or has ended, or until the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while record.ended_at is None and not self.printed.after(record.job_id, number)[1]:
                    await self._progressed.wait()

    def _kept(
        self,
        record: JobRecord,
        attempt: AttemptRecord,
        checkpoint_id: int,
        failure: CheckpointFailure | None,
    ) -> None:
        self.dispatcher.checkpoint_kept(record, attempt, checkpoint_id, failure, self.now())
        self._settle()

    def _found(
        self, record: JobRecord, found: RestorePoint | None, failure: str | None, damage: str
    ) -> None:
        self.dispatcher.checkpoint_found(record, found, failure, self.now(), damage)
        self._settle()

    async def _check_epoch(self) -> None:
        """Raise CoordinatorSupersededError if a successor has taken over.

        Runs in a thread, because the state directory may be on a slow remote file system.
        """
        if self._epoch is not None:
            await asyncio.to_thread(self._epoch.check)

    def _hear_of_successor(self, error: CoordinatorSupersededError) -> None:
        """Schedule the shutdown of a superseded coordinator. May run in any thread."""
        self._loop.call_soon_threadsafe(self._give_way, error)

    def _give_way(self, error: CoordinatorSupersededError) -> None:
        """Stop controlling workers and jobs, write nothing more, and let the process end."""
        if self.superseded.done():
            return
        self.superseded.set_result(error)
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._connections.values():
            connection.abort()

    def _refuse_if_closed(self, who: str) -> None:
        if self._closed:
            raise ConfigurationError(f"{who} is refused: the coordinator is about to end")

    # -- after every input

    def _send(self, worker_id: str, message: Message) -> None:
        connection = self._connections.get(worker_id)
        if connection is None:
            return
        if isinstance(message, Heartbeat):
            # The time is read as late as possible, because the worker sets its clock by it.
            message = Heartbeat(sent_s=message.sent_s, wall_s=machine.wall_time())
        connection.send(message)

    def _settle(self) -> None:
        """Act on the new state: wake waiters, end jobs, replace workers, and set the timer."""
        self._progressed.set()
        self._progressed = asyncio.Event()
        for job_id in list(self._ends):
            record = self.dispatcher.job(job_id)
            if record is not None and record.ended_at is None:
                self._job_log.restarts(record)
            if record is None or record.ended_at is not None:
                self._ends.pop(job_id).set()
                if record is None:
                    self._job_log.forget(job_id)
                    self._completer.forget(job_id)
                else:
                    self._completer.end(record)
                    self._job_log.end(record)
        # Messages that a lost worker has sent before must not count once it registers again.
        for lost in self.dispatcher.workers.workers():
            if lost.loss is not None and lost.worker_id in self._connections:
                self._connections[lost.worker_id].abort()
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._replacement.request(self.now())
            self._timer = self._loop.call_at(self.dispatcher.deadline, self._tick)

    def _tick(self) -> None:
        jump_s = self._wall.follow(self.now(), machine.wall_time())
        if jump_s:
            log.warning("%s; no deadline moves with it", describe_jump(jump_s))
        if self._epoch is None:
            self._follow_time()
        elif self._ticking is None:
            self._ticking = self._loop.create_task(self._follow_time_if_it_rules())

    async def _follow_time_if_it_rules(self) -> None:
        try:
            await self._check_epoch()
        except CoordinatorSupersededError:
            # The check has scheduled ``_give_way``.
            return
        except OSError:
            # An error here decides nothing. If the state directory does not respond, the next write
            # to it fails.
            pass
        finally:
            self._ticking = None
        self._follow_time()

    def _follow_time(self) -> None:
        if not self._closed:
            self.dispatcher.tick(self.now())
            self._settle()
