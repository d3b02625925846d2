"""The coordinator process: ``python -m flinknet.cluster.coordinator``.

It gives the dispatcher (which has neither) a clock and connections, and serves the control plane
(``application.py``). The cluster token comes in the environment, see ``credentials.py``. With
``--watch-parent`` it belongs to a launcher: it ends when the launcher does, writes what the
launcher must know as JSON lines to standard output (``listening`` with the address; ``ready`` once
the expected workers have registered; ``worker_wanted`` for one that is lost), and reads the
launcher's news from standard input (``worker_started``, ``worker_exited``).
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
from flinknet.net.refusals import Refusals
from flinknet.texts import text_of
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = ["Coordinator", "main"]

log = logging.getLogger("flinknet.coordinator")


class Coordinator:
    """The dispatcher on the running event loop. Used from that loop only."""

    def __init__(
        self,
        config: ClusterConfig,
        want_worker: Callable[[str], None] = lambda lost: None,
        checkpointing: CheckpointingConfig | None = None,
        store: JobStore | None = None,
        output: KeptOutput | None = None,
        takes_back: bool = False,
    ) -> None:
        """``want_worker`` hears of each lost worker that a job needs to have replaced. The jobs are
        kept in the ``store``, and those that are there are resumed. ``output`` is what is told of
        this process when somebody asks. ``takes_back`` says that no launcher replaces a lost
        worker, which may therefore register again."""
        self._takes_back = takes_back
        self.output = output or KeptOutput("coordinator", config.output_kept_bytes)
        self._checkpointing = checkpointing or CheckpointingConfig()
        self._epoch = None if store is None else store.epoch
        self._keeper = CheckpointKeeper(
            self._checkpointing, self._kept, self._found, self._check_epoch
        )
        self._want_worker = want_worker
        self._wanted: set[str] = set()
        """Lost workers of which the launcher has been told."""
        self._replaced_by = 0.0
        """When the last of those in their place should have come; 0 if none is expected."""
        self._never_came: deque[str] = deque(maxlen=config.lost_workers_remembered)
        """Workers that ended before they had registered."""
        self._told: defaultdict[str, set[tuple[int, float]]] = defaultdict(set)
        """Failures of jobs that live, by attempt and, if only regions of it failed, time."""
        self._loop = asyncio.get_running_loop()
        self._connections: dict[str, WorkerConnection] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ticking: asyncio.Task[None] | None = None
        """Looks whether a successor has come, before anything is done because time has passed."""
        self._closed = False
        self._ends: dict[str, asyncio.Event] = {}
        self.submissions_waiting = 0
        """Clients whose job waits for slots that are on their way back."""
        self._progressed = asyncio.Event()
        """Set, and replaced, after every input."""
        self.config = config
        self.http_refusals = Refusals()
        self.metrics = MetricStore(self._send, config.statistics_interval_ms / 1000)
        self.printed = PrintedStore(config.output_kept_bytes)
        self.answers = Inquiries[bytes](self._send)
        """To what workers are asked whose answer is long."""
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
        """Done once another coordinator has this one's place: this one must end, and has cut its
        workers off."""
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
        """The clock of every time that the dispatcher sees."""
        return self._loop.time()

    # -- workers

    @property
    def return_ms(self) -> float:
        """How long workers that lose this coordinator are to try to register again."""
        stays = self._takes_back or self._store is not None
        return self.config.coordinator_return_ms if stays else 0.0

    def registered_workers(self) -> int:
        """How many workers are there now."""
        return len(self.dispatcher.workers.registered())

    def join(self, message: Register, connection: WorkerConnection) -> None:
        """A worker has introduced itself on a connection; ConfigurationError refuses it,
        CoordinatorSupersededError says that another coordinator rules."""
        if self.superseded.done():
            raise self.superseded.result()
        self._refuse_if_closed(f"worker {message.worker_id}")
        state_id, epoch = "", 0
        if self._epoch is not None:
            state_id, epoch = self._epoch.state_id, self._epoch.number
            self._epoch.hear(message.state_id, message.epoch)
        self.dispatcher.register(message, self.now())
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
        """A worker has been told that it is registered. The cluster is ready when all have been: if
        the coordinator dies then, each worker knows whether another one comes."""
        answered = sum(connection.is_answered for connection in self._connections.values())
        if answered >= self.config.workers:
            self.ready.set()

    def receive(self, worker_id: str, message: Message) -> None:
        """A registered worker said something; RemoteProtocolError if it must not say that."""
        self.dispatcher.receive(worker_id, message, self.now())
        if isinstance(message, StatisticsReport):
            self.metrics.take(worker_id, message, self.now())
        if isinstance(message, Printed) and self.dispatcher.job(message.job_id) is not None:
            self.printed.take(message.job_id, [str(line) for line in message.lines])
        self._settle()

    def leave(self, worker_id: str, connection: WorkerConnection) -> None:
        """A worker's connection has ended."""
        if self._connections.get(worker_id) is not connection:
            return  # It has connected again.
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
        """The launcher saw a worker's process end."""
        log.warning("worker %s: %s", worker_id, how)
        if self.dispatcher.workers.get(worker_id) is None:
            self._never_came.append(worker_id)
        self.dispatcher.worker_exited(worker_id, how, self.now())
        self._settle()

    def close(self, reason: str) -> None:
        """Fail what runs and send every worker away; time stands still from now on."""
        self.dispatcher.stop(FailureCause.of_coordinator(machine.process_id(), reason), self.now())
        for connection in self._connections.values():
            connection.dismiss(reason)
        self._closed = True
        self._settle()

    async def finish_checkpoints(self) -> None:
        """After ``close``: let what was begun in the checkpoints' place come to its end."""
        if self._ticking is not None:
            self._ticking.cancel()
        await self.stacks.close()
        await self._keeper.close()

    async def wait_for_workers(self) -> None:
        """After ``close``: return when every worker has heard of it and gone.

        One that does not within half of ``stop_timeout_ms`` (a launcher kills the coordinator after
        the whole) will take the coordinator for lost.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.stop_timeout_ms / 1000 / 2):
                while self._connections:
                    await self._progressed.wait()

    # -- jobs

    async def wait_for_slots(self, submission: Submission) -> None:
        """Return when the job fits, or when nothing that is on its way back would make it fit."""
        self.submissions_waiting += 1
        try:
            while self.dispatcher.may_fit_soon(submission, self._slots_coming()):
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(self._replaced_by or None):
                        await self._progressed.wait()
        finally:
            self.submissions_waiting -= 1

    def _slots_coming(self) -> int:
        """Count the slots of workers that the launcher starts in the place of lost ones."""
        if self.now() >= self._replaced_by:
            self._replaced_by = 0.0
            return 0
        return (
            max(0, self.config.workers - self.registered_workers()) * self.config.slots_per_worker
        )

    async def find_restore_point(self, submission: Submission) -> RestorePoint | None:
        """Read what the job is to continue from, if it is; CheckpointError or ConfigurationError if
        it cannot."""
        if submission.restore is None:
            return None
        return await find_restore_point(submission.shape, submission.restore, self._checkpointing)

    def submit(
        self,
        submission: Submission,
        restored: RestorePoint | None = None,
        job_id: str | None = None,
    ) -> JobRecord:
        """Start a job, or continue it from what was ``restored``; InsufficientSlotsError if it does
        not fit the free slots, ConfigurationError if the coordinator is about to end. If there is a
        job of that id, this is it."""
        known = None if job_id is None else self.dispatcher.job(job_id)
        if known is not None:
            return known
        self._refuse_if_closed(f'job "{submission.name}"')
        if submission.shape.checkpointing is not None:
            self._keeper.check(submission.shape.checkpointing.directory)
        record = self.dispatcher.submit(submission, self.now(), restored, job_id)
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
        """Have a savepoint written, to where the job's checkpoints are if ``directory`` is empty.
        If one was asked for under ``request_id``, this is it: its client has asked twice.

        ConfigurationError if there is no such place, LocalProtocolError if not all subtasks run.
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
        """Return when it is known what has become of a savepoint, or after the time-out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not request.is_done:
                    await self._progressed.wait()

    def cancel(self, record: JobRecord) -> None:
        """Stop a job on request."""
        self.dispatcher.cancel(record, self.now())
        self._settle()

    def take_results(
        self,
        record: JobRecord,
        attempt: AttemptRecord,
        number: int,
        results: Mapping[SubtaskKey, dict[str, Any]],
    ) -> dict[SubtaskKey, str]:
        """Subtasks that were deployed under ``number`` have finished. Return which results are
        refused, and why: the job collects too many bytes, or the subtask begins again."""
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
        """Return whether user code held up a worker's event loop in the last seconds."""
        return self.dispatcher.workers.one_was_held_up(self.now() - within_s)

    def take_pulse(self, worker_id: str) -> None:
        """A worker's process lives, and user code holds its event loop up."""
        self.dispatcher.workers.lives(worker_id, self.now())

    async def keep_results(
        self, record: JobRecord, attempt: AttemptRecord, results: Mapping[SubtaskKey, bytes]
    ) -> None:
        """Write down what finished subtasks have uploaded, before it is taken; JobError if that
        cannot be. Of one that had finished in an earlier attempt, that attempt's counts."""
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
        """The client has what the job has collected."""
        record.present.forget_collected()
        if self._store is not None:
            with suppress(CoordinatorSupersededError):  # They are another coordinator's then.
                self._store.remove_results(record.job_id)

    async def wait_for_end(self, record: JobRecord, timeout_s: float) -> None:
        """Return when the job has ended, and its checkpoints are as they will stay, or after the
        time-out."""
        end = self._ends.get(record.job_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                if end is not None:
                    await end.wait()
                if record.ended_at is not None:
                    await self._keeper.settled(record.job_id)

    async def wait_for_printed(self, record: JobRecord, number: int, timeout_s: float) -> None:
        """Return when the job has printed the line of that number, or has ended, or after the
        time-out."""
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
        """Look whether a successor has come, in a thread: the store may be far away, and slow."""
        if self._epoch is not None:
            await asyncio.to_thread(self._epoch.check)

    def _hear_of_successor(self, error: CoordinatorSupersededError) -> None:
        """May run in any thread."""
        self._loop.call_soon_threadsafe(self._give_way, error)

    def _give_way(self, error: CoordinatorSupersededError) -> None:
        """Rule no more: command no worker, write nothing, and let the process end."""
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
            # Read here and not before: the worker measures its clock by it.
            message = Heartbeat(sent_s=message.sent_s, wall_s=machine.wall_time())
        connection.send(message)

    def _settle(self) -> None:
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
        for lost in self.dispatcher.workers.workers():
            if lost.loss is not None and lost.worker_id in self._connections:
                self._connections[lost.worker_id].abort()
        self._have_workers_replaced()
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._timer = self._loop.call_at(self.dispatcher.deadline, self._tick)

    def _log_restarts(self, record: JobRecord) -> None:
        """Say once of each attempt, or regions of one, that have failed that they begin again."""
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
        """Tell the launcher once of each lost worker. One that never came is told of only if a job
        waits to be restarted: another one might not come either, time and again."""
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
            return
        except OSError:
            pass  # It says nothing: what is to be written will fail with it.
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
    """Serve the control plane until SIGTERM or SIGINT. ``owns_state`` says that the state directory
    goes when the launcher is gone. ``inherited`` is the socket of a launcher that listens already,
    and knows where."""
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
            # Twice: whatever it still waits for. Its files are whole at any moment.
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
        if not coordinator.superseded.done():
            coordinator.close(reason)
            await coordinator.wait_for_workers()
        await coordinator.finish_checkpoints()
        await server.close()
        if store is not None:
            store.close()
        # Last, because the launcher shows the last line of a coordinator that has ended.
        if not coordinator.superseded.done():
            log.info("the coordinator %s", reason)
        ignore_stop_signals()


async def _announce_ready(coordinator: Coordinator) -> None:
    await coordinator.ready.wait()
    _announce("ready")


def _announce(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


class _Launcher:
    """What the launcher says, and what its end means. Called in the thread that listens to it."""

    def __init__(
        self,
        coordinator: Coordinator,
        loop: asyncio.AbstractEventLoop,
        state_directory: str | None = None,
    ) -> None:
        """``state_directory`` is there for as long as the launcher is."""
        self._state_directory = state_directory
        self._coordinator = coordinator
        self._loop = loop
        self._groups: dict[str, int] = {}

    def hear(self, line: bytes) -> None:
        """One line of JSON."""
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
        """The kernel has killed the workers; what their user code has started is left."""
        for leader in self._groups.values():
            kill_group(leader)
        if self._state_directory is not None:
            shutil.rmtree(self._state_directory, ignore_errors=True)


def main() -> int:
    """Run a coordinator; returns the exit status, see ``ExitStatus``."""
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
        restart_with_seed(config.cluster.hash_seed, {TOKEN_VARIABLE: token})
        output = configure_logging(config.cluster, "coordinator")
        # Of itself it says what happens to jobs and workers: there is no user code to be heard.
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
