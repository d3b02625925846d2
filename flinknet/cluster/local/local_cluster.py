"""A cluster on this machine: starts a coordinator and workers, watches them, stops them.

Theory of operation
-------------------
``async with`` checks everything that can be checked (``preflight.py``), starts the coordinator,
which says where it listens, then all workers, and is entered once all have registered. Whatever
ends the block (success, an error, cancellation by Ctrl-C) stops every process: SIGTERM, after
``stop_timeout_ms`` SIGKILL, and waits for each, so that none is left behind. A second cancellation
kills at once. If this process is itself killed, ``parent.py`` ends the children. What user code has
started in a worker ends with the worker, in each of these cases (``process_group.py``).

The exit status of a process is known here and nowhere else. A worker's is told to the coordinator,
which makes it the cause of whatever that broke; the coordinator's ends the calls that wait for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import sysconfig
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from flinknet.cluster.control.client import CoordinatorClient, OnProgress
from flinknet.cluster.control.control_link import EXIT_COORDINATOR_LOST
from flinknet.cluster.control.credentials import TOKEN_VARIABLE, new_token
from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.local.child_process import ChildProcess, describe_exit
from flinknet.cluster.local.preflight import check_cluster, check_job
from flinknet.config import FlinknetConfig
from flinknet.config.loading import VARIABLE_PREFIX, options
from flinknet.errors import JobError, LocalProtocolError, RemoteTransportError, WorkerLostError
from flinknet.interpreter import COMPILES_PYTHON
from flinknet.task.graph import JobGraph
from flinknet.texts import printable

__all__ = ["COORDINATOR", "LAUNCHER", "LocalCluster", "OnOutput", "print_output"]

OnOutput = Callable[[str, str], None]
"""(process name, one line that it wrote)"""

COORDINATOR = "coordinator"
"""The coordinator's process name; workers are called worker-0, worker-1, and so on."""

LAUNCHER = "launcher"
"""This process's name, where it has something to say about a run."""

T = TypeVar("T")

_MEANINGS = {
    0: ", because it was told to stop",
    EXIT_COORDINATOR_LOST: ", because its connection to the coordinator was lost",
}
"""What a worker says with its status."""

_PYPY_NURSERY = "PYPY_GC_NURSERY"
"""Where PyPy looks, before anything of flinknet runs, for how large its nursery is."""


def print_output(process: str, line: str) -> None:
    """Show what workers print, and nothing of the coordinator: the default of ``LocalCluster``."""
    if process != COORDINATOR:
        print(printable(f"{process} | {line}"), file=sys.stderr, flush=True)


class LocalCluster:
    """Coordinator and workers as child processes of this one.

    Entering raises ConfigurationError before anything is started, or WorkerLostError or JobError if
    a process does not come up within ``start_timeout_ms``.
    """

    def __init__(
        self, config: FlinknetConfig | None = None, *, on_output: OnOutput = print_output
    ) -> None:
        self._config = config or FlinknetConfig()
        self._on_output = on_output
        self._token = new_token()
        self._children: dict[str, ChildProcess] = {}
        self._watchers: list[asyncio.Task[None]] = []
        self._address = ""
        self._listening = asyncio.Event()
        self._ready = asyncio.Event()
        self._broken: asyncio.Future[JobError]
        self._session = AsyncExitStack()
        self._client: CoordinatorClient | None = None

    async def __aenter__(self) -> Self:
        check_cluster(self._config)
        self._broken = asyncio.get_running_loop().create_future()
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    @property
    def address(self) -> str:
        """``"host:port"`` of the control plane."""
        return self._address

    @property
    def token(self) -> str:
        """The secret of the control plane; keep it out of logs."""
        return self._token

    def pids(self) -> dict[str, int]:
        """The process id of the coordinator and of each worker, by name."""
        return {name: child.pid for name, child in self._children.items()}

    async def execute(
        self, job: JobGraph | Submission, on_progress: OnProgress | None = None
    ) -> JobResult:
        """Run a job to its end and return its result.

        Raises ConfigurationError if it does not fit, and else the JobError that it ended with: the
        first cause. Cancelling this call cancels the job.
        """
        if self._client is None:
            raise LocalProtocolError("the cluster is not running: use it inside `async with`")
        submission = job if isinstance(job, Submission) else Submission.of_graph(job)
        check_job(submission.shape, self._config)
        job_id = await self._unless_broken(self._client.submit(submission))
        interval_ms = max(1, round(self._config.cluster.progress_interval_ms))
        try:
            return await self._unless_broken(
                self._client.follow(job_id, interval_ms=interval_ms, on_progress=on_progress)
            )
        except asyncio.CancelledError:
            await self._cancel(job_id)
            raise

    async def _cancel(self, job_id: str) -> None:
        assert self._client is not None
        try:
            async with asyncio.timeout(self._config.cluster.stop_timeout_ms / 1000):
                await self._client.cancel(job_id)
        except (TimeoutError, RemoteTransportError):
            pass  # It goes with its coordinator.

    async def _unless_broken(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for ``work``, or raise what broke the cluster if that comes first.

        A connection to the coordinator can be lost before its end is known: then that is waited
        for, as it is the better explanation. Without it the cluster is broken all the same: a
        coordinator that hangs answers no later call.
        """
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if task.done() and isinstance(task.exception(), RemoteTransportError):
                grace_s = self._config.cluster.cause_grace_ms / 1000
                await asyncio.wait((self._broken,), timeout=grace_s)
                self._break(JobError(f"the cluster is lost: {task.exception()}"))
            if not self._broken.done():
                return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        raise self._broken.result()

    # -- starting

    async def _start(self) -> None:
        cluster = self._config.cluster
        try:
            async with asyncio.timeout(cluster.start_timeout_ms / 1000):
                await self._launch(COORDINATOR, "flinknet.cluster.coordinator", on_event=self._hear)
                await self._unless_broken(self._listening.wait())
                for number in range(cluster.workers):
                    await self._launch(
                        f"worker-{number}",
                        "flinknet.cluster.worker",
                        f"--coordinator={self.address}",
                        f"--worker-id=worker-{number}",
                        f"--data-port={cluster.data_port and cluster.data_port + number}",
                    )
                await self._unless_broken(self._ready.wait())
        except TimeoutError:
            raise JobError(
                f"the cluster did not start within {cluster.start_timeout_ms:.0f} ms: raise "
                f"cluster.start_timeout_ms if the machine is slow"
            ) from None
        self._client = await self._session.enter_async_context(
            CoordinatorClient(self.address, self._token, cluster)
        )

    async def _launch(
        self, name: str, module: str, *arguments: str, on_event: Callable[[str], None] | None = None
    ) -> None:
        child = await ChildProcess.start(
            name,
            (sys.executable, "-m", module, "--watch-parent", *arguments),
            environment=self._environment(),
            on_output=lambda line: self._on_output(name, line),
            on_event=on_event,
        )
        self._children[name] = child
        if name != COORDINATOR:
            started = {"event": "worker_started", "worker_id": name, "pid": child.pid}
            self._children[COORDINATOR].tell(started)
        self._watchers.append(asyncio.create_task(self._watch(child)))

    def _environment(self) -> dict[str, str]:
        """This process's environment, with the token, the configuration and the import path."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(VARIABLE_PREFIX)
        }
        configured = {
            option.variable: option.render(attrgetter(name)(self._config))
            for name, option in options().items()
        }
        nursery = {_PYPY_NURSERY: str(self._config.cluster.pypy_nursery_bytes)}
        return {
            **(nursery if COMPILES_PYTHON else {}),
            **inherited,
            **configured,
            TOKEN_VARIABLE: self._token,
            "PYTHONPATH": os.pathsep.join(_import_path()),
            "PYTHONUNBUFFERED": "1",
        }

    def _hear(self, line: str) -> None:
        """An event of the coordinator."""
        news = json.loads(line)
        if news["event"] == "listening":
            self._address = news["address"]
            self._listening.set()
        elif news["event"] == "ready":
            self._ready.set()

    # -- watching

    async def _watch(self, child: ChildProcess) -> None:
        status = await child.wait()
        how = describe_exit(status)
        if child.name == COORDINATOR:
            await child.drain()
            self._break(JobError(f"the coordinator (pid {child.pid}) {how}{_last_words(child)}"))
        elif self._ready.is_set():
            how += _MEANINGS.get(status, "")
            self._children[COORDINATOR].tell(
                {"event": "worker_exited", "worker_id": child.name, "how": how}
            )
        else:
            await child.drain()
            self._break(
                WorkerLostError(
                    f"worker {child.name} (pid {child.pid}) {how} before the cluster was "
                    f"ready{_last_words(child)}"
                )
            )

    def _break(self, error: JobError) -> None:
        if not self._broken.done():
            self._broken.set_result(error)

    # -- stopping

    async def _stop(self) -> None:
        """Stop every process; also when this call is cancelled, which makes it impatient."""
        stopping = asyncio.create_task(self._stop_children())
        cancelled = False
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError:
                cancelled = True
                for child in self._children.values():
                    child.kill()
        if cancelled:
            raise asyncio.CancelledError

    async def _stop_children(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        self._client = None
        await self._session.aclose()
        timeout_s = self._config.cluster.stop_timeout_ms / 1000
        await asyncio.gather(*(child.stop(timeout_s) for child in self._children.values()))
        await asyncio.gather(*self._watchers, return_exceptions=True)


def _last_words(child: ChildProcess) -> str:
    """The end of a message about a child that ended: all its output has been shown already."""
    return f"; its last line was: {child.last_line}" if child.last_line else ""


def _import_path() -> list[str]:
    """Where this program finds its own modules; the interpreter's own places are every child's."""
    standard = sysconfig.get_path("stdlib")
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return [
        path
        for path in sys.path
        if path and path not in installed and not path.startswith(standard) and Path(path).is_dir()
    ]
