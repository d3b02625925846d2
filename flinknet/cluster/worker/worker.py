"""A worker process: ``python -m flinknet.cluster.worker --coordinator HOST:PORT --worker-id ID``.

Theory of operation
-------------------
A worker has one event loop, one network environment and one control link. It registers with the
coordinator, sends heartbeats and carries out the coordinator's messages. Each job attempt is one
task (``job_attempt.py``) of the worker's task group. The states of a worker::

    ORPHANED  JOIN -> WORKING
    WORKING   DRAIN -> DRAINING, STOP -> STOPPED, LOSE -> ORPHANED
    DRAINING  STOP -> STOPPED, LOSE -> STOPPED

The first event that ends the work determines the exit status. The worker cancels its attempts
before it exits.

- STOP: the coordinator sends ``Stop``, or a worker with a launcher gets SIGTERM, or any worker gets
  a second signal.
- DRAIN: a worker without a launcher gets its first SIGTERM. It informs the coordinator and works
  until its jobs have left it, for at most ``drain_timeout_ms``. The coordinator then sends
  ``Stop``.
- LOSE: the control connection ends, or no message arrives for ``coordinator_timeout_ms``. The
  worker cancels its attempts, because no other component would. It exits, unless the coordinator
  gave it a time in which to register again. It may register with a successor, or with the same
  coordinator after a network partition. It refuses a coordinator of a lower epoch than it has
  served.

Heartbeats share the event loop with the subtasks. Subtasks yield at least once per buffer, so they
cannot starve the heartbeats, but a user function that blocks the loop can. The pulse process
(``pulse.py``) then tells the coordinator that the worker is alive.

The cluster token comes from the environment, see ``credentials.py``. Output of user code goes to
the standard output of the process, which the launcher forwards.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path

from flinknet import machine
from flinknet.cluster.control.clock_offset import ClockOffset
from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.credentials import (
    TOKEN_VARIABLE,
    authorization_headers,
    cluster_id,
    data_plane_secret,
    take_token,
)
from flinknet.cluster.control.event_loop import loop_factory
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.control.hash_seed import restart_with_seed
from flinknet.cluster.control.http_transport import http_link
from flinknet.cluster.control.job_files import FilesInUse
from flinknet.cluster.control.job_state import AttemptKey
from flinknet.cluster.control.kept_output import KeptOutput
from flinknet.cluster.control.logs import configure_logging
from flinknet.cluster.control.messages import (
    AbortCheckpoint,
    Cancel,
    CompleteCheckpoint,
    Deploy,
    Drain,
    Heartbeat,
    Message,
    Register,
    Registered,
    Released,
    Run,
    Settle,
    StatisticsReport,
    StatisticsRequest,
    Stop,
    TriggerCheckpoint,
)
from flinknet.cluster.control.parent_watch import watch_parent
from flinknet.cluster.control.presence import Presence
from flinknet.cluster.control.stop_signals import ignore_stop_signals, when_told_to_stop
from flinknet.cluster.control.wall_clock import WallClock, describe_jump
from flinknet.cluster.worker.answers import Answers, Request
from flinknet.cluster.worker.garbage_collection import GarbageCollection
from flinknet.cluster.worker.job_attempt import JobAttempt
from flinknet.cluster.worker.joining import find_way, join, join_again, say_that_it_waits
from flinknet.cluster.worker.metrics_server import serve_metrics
from flinknet.cluster.worker.pulse import Pulse
from flinknet.cluster.worker.sink_commits import settle_sinks
from flinknet.cluster.worker.state_backends import StateBackends
from flinknet.cluster.worker.user_exits import guard_process, run_to_end
from flinknet.cluster.worker.worker_metrics import WorkerMetrics
from flinknet.config import (
    CheckpointingConfig,
    ClusterConfig,
    FlinknetConfig,
    MetricsConfig,
    StateConfig,
)
from flinknet.config.checks import require_port
from flinknet.config.loading import load_settings
from flinknet.environment.cluster_clock import CLUSTER_CLOCK
from flinknet.environment.processing_time import PROCESSING_CLOCK
from flinknet.environment.task_thread import longest_step
from flinknet.errors import (
    FlinknetError,
    RemoteProtocolError,
    RemoteTransportError,
)
from flinknet.metrics.worker_catalogue import worker_labels
from flinknet.metrics.worker_statistics import pack_statistics
from flinknet.net.address import split_address
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.net.task_clock import task_time
from flinknet.net.tls import tls_of
from flinknet.runtime.subtask import Subtask
from flinknet.texts import text_of
from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "WorkEvent", "WorkState", "Worker", "main", "serve_coordinators"]

log = logging.getLogger("flinknet.worker")


class WorkEvent(Enum):
    """An event that begins or ends the work of a worker."""

    DRAIN = "it is told to end once its jobs have left it"
    STOP = "it is told to end"
    LOSE = "its coordinator is lost"
    JOIN = "another coordinator has accepted it"


class WorkState(Enum):
    """The states of a worker."""

    WORKING = "it runs the jobs of its coordinator"
    DRAINING = "it runs them until they have left it"
    STOPPED = "it ends, because it was told to"
    ORPHANED = "it has no coordinator: not yet, or no longer"


_S, _E = WorkState, WorkEvent

TRANSITIONS: Transitions[WorkState, WorkEvent] = Transitions(
    {
        (_S.ORPHANED, _E.JOIN): _S.WORKING,
        (_S.WORKING, _E.DRAIN): _S.DRAINING,
        (_S.WORKING, _E.STOP): _S.STOPPED,
        (_S.WORKING, _E.LOSE): _S.ORPHANED,
        (_S.DRAINING, _E.STOP): _S.STOPPED,
        (_S.DRAINING, _E.LOSE): _S.STOPPED,
    }
)

_STATUS = {
    WorkState.STOPPED: ExitStatus.STOPPED,
    WorkState.ORPHANED: ExitStatus.COORDINATOR_LOST,
}


class Worker:
    """The message handling of a registered worker."""

    def __init__(
        self,
        environment: NetworkEnvironment,
        link: ControlLink,
        config: ClusterConfig,
        checkpointing: CheckpointingConfig | None = None,
        garbage_collection: GarbageCollection | None = None,
        state_backends: StateBackends | None = None,
        job_metrics: MetricsConfig | None = None,
        output: KeptOutput | None = None,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        """Initialize a worker that has not joined a coordinator yet.

        Without ``garbage_collection``, Python's collector keeps its defaults. ``output`` is the
        kept output of this process, which the coordinator may request. ``beat`` is called with each
        heartbeat.
        """
        self._beat = beat
        self._state_backends = state_backends or StateBackends(StateConfig())
        self._checkpointing = checkpointing
        self._job_metrics = job_metrics
        self._files_in_use = FilesInUse(config)
        self._garbage_collection = garbage_collection
        self.metrics = WorkerMetrics(environment, self._subtasks, job_metrics)
        self._environment = environment
        self._link = link
        self._answers = Answers(link, environment.worker_id, config, output)
        self._config = config
        self._attempts: dict[AttemptKey, tuple[JobAttempt, asyncio.Task[None]]] = {}
        """The attempts on this worker, each with its task."""
        self._heard_at = 0.0
        """Loop time of the coordinator's last message, plus the time of blocked loops since."""
        self._clock = ClockOffset()
        """The offset to the clock of the present coordinator."""
        self.state = WorkState.ORPHANED
        self._ended = asyncio.Event()
        """Set at the first event that ends the work for the present coordinator."""
        self._drains = asyncio.Event()
        """Set when this worker begins to drain."""
        self._sink_commits: set[asyncio.Task[None]] = set()
        """Running commits and aborts of sinks."""

    async def serve(self, registered: Registered, stop: asyncio.Event) -> ExitStatus:
        """Work until told to stop or until the coordinator is lost, and return the exit status.

        All running attempts are cancelled before this method returns. It may be called again once
        another coordinator has registered the worker.
        """
        self.state = TRANSITIONS[self.state, WorkEvent.JOIN]
        self._ended.clear()
        self._clock = ClockOffset()
        async with asyncio.TaskGroup() as group:
            services = [
                group.create_task(service)
                for service in (
                    self._send_heartbeats(registered),
                    self._send_progress(registered),
                    self._send_statistics(),
                    self.metrics.watch(),
                    self._converse(group),
                    self._await_stop(stop),
                    self._await_drain(),
                    self._await_silence(registered),
                )
            ]
            if self._garbage_collection is not None:
                looks = self._garbage_collection.look_after(lambda: bool(self._attempts))
                services.append(group.create_task(looks))
            await self._ended.wait()
            attempts = [task for _, task in self._attempts.values()]
            for task in (*services, *attempts):
                task.cancel()
            await self._let_sink_commits_end()
        # Without a coordinator, this machine's own clock is the reference again.
        CLUSTER_CLOCK.ahead_ms = 0
        return _STATUS[self.state]

    async def _let_sink_commits_end(self) -> None:
        """Wait for running committers if another coordinator may follow, then cancel them.

        A committer runs in a thread, which cannot be cancelled. It must not overlap with a
        committer that the next coordinator orders.
        """
        if self._sink_commits and self.state is WorkState.ORPHANED:
            timeout_s = self._config.commit_timeout_ms / 1000
            await asyncio.wait(self._sink_commits, timeout=timeout_s)
        for task in self._sink_commits:
            task.cancel()

    def drain(self) -> bool:
        """Ask the coordinator to move all jobs off this worker, which ends after that.

        Returns False if the worker drains already, has stopped or has no coordinator.
        """
        if (self.state, WorkEvent.DRAIN) not in TRANSITIONS:
            return False
        self.state = TRANSITIONS[self.state, WorkEvent.DRAIN]
        self._drains.set()
        return True

    async def _await_drain(self) -> None:
        await self._drains.wait()
        timeout_ms = self._config.drain_timeout_ms
        log.warning(
            "told to end: jobs may leave this worker for up to %d ms (cluster.drain_timeout_ms); a "
            "second signal ends it at once",
            timeout_ms,
        )
        await self._link.send(Drain())
        await asyncio.sleep(timeout_ms / 1000)
        self._end(WorkEvent.STOP)

    def _end(self, event: WorkEvent) -> None:
        # The first event counts: the state that it leads to has no transition for later ones.
        if (self.state, event) in TRANSITIONS:
            self.state = TRANSITIONS[self.state, event]
            self._ended.set()

    async def _converse(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while (message := await self._link.receive()) is not None:
            self._heard_at = loop.time()
            if isinstance(message, Heartbeat):
                self._compare_clocks(message)
                continue
            if isinstance(message, Stop):
                self._end(WorkEvent.STOP)
                return
            # Statistics and answers take long, so they must not hold up the messages behind them.
            if isinstance(message, StatisticsRequest):
                group.create_task(self._report_statistics(message))
                continue
            if isinstance(message, Request):
                group.create_task(self._answers.answer(message))
                continue
            await self._act(message, group)
        print("lost the coordinator: the control connection has ended", file=sys.stderr)
        self._end(WorkEvent.LOSE)

    async def _await_stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._end(WorkEvent.STOP)

    async def _await_silence(self, registered: Registered) -> None:
        """End the work when the coordinator has been silent for too long."""
        loop = asyncio.get_running_loop()
        interval_s = registered.heartbeat_interval_ms / 1000
        timeout_s = max(self._config.coordinator_timeout_ms / 1000, 2 * interval_s)
        presence = Presence(now=loop.time(), interval_s=interval_s)
        self._heard_at = loop.time()
        while loop.time() - self._heard_at < timeout_s:
            await asyncio.sleep(interval_s)
            # The coordinator answers each heartbeat, so silence means that it is lost. Time in
            # which user code blocked the loop does not count, because no message could be read
            # then.
            self._heard_at += presence.tick(loop.time())
        print(f"lost the coordinator: {self._link.unanswered()}", file=sys.stderr)
        self._end(WorkEvent.LOSE)

    async def _act(self, message: Message, group: asyncio.TaskGroup) -> None:
        if not isinstance(
            message,
            Deploy
            | Run
            | Cancel
            | Settle
            | TriggerCheckpoint
            | CompleteCheckpoint
            | AbortCheckpoint,
        ):
            raise RemoteProtocolError(f"the coordinator sent {type(message).__name__}")
        key = (message.job_id, message.attempt)
        match message:
            case Deploy():
                attempt = JobAttempt(
                    *key,
                    environment=self._environment,
                    link=self._link,
                    config=self._config,
                    checkpointing=self._checkpointing,
                    collect_garbage=self._collect_garbage,
                    state_backends=self._state_backends,
                    metrics=self._job_metrics,
                    files_in_use=self._files_in_use,
                )
                task = group.create_task(attempt.live())
                self._attempts[key] = attempt, task
                task.add_done_callback(lambda _: self._attempts.pop(key))
                # Let the task begin: a Cancel may have arrived in the same read, and a task that is
                # cancelled before it has begun never sends Released.
                await asyncio.sleep(0)
            case Run() if key in self._attempts:
                self._attempts[key][0].run()
            case Cancel(subtasks=[]) if key in self._attempts:
                self._attempts[key][1].cancel()
            case Cancel() if key in self._attempts:
                self._attempts[key][0].cancel((vertex, index) for vertex, index in message.subtasks)
            # The coordinator waits for Released, even if the attempt has ended already.
            case Cancel():
                await self._link.send(Released(*key))
            case TriggerCheckpoint() | CompleteCheckpoint() | AbortCheckpoint():
                if key in self._attempts:
                    self._attempts[key][0].follow_checkpoint(message)
            case Settle():
                task = group.create_task(
                    settle_sinks(
                        message,
                        self._link,
                        self._environment.worker_id,
                        self._config,
                        self._files_in_use,
                    )
                )
                self._sink_commits.add(task)
                task.add_done_callback(self._sink_commits.discard)

    async def _send_heartbeats(self, registered: Registered) -> None:
        loop = asyncio.get_running_loop()
        wall = WallClock(machine.wall_time() - loop.time())
        while True:
            # Read in each interval, so that processing time notices a clock that is set back.
            PROCESSING_CLOCK.now_ms()
            jump_s = wall.follow(loop.time(), machine.wall_time())
            if jump_s:
                told = "runs more slowly until the clock has caught up"
                told = told if jump_s < 0 else "follows it"
                log.warning("%s; processing time %s", describe_jump(jump_s), told)
            self._beat()
            step = longest_step(task_time())
            subtask, seconds = ("", 0.0) if step is None else (step.subtask, step.seconds)
            error_s = self._clock.error_s
            beat = Heartbeat(
                subtask,
                seconds,
                sent_s=machine.monotonic(),
                clock_offset_s=self._clock.offset_s,
                clock_error_s=-1.0 if error_s is None else error_s,
            )
            await self._link.send(beat)
            await asyncio.sleep(registered.heartbeat_interval_ms / 1000)

    def _compare_clocks(self, answer: Heartbeat) -> None:
        """Adjust the cluster clock to the coordinator's, so that hosts can compare their times."""
        # The monotonic clock is read last: if this thread has to wait in between, only the round
        # trip grows. The loop's time does not do: uvloop reads it once per iteration, so the clocks
        # of one machine would differ.
        wall_s = machine.wall_time()
        received_s = machine.monotonic()
        self._clock.take(
            sent_s=answer.sent_s,
            received_s=received_s,
            wall_s=wall_s,
            other_wall_s=answer.wall_s,
        )
        CLUSTER_CLOCK.ahead_ms = round(1000 * self._clock.correction_s)

    async def _send_progress(self, registered: Registered) -> None:
        while True:
            await asyncio.sleep(registered.progress_interval_ms / 1000)
            # A copy, because attempts may end while this method waits.
            for attempt, _ in list(self._attempts.values()):
                progress = attempt.progress()
                if progress is not None:
                    await self._link.send(progress)
                await attempt.send_printed()

    async def _send_statistics(self) -> None:
        """Report unrequested statistics at an interval, which also keeps the rates up to date."""
        while True:
            await self._report_statistics(StatisticsRequest(request=0, channels_max=0))
            await asyncio.sleep(self._config.statistics_interval_ms / 1000)

    async def _report_statistics(self, request: StatisticsRequest) -> None:
        config = self._config
        channels_max = min(request.channels_max, config.statistics_channels_max)
        bytes_max = min(config.statistics_bytes_max, config.control_message_bytes_max // 2)
        body = pack_statistics(await self.metrics.statistics(channels_max), bytes_max)
        await self._link.send(StatisticsReport(request.request, body))

    def _collect_garbage(self) -> None:
        """Collect garbage after an attempt has ended; the attempt is still in ``_attempts``."""
        if self._garbage_collection is None or len(self._attempts) > 1:
            gc.collect()
        else:
            # No other attempt runs, so frozen objects are scanned, too.
            self._garbage_collection.collect_all()

    def _subtasks(self) -> Iterator[Subtask]:
        for attempt, _ in self._attempts.values():
            yield from attempt.subtasks()


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports on which a worker listens; 0 selects a free port."""

    data: int = 0
    metrics: int = 0

    def __post_init__(self) -> None:
        require_port(self.data, "--data-port")
        require_port(self.metrics, "--metrics-port")


SWITCH_INTERVAL_S = 0.0005
"""Seconds until a computing subtask thread hands the interpreter to the event loop.

The loop then answers within about a millisecond. Python's default of 5 ms would delay every message
by as much. With a fifth of this value, computing takes up to a tenth longer.
"""


async def work(
    worker_id: str,
    coordinator: str,
    ports: Ports,
    config: FlinknetConfig,
    token: str,
    output: KeptOutput | None = None,
    *,
    drains: bool = False,
) -> ExitStatus:
    """Run a worker until it is told to stop or loses its coordinator; return the exit status.

    With ``drains``, the first signal lets jobs leave the worker before it ends.
    """
    stop = asyncio.Event()
    at_work: list[Worker] = []
    when_told_to_stop(lambda number: _hear(stop, at_work if drains else []))
    # Collections at the end of each job (``job_attempt.py``) need not scan imported objects.
    gc.freeze()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    advertised = await find_way(config.cluster, coordinator, stop)
    if advertised is None:
        return ExitStatus.STOPPED
    environment = _network(worker_id, ports.data, config, token, advertised)
    link = http_link(coordinator, token, config.cluster)
    async with AsyncExitStack() as stack:
        garbage_collection = None
        if config.cluster.garbage_collection == "short":
            garbage_collection = GarbageCollection()
            stack.enter_context(garbage_collection.kept_short())
        pulse = Pulse(
            coordinator,
            worker_id,
            authorization_headers(token),
            config.cluster.heartbeat_interval_ms / 1000,
            config.cluster.tls,
        )
        stack.callback(pulse.close)
        await asyncio.to_thread(pulse.start)
        await stack.enter_async_context(environment)
        await stack.enter_async_context(link)
        state_backends = StateBackends(config.state)
        stack.callback(state_backends.directories.close)
        await asyncio.to_thread(state_backends.directories.remove_leftovers)
        worker = Worker(
            environment,
            link,
            config.cluster,
            config.checkpointing,
            garbage_collection,
            state_backends,
            config.metrics,
            output,
            pulse.beat,
        )
        at_work.append(worker)
        labels = worker_labels(worker_id, environment.address)
        async with serve_metrics(
            worker.metrics, labels, ports.metrics, config.cluster, token, advertised
        ) as metrics_address:
            message = Register(
                worker_id=worker_id,
                pid=os.getpid(),
                address=environment.address,
                slots=config.cluster.slots_per_worker,
                metrics_address=metrics_address,
                process=machine.unique_id(),
            )
            wait_ms = config.cluster.coordinator_wait_ms
            return await serve_coordinators(worker, link, message, stop, wait_ms)


def _network(
    worker_id: str, port: int, config: FlinknetConfig, token: str, advertised: str
) -> NetworkEnvironment:
    """Return the data plane of a worker, which is not started."""
    return NetworkEnvironment(
        host=config.cluster.host,
        port=port,
        worker_id=worker_id,
        job=cluster_id(token),
        secret=data_plane_secret(token),
        tls=tls_of(config.cluster.tls),
        advertised=advertised,
        # No peer timeout: user code may hold up heartbeats, and the coordinator finds hangs.
        config=replace(config.network, heartbeat_timeout_ms=0.0),
    )


def _hear(stop: asyncio.Event, at_work: list[Worker]) -> None:
    """Drain a working worker at the first signal, and stop it at any other."""
    if not (at_work and at_work[0].drain()):
        stop.set()


async def serve_coordinators(
    worker: Worker, link: ControlLink, message: Register, stop: asyncio.Event, wait_ms: float = 0.0
) -> ExitStatus:
    """Register with a coordinator and serve it and its successors; return the exit status.

    The first coordinator may take ``wait_ms`` to start.
    """
    say = partial(say_that_it_waits, wait_ms)
    registered = await join(link, message, wait_ms, stop, say)
    while registered is not None:
        if await worker.serve(registered, stop) is ExitStatus.STOPPED:
            return ExitStatus.STOPPED
        message = replace(message, state_id=registered.state_id, epoch=registered.epoch)
        registered = await join_again(link, message, registered.return_ms, stop)
        if registered is not None:
            print(f"worker {message.worker_id} has registered again", file=sys.stderr)
    return ExitStatus.STOPPED if stop.is_set() else ExitStatus.COORDINATOR_LOST


def main() -> int:
    """Run a worker process and return its exit status, see ``ExitStatus``."""
    parser = argparse.ArgumentParser(prog="python -m flinknet.cluster.worker")
    parser.add_argument("--coordinator", required=True, metavar="HOST:PORT")
    parser.add_argument("--worker-id", required=True)
    for option in ("data_port", "metrics_port"):
        described = f"0 takes a free one; by default cluster.{option}"
        parser.add_argument(f"--{option.replace('_', '-')}", type=int, help=described)
    parser.add_argument("--config", type=Path, help="a TOML file like deploy/cluster.toml")
    parser.add_argument("--watch-parent", action="store_true", help="end when the launcher ends")
    options = parser.parse_args()
    if options.watch_parent:
        watch_parent()
    try:
        split_address(options.coordinator)
        config = load_settings(options.config, os.environ, {}).config
        token = take_token(config.cluster.token_file)
        restart_with_seed(config.cluster.hash_seed, {TOKEN_VARIABLE: token})
        output = configure_logging(config.cluster, options.worker_id)
        ports = Ports(
            config.cluster.data_port if options.data_port is None else options.data_port,
            config.cluster.metrics_port if options.metrics_port is None else options.metrics_port,
        )
        with asyncio.Runner(loop_factory=loop_factory(config.cluster)) as runner:
            guard_process()
            working = work(
                options.worker_id,
                options.coordinator,
                ports,
                config,
                token,
                output,
                drains=not options.watch_parent,
            )
            try:
                return run_to_end(runner, working)
            finally:
                ignore_stop_signals()
    except RemoteTransportError as error:
        print(f"lost the coordinator: {text_of(error)}", file=sys.stderr)
        return ExitStatus.COORDINATOR_LOST
    except FlinknetError as error:
        print(f"{type(error).__name__}: {text_of(error)}", file=sys.stderr)
        return ExitStatus.REFUSED
