"""The coordinator process: ``python -m flinknet.cluster.coordinator``.

It gives the dispatcher a clock and connections, which the dispatcher itself does without, and
serves the control plane (``application.py``). The cluster token comes in the environment, see
``credentials.py``.

With ``--watch-parent`` the process belongs to a launcher and ends when the launcher does. It then
writes events as JSON lines to standard output: ``listening`` with the address, ``ready`` once the
expected workers have registered, and ``worker_wanted`` for each lost worker. It reads events of the
launcher from standard input: ``worker_started`` and ``worker_exited``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import shutil
import signal
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flinknet import machine
from flinknet.checkpoint.failure_reason import CheckpointFailure
from flinknet.cluster.control.credentials import TOKEN_VARIABLE, take_token
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.hash_seed import restart_with_seed
from flinknet.cluster.control.http_server import HttpServer
from flinknet.cluster.control.kept_output import KeptOutput
from flinknet.cluster.control.logs import configure_logging
from flinknet.cluster.control.messages import (
    Heartbeat,
    Message,
    Printed,
    Register,
    Registered,
    StatisticsReport,
)
from flinknet.cluster.control.parent_watch import watch_parent
from flinknet.cluster.control.process_group import kill_group
from flinknet.cluster.control.stop_signals import ignore_stop_signals, when_told_to_stop
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.wall_clock import WallClock, describe_jump
from flinknet.cluster.coordinator.application import control_plane
from flinknet.cluster.coordinator.checkpoints.checkpoint_keeper import CheckpointKeeper
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_books import JobBooks
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.job_store import JobStore
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint, find_restore_point
from flinknet.cluster.coordinator.jobs.savepoint_request import SavepointRequest
from flinknet.cluster.coordinator.metrics.metric_store import MetricStore
from flinknet.cluster.coordinator.metrics.printed_store import PrintedStore
from flinknet.cluster.coordinator.metrics.stack_sample_store import StackSampleStore
from flinknet.cluster.coordinator.workers.inquiries import Inquiries
from flinknet.cluster.coordinator.workers.worker_connection import WorkerConnection
from flinknet.config import CheckpointingConfig, ClusterConfig
from flinknet.config.loading import load_settings
from flinknet.errors import (
    ConfigurationError,
    CoordinatorSupersededError,
    FlinknetError,
    JobError,
)
from flinknet.net.refusal_log import RefusalLog
from flinknet.texts import text_of
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = ["Coordinator", "main"]

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
        self._keeper = CheckpointKeeper(
            self._checkpointing, self._kept, self._found, self._check_epoch
        )
        self._want_worker = want_worker
        self._wanted: set[str] = set()
        """Lost workers that the launcher was asked to replace."""
        self._replaced_by = 0.0
        """Time by which the last replacement should have registered; 0 if none is expected."""
        self._never_came: deque[str] = deque(maxlen=config.lost_workers_remembered)
        """Ids of workers that ended before they registered."""
        self._told: defaultdict[str, set[tuple[int, float]]] = defaultdict(set)
        """Failures already logged, per live job: (attempt, time of failed regions or 0)."""
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
        self._store = store
        self._wall = WallClock(machine.wall_time() - self.now())
        self.stacks = StackSampleStore(self.answers, config, self.now, self._wall.ms)
        books = None if store is None else JobBooks(store, config, self._wall)
        self.dispatcher = Dispatcher(
            config,
            now=self.now(),
            send=self._send,
            keep=self._keeper.carry_out,
            seek=self._keeper.seek,
            books=books,
            wall=self._wall,
            takes_back=takes_back,
        )
        self.ready = asyncio.Event()
        """Set once the expected number of workers has registered."""
        self.superseded: asyncio.Future[CoordinatorSupersededError] = self._loop.create_future()
        """Done once another coordinator has replaced this one. By then this coordinator has cut off
        its workers, and it must end."""
        if self._epoch is not None:
            self._epoch.on_superseded = self._hear_of_successor
        if not config.workers:
            self.ready.set()
        if books is not None:
            self._resume_jobs(books)
        self._settle()

    def _resume_jobs(self, books: JobBooks) -> None:
        for record, state, cause in books.resume(self.now()):
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
        stays = self._takes_back or self._store is not None
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
        if self.dispatcher.workers.get(worker_id) is None:
            self._never_came.append(worker_id)
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
        await self._keeper.close()

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
            while self.dispatcher.may_fit_soon(submission, self._slots_coming()):
                with suppress(TimeoutError):
                    # After this time ``_slots_coming`` no longer counts replacements, so look
                    # again.
                    async with asyncio.timeout_at(self._replaced_by or None):
                        await self._progressed.wait()
        finally:
            self.submissions_waiting -= 1

    def _slots_coming(self) -> int:
        """Return the number of slots of replacement workers that have yet to register."""
        if self.now() >= self._replaced_by:
            self._replaced_by = 0.0
            return 0
        return (
            max(0, self.config.workers - self.registered_workers()) * self.config.slots_per_worker
        )

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
            self._keeper.check(submission.shape.checkpointing.directory)
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
        place = self._keeper.savepoint_place(record, directory)
        request = self.dispatcher.trigger_savepoint(record, kind, place, self.now(), request_id)
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
                    raise JobError(f"subtask {subtask} begins again under another number")
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

    async def keep_results(
        self, record: JobRecord, attempt: AttemptRecord, results: Mapping[SubtaskKey, bytes]
    ) -> None:
        """Store the uploaded results of finished subtasks, before they are taken.

        A subtask that had finished in an earlier attempt is left out, because the result of that
        attempt counts. Raises JobError if the results cannot be written.
        """
        kept = {
            subtask: body
            for subtask, body in results.items()
            if record.result_before(subtask) is None
        }
        if self._store is None or not kept:
            return
        try:
            await asyncio.to_thread(self._store.write_results, record.job_id, attempt.number, kept)
        except (OSError, CoordinatorSupersededError) as error:
            raise JobError(f"the coordinator cannot keep a result: {error}") from error

    def forget_result(self, record: JobRecord) -> None:
        """Drop the collected records of a job, after the client has fetched them."""
        record.present.forget_collected()
        if self._store is not None:
            # The files belong to the coordinator that has taken over.
            with suppress(CoordinatorSupersededError):
                self._store.remove_results(record.job_id)

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
                    await self._keeper.settled(record.job_id)

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
                self._log_restarts(record)
            if record is None or record.ended_at is not None:
                self._ends.pop(job_id).set()
                self._told.pop(job_id, None)
                if record is None:
                    self._keeper.forget(job_id)
                else:
                    self._keeper.end(record)
                    _log_end(record)
        # Messages that a lost worker has sent before must not count once it registers again.
        for lost in self.dispatcher.workers.workers():
            if lost.loss is not None and lost.worker_id in self._connections:
                self._connections[lost.worker_id].abort()
        self._have_workers_replaced()
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._timer = self._loop.call_at(self.dispatcher.deadline, self._tick)

    def _log_restarts(self, record: JobRecord) -> None:
        """Log each restart of an attempt, or of some of its regions, once."""
        told = self._told[record.job_id]
        for attempt in record.attempts:
            for failure in attempt.failures:
                if (attempt.number, failure.at) not in told:
                    told.add((attempt.number, failure.at))
                    log.warning(
                        'job "%s": a part of it failed and begins again, the rest goes on '
                        "(regions %s): %s",
                        record.submission.name,
                        ", ".join(sorted(failure.regions)),
                        failure.cause.message,
                    )
            if attempt.ended_at is not None and (attempt.number, 0.0) not in told:
                told.add((attempt.number, 0.0))
                cause = attempt.execution.cause
                is_drain = cause is not None and cause.is_drain
                log.warning(
                    'job "%s": attempt %d %s, and another one follows it: %s',
                    record.submission.name,
                    attempt.number,
                    "ends" if is_drain else "failed",
                    "" if cause is None else cause.describe(),
                )

    def _have_workers_replaced(self) -> None:
        """Ask the launcher once to replace each lost worker.

        A worker that never registered is reported only if a job waits to be restarted: its
        replacement might fail to start as well, again and again.
        """
        if self._closed:
            return
        workers = self.dispatcher.workers.workers()
        lost = [worker.worker_id for worker in workers if worker.is_lost]
        missed = [*self._never_came, *lost] if self.dispatcher.waits_to_restart else lost
        for worker_id in missed:
            if worker_id not in self._wanted:
                self._wanted.add(worker_id)
                self._replaced_by = self.now() + self.config.start_timeout_ms / 1000
                self._want_worker(worker_id)
        self._wanted &= {*self._never_came, *lost}

    def _tick(self) -> None:
        jump_s = self._wall.follow(self.now(), machine.wall_time())
        if jump_s:
            log.warning("%s; no deadline follows it", describe_jump(jump_s))
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


def _log_end(record: JobRecord) -> None:
    name, execution = record.submission.name, record.execution
    log.info('job "%s": %s', name, record.state.value)
    for worker_id in execution.holders:
        log.warning('job "%s" has ended, but worker %s has not let go of it', name, worker_id)


async def serve(
    config: ClusterConfig,
    token: str,
    *,
    has_launcher: bool,
    owns_state: bool = False,
    checkpointing: CheckpointingConfig | None = None,
    output: KeptOutput | None = None,
    inherited: machine.Socket | None = None,
) -> None:
    """Serve the control plane until SIGTERM or SIGINT.

    ``owns_state`` means that the state directory is removed once the launcher is gone.
    ``inherited`` is the listening socket of a launcher, which knows its address already.
    """
    loop = asyncio.get_running_loop()
    store = None
    if config.state_directory:
        store = JobStore(Path(config.state_directory), durable=not owns_state)
    coordinator = Coordinator(
        config,
        lambda lost: _announce("worker_wanted", worker_id=lost),
        checkpointing,
        store,
        output,
        takes_back=not has_launcher,
    )
    stop = asyncio.Event()
    reason = "stops"

    def stop_on(number: signal.Signals) -> None:
        nonlocal reason
        if stop.is_set():
            # A second signal ends the process at once, without waiting for workers or checkpoints.
            # This is safe, since each file of the state directory is complete at any moment.
            os._exit(ExitStatus.STOPPED)
        reason = f"was told to stop by signal {number} ({number.name})"
        stop.set()

    when_told_to_stop(stop_on)
    if has_launcher:
        launcher = _Launcher(coordinator, loop, config.state_directory if owns_state else None)
        watch_parent(launcher.hear, launcher.ended)
    server = HttpServer(
        control_plane(coordinator, token),
        config,
        coordinator.one_was_held_up,
        coordinator.http_refusals,
    )
    try:
        address = await server.start(
            config.host,
            config.coordinator_port,
            "cluster.coordinator_port",
            config.advertised_host,
            inherited,
        )
        log.info("listening on %s", address)
        if inherited is None:
            _announce("listening", address=address)
        waiting = asyncio.create_task(_announce_ready(coordinator))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((stopping, coordinator.superseded), return_when=asyncio.FIRST_COMPLETED)
        for task in (waiting, stopping):
            task.cancel()
        if coordinator.superseded.done():
            raise coordinator.superseded.result()
    finally:
        # A superseded coordinator leaves the workers and jobs to its successor.
        if not coordinator.superseded.done():
            coordinator.close(reason)
            await coordinator.wait_for_workers()
        await coordinator.finish_checkpoints()
        await server.close()
        if store is not None:
            store.close()
        # Logged last, because the launcher shows the last line of a coordinator that has ended.
        if not coordinator.superseded.done():
            log.info("the coordinator %s", reason)
        ignore_stop_signals()


async def _announce_ready(coordinator: Coordinator) -> None:
    await coordinator.ready.wait()
    _announce("ready")


def _announce(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


class _Launcher:
    """The handler for events of the launcher, and for its end.

    All methods run in the thread that reads from the launcher.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        loop: asyncio.AbstractEventLoop,
        state_directory: str | None = None,
    ) -> None:
        """``state_directory`` is removed when the launcher ends."""
        self._state_directory = state_directory
        self._coordinator = coordinator
        self._loop = loop
        self._groups: dict[str, int] = {}

    def hear(self, line: bytes) -> None:
        """Handle one event: a line of JSON."""
        news = json.loads(line)
        worker_id = news["worker_id"]
        match news["event"]:
            case "worker_started":
                self._groups[worker_id] = news["pid"]
            case "worker_exited":
                self._groups.pop(worker_id, None)
                self._loop.call_soon_threadsafe(
                    self._coordinator.worker_exited, worker_id, news["how"]
                )
            case event:
                raise AssertionError(f"the launcher says {event}")

    def ended(self) -> None:
        """Clean up after the launcher has ended.

        The kernel has killed the workers by then. Processes that their user code started are still
        there, in the workers' process groups.
        """
        for leader in self._groups.values():
            kill_group(leader)
        if self._state_directory is not None:
            shutil.rmtree(self._state_directory, ignore_errors=True)


def main() -> int:
    """Run a coordinator; return the exit status, see ``ExitStatus``."""
    parser = argparse.ArgumentParser(prog="python -m flinknet.cluster.coordinator")
    parser.add_argument("--config", type=Path, help="a TOML file, as deploy/cluster.toml")
    parser.add_argument("--watch-parent", action="store_true", help="end with the launcher")
    parser.add_argument(
        "--remove-state", action="store_true", help="the state directory ends with the launcher"
    )
    parser.add_argument("--listening", type=int, help="descriptor of a socket that listens already")
    options = parser.parse_args()
    try:
        config = load_settings(options.config, os.environ, {}).config
        token = take_token(config.cluster.token_file)
        # ``take_token`` has removed the token from the environment, which the new process inherits.
        restart_with_seed(config.cluster.hash_seed, {TOKEN_VARIABLE: token})
        output = configure_logging(config.cluster, "coordinator")
        # Other loggers of flinknet log only warnings, because ``log_level`` is for user code. No
        # user code runs in this process, so here the level applies to messages about jobs and
        # workers.
        logging.getLogger("flinknet.coordinator").setLevel(config.cluster.log_level.upper())
        asyncio.run(
            serve(
                config.cluster,
                token,
                has_launcher=options.watch_parent,
                owns_state=options.remove_state,
                checkpointing=config.checkpointing,
                output=output,
                inherited=None
                if options.listening is None
                else machine.take_over(options.listening),
            )
        )
    except CoordinatorSupersededError as error:
        print(f"coordinator: {text_of(error)}", file=sys.stderr)
        return ExitStatus.SUPERSEDED
    except FlinknetError as error:
        print(f"coordinator: {text_of(error)}", file=sys.stderr)
        return ExitStatus.FAILED if isinstance(error, JobError) else ExitStatus.REFUSED
    return ExitStatus.STOPPED
