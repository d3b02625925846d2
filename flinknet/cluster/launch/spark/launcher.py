"""The launcher that runs workers as children of the tasks of one barrier stage of Spark.

Theory of operation
-------------------
The coordinator is a child of this process, as on one machine. Workers run behind Spark's tasks: a
task (``agent.py``) starts, signals and ends workers as ordered over its link (``task_links.py``),
and passes on their output. A worker that ends is therefore replaced in its task, and the stage goes
on.

Spark does not retry a barrier stage that has lost a task, because an executor or a Python worker
has ended. The launcher then ends the other tasks, too, and reports all workers of the stage as
exited, the first one with the reason that Spark gives. The first request to replace one of these
workers launches the next stage, for all of them. The launch waits until there are slots again,
because an executor takes some seconds to come back, but not longer than a job waits for slots.

    no stage -> launched: tasks connect -> linked: workers run -> doomed: a task is lost -> no stage

A stopped session is never used again: the cluster is lost then.
"""

from __future__ import annotations

import asyncio
import atexit
import hmac
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from flinknet import machine
from flinknet.cluster.launch.local.child_process import describe_exit
from flinknet.cluster.launch.local.children import (
    HOME,
    START,
    Children,
    import_path,
    interpreter_flags,
    process_variables,
)
from flinknet.cluster.launch.process_output import LAUNCHER, OnOutput, OnPrinted, print_printed
from flinknet.cluster.launch.protocol import Exit
from flinknet.cluster.launch.spark.agent import make_task
from flinknet.cluster.launch.spark.preflight import (
    bound_host,
    check_spark,
    too_few_slots,
    unprotected,
)
from flinknet.cluster.launch.spark.session import session_of
from flinknet.cluster.launch.spark.shipping import (
    LIBRARIES,
    misfit,
    misfit_of_shipped,
    write_archive,
)
from flinknet.cluster.launch.spark.stage import Spark, Stage, described
from flinknet.cluster.launch.spark.task_links import LINK_LABEL, TaskLink, TaskLinks
from flinknet.config import FlinknetConfig, SparkConfig, TlsConfig
from flinknet.config.loading import options
from flinknet.config.locked_directory import LockedDirectory, remove_leftovers
from flinknet.config.temporary_directory import temporary_directory
from flinknet.errors import ConfigurationError, FlinknetError, JobError
from flinknet.net.address import host_of, is_loopback
from flinknet.net.tls import tls_of

__all__ = ["SparkLauncher"]

log = logging.getLogger("flinknet.launcher")

_ARCHIVES = "flinknet-shipped-"
"""Prefix of the directories with shipped archives, kept for the life of this process."""

_STAGE_END_S = 10.0
"""Seconds for a stage to end after its tasks were told to.

After that, Spark is asked to kill them, and gets as much time again for that.
"""

_MISFITS_OF_PYTHON = ("[PYTHON_VERSION_MISMATCH]", "No module named", "PACKAGE_NOT_INSTALLED")
"""Texts in Spark's reason for a failed stage that require a different setup of its executors."""

_shipped: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""The name of the archive shipped to each session, shared by all clusters that run on it."""

_warned: WeakSet[Any] = WeakSet()
"""Sessions with settings that a warning was printed about."""


@dataclass(slots=True)
class _Worker:
    """A worker that was started."""

    name: str
    rank: int
    generation: int
    link: TaskLink
    pid: int = 0
    last_line: str = ""
    status: int | None = None
    """The status in the form of ``subprocess``; None if unknown."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def place(self) -> str:
        return f"pid {self.pid} in task {self.rank} of Spark on {self.link.facts['host']}"


class _TooFewSlotsError(Exception):
    """Raised if Spark has too few slots at the moment."""


class SparkLauncher:
    """A ``Launcher`` that runs workers in the executors of a Spark session."""

    def __init__(
        self,
        config: FlinknetConfig,
        token: str,
        on_output: OnOutput,
        on_printed: OnPrinted = print_printed,
    ) -> None:
        """See ``MakeLauncher``."""
        self._config = config
        self._token = token
        self._on_output = on_output
        self._on_printed = on_printed
        self._exits: asyncio.Queue[Exit | JobError] = asyncio.Queue()
        """Ends of processes to report; a JobError when the cluster is lost."""
        self._spark: Spark | None = None
        self._children: Children | None = None
        self._links: TaskLinks | None = None
        self._address = ("", 0)
        """Host and port at which tasks reach the launcher."""
        self._count = 0
        """Number of workers, and of tasks in a stage."""
        self._first_stage: asyncio.Task[None] | None = None
        self._stage: Stage | None = None
        """The present stage, which no task has left; None if there is none."""
        self._tasks: dict[int, TaskLink] = {}
        """The tasks of the present stage, by rank."""
        self._all_linked = asyncio.Event()
        """Set when all tasks of the present stage have connected."""
        self._stages = 0
        """Number of stages launched so far, which numbers the next one."""
        self._doomed: list[Stage] = []
        """Stages that have lost a task and may not have ended."""
        self._launching = asyncio.Lock()
        """Held while a stage is launched, because several workers may be replaced at once."""
        self._workers: dict[str, _Worker] = {}
        self._reports: set[asyncio.Task[None]] = set()
        """Running reports of lost stages."""
        self._stopping = False
        self._killed = asyncio.Event()
        """Set by ``kill``, which ends a running ``stop``."""

    # -- the protocol

    def check(self) -> None:
        """Raise ConfigurationError if the session cannot run the cluster."""
        spark, _ = self._open()
        check_spark(spark, self._config)
        if not is_loopback(self._config.cluster.host) and spark.session not in _warned:
            _warned.add(spark.session)
            if warning := unprotected(spark):
                self._on_output(LAUNCHER, warning)

    async def start_coordinator(
        self, on_news: Callable[[str], None], port: int | None = None
    ) -> None:
        """Start a coordinator beside this process; ``on_news`` gets the lines that it prints.

        The first stage starts at the same time, because its tasks need no coordinator.
        """
        _, children = self._open()
        if self._first_stage is None:
            within_s = self._config.spark.tasks_timeout_ms / 1000
            self._count = self._config.cluster.workers
            self._first_stage = asyncio.create_task(self._have_stage(within_s, is_first=True))
        await children.start_coordinator(on_news, port)

    async def start_workers(self, count: int, coordinator: str) -> Sequence[str]:
        """Start workers that join the coordinator at ``"host:port"``, in the tasks of a stage."""
        if self._first_stage is not None:
            await self._first_stage
        if self._stage is None or count != self._count:
            await self._end_stage()
            self._count = count
            await self._have_stage(self._config.spark.tasks_timeout_ms / 1000, is_first=True)
        return [self._start_worker(rank, 0, coordinator) for rank in range(count)]

    async def replace_worker(self, lost: str, coordinator: str) -> str:
        """Start a worker with a new name in the task of a lost one.

        If that task is lost, too, the worker starts in a task of a new stage.
        """
        worker = self._workers[lost]
        cluster = self._config.cluster
        if not await _happens(worker.ended, cluster.cause_grace_ms / 1000):
            worker.link.command("signal", signal=signal.SIGKILL)
            if not await _happens(worker.ended, cluster.stop_timeout_ms / 1000):
                worker.link.abort()
                await worker.ended.wait()
        del self._workers[lost]
        await self._have_stage(cluster.restart_slots_timeout_ms / 1000)
        return self._start_worker(worker.rank, worker.generation + 1, coordinator)

    def tell_coordinator(self, news: Mapping[str, Any]) -> None:
        """Write a line of JSON to the coordinator's standard input."""
        assert self._children is not None
        self._children.tell_coordinator(news)

    async def next_exit(self) -> Exit:
        """Wait for the next end of a process. Raises JobError if the session was stopped."""
        end = await self._exits.get()
        if isinstance(end, JobError):
            raise end
        return end

    async def stop(self) -> None:
        """Stop every process, and wait for the end of the stage; the session goes on."""
        # Ends that ``stop`` causes are not reported.
        self._stopping = True
        ending = [*self._reports, *([self._first_stage] if self._first_stage is not None else [])]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        stopping: list[Coroutine[Any, Any, None]] = [self._stop_workers()]
        if self._children is not None:
            stopping.append(self._children.stop())
        try:
            await asyncio.gather(*stopping)
        finally:
            if self._links is not None:
                await self._links.close()

    def kill(self) -> None:
        """Kill every process at once; a running ``stop`` returns then."""
        self._killed.set()
        if self._children is not None:
            self._children.kill()

    # -- the session

    def _open(self) -> tuple[Spark, Children]:
        """Return the session, and the children of a coordinator that executors can reach."""
        if self._spark is None or self._children is None:
            self._spark = Spark(session_of(self._config))
            host = bound_host(self._spark, self._config)
            # The master may be a server's address that contains a secret, and no process of the
            # cluster needs it.
            self._config = replace(
                self._config,
                cluster=replace(self._config.cluster, host=host),
                spark=replace(self._config.spark, master=SparkConfig().master),
            )
            self._children = Children(
                self._config, self._token, self._on_output, self._exits.put_nowait
            )
        return self._spark, self._children

    # -- stages

    async def _have_stage(self, within_s: float, *, is_first: bool = False) -> None:
        """Return when a stage exists, and all its tasks are linked."""
        async with self._launching:
            if self._stage is not None:
                return
            deadline = machine.monotonic() + within_s
            while True:
                try:
                    # With Connect, counting the slots takes a job, and ``check`` has just counted
                    # them.
                    if not is_first or not self._open()[0].is_connect:
                        await self._look_for_slots()
                    await self._launch(within_s, deadline)
                    return
                except _TooFewSlotsError as error:
                    self._raise_if_gone()
                    if machine.monotonic() >= deadline:
                        raise JobError(str(error)) from None
                except FlinknetError:
                    self._raise_if_gone()
                    if is_first or machine.monotonic() >= deadline:
                        raise
                await asyncio.sleep(self._config.spark.slots_look_ms / 1000)

    async def _look_for_slots(self) -> None:
        spark, _ = self._open()
        await self._end_doomed()
        self._raise_if_gone()
        slots = await asyncio.to_thread(spark.slots)
        if slots < self._count:
            raise _TooFewSlotsError(too_few_slots(spark, self._config, slots))

    async def _launch(self, within_s: float, deadline: float) -> None:
        spark, _ = self._open()
        if self._links is None:
            secret = hmac.digest(self._token.encode(), LINK_LABEL, "sha256")
            cluster = self._config.cluster
            self._links = TaskLinks(
                secret,
                self._linked,
                self._hear,
                self._lost,
                tls_of(cluster.tls),
                self._config.network.wire.tls_handshakes_per_second_max,
            )
            host, port = await self._links.listen(cluster.host, self._config.spark.tasks_port)
            self._address = host_of(cluster.advertised_host) or host, port
        if self._config.spark.ship == "always":
            await asyncio.to_thread(self._ship, spark)
        await self._launch_stage(spark, within_s, deadline)
        reason = self._misfit()
        if not reason:
            return
        shipped = self._shipped_name()
        if shipped or self._config.spark.ship == "never":
            raise ConfigurationError(await self._refusal(reason))
        for task in self._tasks.values():
            if other := misfit_of_shipped(task.facts["found"]):
                raise ConfigurationError(await self._refusal(f"{reason}, and {other}"))
        await self._end_stage()
        await asyncio.to_thread(self._ship, spark)
        await self._launch_stage(spark, within_s, deadline)
        if reason := self._misfit():
            raise ConfigurationError(await self._refusal(reason))

    async def _refusal(self, reason: str) -> str:
        await self._end_stage()
        return (
            f"Spark's executors cannot run workers: {reason}; install the same flinknet there, for "
            "the Python that PYSPARK_PYTHON names (pip install flinknet), or let it be shipped "
            '(spark.ship = "auto") from a program with the same Python and platform'
        )

    async def _launch_stage(self, spark: Spark, within_s: float, deadline: float) -> None:
        """Launch a stage and wait until all its tasks are linked."""
        self._stages += 1
        self._tasks.clear()
        self._all_linked.clear()
        here = is_loopback(self._config.cluster.host)
        assert self._links is not None
        task = make_task(
            {
                "stage": self._stages,
                "address": self._address,
                "secret": self._links.secret.hex(),
                "tls": _files_of(self._config.cluster.tls, self._address[0]),
                "shipped": self._shipped_name(),
                "home": HOME,
                "path": import_path(),
                # Executors on this machine share its file system, so workers get the program's
                # directory.
                "directory": os.getcwd() if here else "",  # noqa: PTH109
                "start": START,
                "flags": interpreter_flags(),
                "variables": process_variables(self._config, self._token),
                "libraries": LIBRARIES,
            }
        )
        tag = f"flinknet-{machine.unique_id()}"
        self._stage = stage = Stage(spark, self._stages, self._count, task, tag)
        linked = asyncio.ensure_future(self._all_linked.wait())
        ended = asyncio.ensure_future(stage.ended.wait())
        try:
            await asyncio.wait(
                (linked, ended),
                timeout=max(0.0, deadline - machine.monotonic()),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            linked.cancel()
            ended.cancel()
        if self._all_linked.is_set():
            return
        there = len(self._tasks)
        if not stage.ended.is_set():
            # Await its end later: this error must precede the timeout of the whole start.
            self._doom_stage()
            raise JobError(
                f"Spark ({spark.master()}) has started {there} of {self._count} tasks for workers "
                f"in {within_s:.0f} s: other jobs may have its slots, or its executors start "
                "slowly; free some, or raise spark.tasks_timeout_ms and cluster.start_timeout_ms"
            )
        await self._end_stage()
        cause = described(stage.error)
        text = f"Spark ({spark.master()}) could not start the workers' tasks: {cause}"
        if any(misfit in cause for misfit in _MISFITS_OF_PYTHON):
            raise ConfigurationError(text)
        raise JobError(text)

    async def _end_stage(self) -> None:
        """End the present stage, which has no workers."""
        self._doom_stage()
        await self._end_doomed()

    def _doom_stage(self) -> None:
        if self._stage is not None:
            self._doomed.append(self._stage)
        self._stage = None
        for task in self._tasks.values():
            task.command("end")

    async def _end_doomed(self) -> None:
        """Wait until doomed stages have ended, and let Spark kill those that do not end."""
        for stage in self._doomed:
            if not await _happens(stage.ended, _STAGE_END_S):
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.to_thread(stage.cancel), _STAGE_END_S)
                await _happens(stage.ended, _STAGE_END_S)
        self._doomed.clear()

    def _raise_if_gone(self) -> None:
        spark, _ = self._open()
        if spark.is_gone():
            error = JobError("the Spark session was stopped, and the cluster's workers with it")
            self._exits.put_nowait(error)
            raise error

    # -- what is shipped

    def _misfit(self) -> str:
        found = (misfit(task.facts["found"]) for task in self._tasks.values())
        return next((reason for reason in found if reason), "")

    def _shipped_name(self) -> str:
        assert self._spark is not None
        return _shipped.get(self._spark.session, "")

    def _ship(self, spark: Spark) -> None:
        if self._shipped_name():
            return
        base = Path(temporary_directory())
        remove_leftovers(_ARCHIVES, base)
        directory = LockedDirectory(_ARCHIVES, base)
        atexit.register(directory.close)  # executors that come later request it
        name = f"flinknet-{machine.unique_id()}"
        path = directory.path / "flinknet.zip"
        write_archive(path)
        spark.add_archive(str(path), name)
        _shipped[spark.session] = name

    # -- links

    def _linked(self, task: TaskLink) -> bool:
        # A task of an earlier stage may connect late.
        stage = self._stage
        if stage is None or task.stage != stage.number or not 0 <= task.rank < self._count:
            return False
        if task.rank in self._tasks:
            return False
        self._tasks[task.rank] = task
        if len(self._tasks) == self._count:
            self._all_linked.set()
        return True

    def _hear(self, task: TaskLink, news: Mapping[str, Any]) -> None:
        worker = self._workers.get(news["worker"])
        if worker is None or worker.link is not task:
            return
        match news["event"]:
            case "started":
                worker.pid = news["pid"]
            case "printed":
                _pass_on(worker.name, self._on_printed, news["line"])
            case "said":
                worker.last_line = news["line"]
                _pass_on(worker.name, self._on_output, worker.name, worker.last_line)
            case "exited":
                worker.status = news["status"]
                worker.ended.set()
                # Ends in a doomed stage are reported together, with the cause of the loss.
                if self._stage is not None and task.stage == self._stage.number:
                    self._report(worker, describe_exit(news["status"]))

    def _lost(self, task: TaskLink) -> None:
        """Handle the end of a task, which also ends its stage: Spark does not retry it."""
        stage = self._stage
        if stage is None or self._tasks.get(task.rank) is not task:
            self._end_workers(task)
            return
        self._stage = None
        self._doomed.append(stage)
        of_stage = [worker for worker in self._workers.values() if worker.link.stage == task.stage]
        running = [worker for worker in of_stage if not worker.ended.is_set()]
        # The lost task's worker is reported first, because its loss is the cause.
        running.sort(key=lambda worker: worker.link is not task)
        self._end_workers(task)
        for other in self._tasks.values():
            other.command("end")
        if not self._stopping:
            report = asyncio.ensure_future(self._report_loss(stage, task, running))
            self._reports.add(report)
            report.add_done_callback(self._reports.discard)

    def _end_workers(self, task: TaskLink) -> None:
        for worker in self._workers.values():
            if worker.link is task:
                worker.ended.set()

    async def _report_loss(self, stage: Stage, task: TaskLink, workers: Sequence[_Worker]) -> None:
        """Report the ends of all workers that ran in a stage, the lost task's first."""
        # Spark may know the cause. The coordinator waits for the cause of a loss, and half of that
        # time is for this.
        await _happens(stage.ended, self._config.cluster.cause_grace_ms / 2000)
        cause = f": {described(stage.error)}" if stage.error is not None else ""
        spark, _ = self._open()
        if await asyncio.to_thread(spark.is_gone):
            cause = ": the session was stopped"
        for worker in workers:
            if worker.link is task:
                self._report(worker, f"was lost with its task of Spark{cause}", is_known=False)
                continue
            # A reported worker may be replaced, so it must have ended.
            await _happens(worker.ended, self._config.cluster.stop_timeout_ms / 1000)
            how = f"was ended with its stage of Spark, which has lost task {task.rank}{cause}"
            self._report(worker, how, is_known=False)

    def _report(self, worker: _Worker, how: str, *, is_known: bool = True) -> None:
        if self._stopping:
            return
        status = worker.status if is_known else None
        own_status = status if status is not None and status >= 0 else None
        self._exits.put_nowait(Exit(worker.name, how, own_status, worker.place, worker.last_line))

    # -- workers

    def _start_worker(self, rank: int, generation: int, coordinator: str) -> str:
        cluster = self._config.cluster
        name = f"worker-{rank}.{generation}" if generation else f"worker-{rank}"
        task = self._tasks[rank]
        self._workers[name] = worker = _Worker(name, rank, generation, task)
        if task.lost.is_set():
            worker.ended.set()
            self._report(worker, "was lost with its task of Spark", is_known=False)
            return name
        arguments = [
            f"--coordinator={coordinator}",
            f"--worker-id={name}",
            f"--data-port={cluster.data_port and cluster.data_port + rank}",
            f"--metrics-port={cluster.metrics_port and cluster.metrics_port + rank}",
        ]
        variables = {
            options()["cluster.host"].variable: task.facts["address"],
            # The program's own address does not apply to the worker.
            options()["cluster.advertised_host"].variable: "",
        }
        task.command("start", worker=name, arguments=arguments, variables=variables)
        return name

    async def _stop_workers(self) -> None:
        workers = [one for one in self._workers.values() if not one.ended.is_set()]
        for worker in workers:
            worker.link.command("signal", signal=signal.SIGTERM)
        stopping = asyncio.ensure_future(_all(worker.ended for worker in workers))
        killed = asyncio.ensure_future(self._killed.wait())
        timeout_s = self._config.cluster.stop_timeout_ms / 1000
        try:
            await asyncio.wait(
                (stopping, killed), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopping.cancel()
            killed.cancel()
        for worker in workers:
            if not worker.ended.is_set():
                worker.link.command("signal", signal=signal.SIGKILL)
        await self._end_stage()


def _files_of(tls: TlsConfig, host: str) -> dict[str, object] | None:
    """Return the settings that a task needs for TLS; None without TLS."""
    if not tls.is_on:
        return None
    return {
        "certificate": str(Path(tls.certificate).absolute()),
        "private_key": str(Path(tls.private_key).absolute()),
        "authority": str(Path(tls.authority).absolute()),
        "pinned": sorted(tls.fingerprints),
        "name": tls.coordinator_name or host,
    }


def _pass_on(worker: str, on_line: Callable[..., None], *arguments: str) -> None:
    try:
        on_line(*arguments)
    except OSError:
        pass  # no reader is left, which must not affect the worker
    except Exception:
        log.exception("a line of %s could not be passed on", worker)


async def _happens(event: asyncio.Event, within_s: float) -> bool:
    """Wait for an event; return whether it has come in time."""
    if not event.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), within_s)
    return event.is_set()


async def _all(events: Any) -> None:
    for event in events:
        await event.wait()
