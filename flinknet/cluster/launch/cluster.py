"""A program's own cluster: a launcher that starts its processes, a watcher, and a client.

Theory of operation
-------------------
On entry, the launcher makes all checks that it can and starts the coordinator, which reports its
address. Then it starts all workers. The block begins when all of them have registered. At the end
of the block (success, an error, cancellation by Ctrl-C), every process is stopped and awaited, so
that none is left behind. A second cancellation kills them at once.

A lost worker is replaced when a job that restarts needs it; the coordinator sends the request.
Until then, and for good if no job needs it, the cluster goes on without it.

A coordinator that dies is replaced at the same port, with the jobs that it had. Workers and client
join the new one. After ``coordinator_restarts`` replacements within
``coordinator_restarts_interval_ms``, its end is the end of the cluster.

The cluster and the watcher know the launcher only by its protocol (``protocol.py``). Launchers and
``control/client.py`` do not know each other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn, Self

from flinknet import machine
from flinknet.checkpoint.location import absolute_location
from flinknet.cluster.control.client import CoordinatorClient, OnProgress
from flinknet.cluster.control.credentials import given_token, page_address, token_is_given
from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.control.submission import RestoreSettings, Submission
from flinknet.cluster.launch.job_fit import check_job
from flinknet.cluster.launch.process_output import (
    LAUNCHER,
    OnOutput,
    OnPrinted,
    output_printer,
    print_printed,
)
from flinknet.cluster.launch.protocol import Launcher, MakeLauncher
from flinknet.cluster.launch.submitted_job import execute_job
from flinknet.cluster.launch.watcher import Watcher
from flinknet.config import FlinknetConfig
from flinknet.errors import JobError, LocalProtocolError
from flinknet.graph.graph import JobGraph
from flinknet.texts import text_of

__all__ = ["Cluster", "finish_stopping"]


class Cluster:
    """Coordinator and workers that a launcher starts for this program.

    Entering raises ConfigurationError before anything is started, and WorkerLostError or JobError
    if a process does not come up within ``start_timeout_ms``.
    """

    def __init__(
        self,
        config: FlinknetConfig,
        make_launcher: MakeLauncher,
        *,
        on_output: OnOutput | None = None,
        on_printed: OnPrinted = print_printed,
    ) -> None:
        """Initialize a cluster without starting it.

        ``on_output`` gets each line of the processes' standard error, and ``on_printed`` each line
        that user code prints in workers. By default, both are written to this program's own
        streams.
        """
        self._config = config
        if on_output is None:
            on_output = output_printer(self._config.cluster)
        token_file = config.cluster.token_file
        self._shows_token = not token_is_given(token_file)
        """Whether ``page`` contains the token, which was generated for this cluster."""
        self._token = given_token(token_file)
        self._address = ""
        """``"host:port"`` of the control plane; empty before the start."""
        self._on_output = on_output
        self._launcher: Launcher = make_launcher(config, self._token, on_output, on_printed)
        self._watcher: Watcher
        self._client: CoordinatorClient | None = None
        self._resources = AsyncExitStack()
        """Everything to close at the end, in reverse order of its start."""
        self._replacements: set[asyncio.Task[None]] = set()
        """Running starts of replacements."""
        self._stopping = False
        """Whether the cluster stops, so that no lost worker is replaced any more."""
        self._coordinator_restarts: deque[float] = deque()
        """The times of the replacements within ``coordinator_restarts_interval_ms``."""

    async def __aenter__(self) -> Self:
        self._launcher.check()
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
        """The secret of the control plane; keep it out of logs.

        FLINKNET_CLUSTER_TOKEN may set it.
        """
        return self._token

    @property
    def page(self) -> str:
        """The address of the web page, for the user of this cluster.

        It contains the token if that was generated for this cluster, because it expires with the
        cluster. A token from the environment is left out, and the page asks for it.
        """
        token = self._token if self._shows_token else None
        return page_address(self._address, token, tls=self._config.cluster.tls.is_on)

    async def execute(
        self,
        job: JobGraph | Submission,
        on_progress: OnProgress | None = None,
        *,
        job_id: str | None = None,
        from_checkpoint: str | None = None,
        allow_non_restored_state: bool = False,
    ) -> JobResult:
        """Run a job to its end and return its result.

        ``job_id`` has 32 hexadecimal digits; it is generated by default.

        ``from_checkpoint`` is the directory, or URL, of a checkpoint or savepoint to continue from.
        Raises CheckpointError if that is impossible, for example because it has state of operators
        that the job does not have, unless ``allow_non_restored_state``.

        Raises ConfigurationError if the job does not fit, or the JobError of its first cause of
        failure. Cancelling this call cancels the job. The call then returns when the job has ended,
        so that its checkpoints are final, or after the time that subtasks and processes have to
        stop.
        """
        client = self._running()
        submission = job if isinstance(job, Submission) else Submission.of_graph(job)
        if from_checkpoint is not None:
            restore = RestoreSettings(absolute_location(from_checkpoint), allow_non_restored_state)
            submission = replace(submission, restore=restore)
        check_job(submission.shape, self._config)
        return await execute_job(
            client,
            submission,
            job_id,
            self._config.cluster,
            on_progress,
            self._watcher.unless_broken,
        )

    async def until_broken(self) -> NoReturn:
        """Wait until the cluster is broken, and raise the cause."""
        await self._watcher.unless_broken(asyncio.Event().wait())
        raise AssertionError("nothing sets this event")

    async def savepoint(self, job_id: str, directory: str | None = None) -> str:
        """Write a savepoint of a running job and return its location.

        See ``CoordinatorClient.savepoint``. A relative ``directory`` refers to this process.
        """
        place = None if directory is None else absolute_location(directory)
        return await self._watcher.unless_broken(self._running().savepoint(job_id, place))

    async def stop(self, job_id: str, directory: str | None = None, *, drain: bool = False) -> str:
        """End a running job with a savepoint and return its location.

        See ``CoordinatorClient.stop``. A relative ``directory`` refers to this process.
        """
        place = None if directory is None else absolute_location(directory)
        return await self._watcher.unless_broken(self._running().stop(job_id, place, drain=drain))

    def _running(self) -> CoordinatorClient:
        if self._client is None:
            raise LocalProtocolError("the cluster is not running: use it inside `async with`")
        return self._client

    async def _start(self) -> None:
        cluster = self._config.cluster
        # The launcher is stopped last: the watcher must not see the exits that this causes.
        self._resources.push_async_callback(self._launcher.stop)
        self._watcher = Watcher(
            self._launcher,
            cause_grace_s=cluster.cause_grace_ms / 1000,
            on_worker_wanted=self._replace_worker,
            on_coordinator_died=self._replace_coordinator,
        )
        self._resources.push_async_callback(self._watcher.close)
        self._resources.push_async_callback(self._finish_replacements)
        try:
            async with asyncio.timeout(cluster.start_timeout_ms / 1000):
                await self._start_processes()
        except TimeoutError:
            raise JobError(
                f"the cluster did not start within {cluster.start_timeout_ms:.0f} ms: raise "
                f"cluster.start_timeout_ms if the machine is slow"
            ) from None
        self._client = CoordinatorClient(self._address, self._token, cluster, is_there=True)

    async def _start_processes(self) -> None:
        await self._launcher.start_coordinator(self._watcher.hear)
        self._address = await self._watcher.address()
        count = self._config.cluster.workers
        await self._watcher.unless_broken(self._launcher.start_workers(count, self._address))
        await self._watcher.ready()

    def _replace_worker(self, lost: str) -> None:
        if self._stopping:
            return
        self._replace(self._start_replacement(lost))

    def _replace_coordinator(self, how: str) -> bool:
        """Replace a dead coordinator; return False if its restarts are used up."""
        config, now, restarts = (
            self._config.cluster,
            machine.monotonic(),
            self._coordinator_restarts,
        )
        limit, interval_s = (
            config.coordinator_restarts,
            config.coordinator_restarts_interval_ms / 1000,
        )
        # Restarts count within an interval only, so that a cluster may run for any length of time.
        while restarts and restarts[0] <= now - interval_s:
            restarts.popleft()
        if len(restarts) >= limit:
            return False
        restarts.append(now)
        self._replace(self._start_coordinator_again())
        self._on_output(
            LAUNCHER,
            f"{how}: another one takes its place (restart {len(restarts)} of {limit} "
            f"within {interval_s:g} s, cluster.coordinator_restarts)",
        )
        return True

    def _replace(self, start: Coroutine[Any, Any, None]) -> None:
        replacement = asyncio.create_task(start)
        self._replacements.add(replacement)
        replacement.add_done_callback(self._replacements.discard)

    async def _start_coordinator_again(self) -> None:
        # Workers and client know this port, so the replacement must listen on it.
        port = int(self._address.rpartition(":")[2])
        try:
            await self._launcher.start_coordinator(self._watcher.hear, port)
        except Exception as error:  # an error of a launcher's code
            cause = text_of(error)
            self._watcher.give_up(JobError(f"no other coordinator could be started: {cause}"))
            return
        self._watcher.coordinator_replaced()

    async def _start_replacement(self, lost: str) -> None:
        try:
            await self._launcher.replace_worker(lost, self._address)
        except Exception as error:  # an error of a launcher's code
            cause = text_of(error)
            self._on_output(LAUNCHER, f"no worker could be started in place of {lost}: {cause}")

    async def _finish_replacements(self) -> None:
        """Cancel pending replacements; their processes are stopped with the others."""
        self._stopping = True
        for replacement in self._replacements:
            replacement.cancel()
        await asyncio.gather(*self._replacements, return_exceptions=True)

    async def _stop(self) -> None:
        """Stop every process and wait for its end; cancelling this call kills them at once."""
        self._client = None
        await finish_stopping(self._resources.aclose(), self._launcher.kill)


async def finish_stopping(stopping: Coroutine[None, None, None], kill: Callable[[], None]) -> None:
    """Await ``stopping`` to its end, even if this call is cancelled.

    Cancelling the call runs ``kill`` to speed up the end. The cancellation continues afterwards.
    """
    task = asyncio.ensure_future(stopping)
    cancelled = False
    while not task.done():
        # The shield keeps a cancellation from interrupting the end of the processes.
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
            kill()
    if cancelled:
        raise asyncio.CancelledError
