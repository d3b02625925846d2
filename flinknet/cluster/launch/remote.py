"""A job on a cluster that runs already, for programs without an event loop.

The cluster goes on when the program ends. The coordinator, which knows the free slots, refuses a
job that does not fit. Cluster options set by the program have no effect, because the cluster has
its own. Modules of the program's own directory are pickled by value.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from flinknet.checkpoint.location import absolute_location
from flinknet.cluster.control.client import CoordinatorClient, OnProgress
from flinknet.cluster.control.credentials import page_address
from flinknet.cluster.control.job_result import JobProgress, JobResult
from flinknet.cluster.control.submission import RestoreSettings, Submission
from flinknet.cluster.launch.interruption import (
    Interruption,
    check_no_loop_runs,
    run_interruptible,
)
from flinknet.cluster.launch.job_control import JobControl
from flinknet.cluster.launch.named_clusters import NamedCluster
from flinknet.cluster.launch.process_output import (
    LAUNCHER,
    OnOutput,
    OnPrinted,
    output_printer,
    print_printed,
)
from flinknet.cluster.launch.submitted_job import execute_job
from flinknet.errors import JobError, LocalProtocolError
from flinknet.graph.graph import JobGraph
from flinknet.graph.pickler import send_by_value
from flinknet.graph.program_modules import program_modules

__all__ = ["run_on_cluster"]

_LOOK_S = 1.0
"""Seconds between two checks whether a cluster of this machine still lives."""


def run_on_cluster(
    graph: JobGraph,
    cluster: NamedCluster,
    *,
    on_progress: OnProgress | None = None,
    on_output: OnOutput | None = None,
    on_printed: OnPrinted = print_printed,
    on_page: Callable[[str], None] | None = None,
    control: JobControl | None = None,
    from_checkpoint: str | None = None,
    allow_non_restored_state: bool = False,
    is_detached: bool = False,
    wait_for_slots_ms: float = 0.0,
) -> JobResult:
    """Run a job on a running cluster, and return its result; see ``run_job``.

    If there are too few slots, the job waits for ``wait_for_slots_ms``; with 0 it is refused. With
    ``is_detached``, the call returns when the job has been submitted, and the result has no
    records. Ctrl-C, SIGTERM and SIGHUP cancel the job, and leave the cluster as it is.
    """
    check_no_loop_runs()
    if on_output is None:
        on_output = output_printer(cluster.config.cluster)
    if graph.cluster_options:
        names = ", ".join(sorted(name for name, _ in graph.cluster_options))
        on_output(LAUNCHER, f"the running cluster keeps its own settings of {names}")
    restore = None
    if from_checkpoint is not None:
        restore = RestoreSettings(absolute_location(from_checkpoint), allow_non_restored_state)
    send_by_value(program_modules())
    submission = replace(
        Submission.of_graph(graph),
        restore=restore,
        wants_printed=not is_detached,
        wait_for_slots_ms=wait_for_slots_ms,
    )
    control = control or JobControl()

    def report(progress: JobProgress) -> None:
        control.progress = progress
        if on_progress is not None:
            on_progress(progress)

    async def execute(interruption: Interruption) -> JobResult:
        config = cluster.config.cluster
        client = CoordinatorClient(cluster.address, cluster.token, config)
        if on_page is not None:
            on_page(page_address(cluster.address, tls=config.tls.is_on))
        if is_detached:
            job_id = await client.submit(submission, control.job_id)
            return _submitted(await client.progress(job_id))
        control.attach(_Remote(client))
        show = interruption.begin_at_broken_pipe(on_printed)
        guard = partial(_unless_gone, cluster)
        return await execute_job(
            client, submission, control.job_id, config, report, guard, on_printed=show
        )

    return run_interruptible(execute, control)


async def _unless_gone(cluster: NamedCluster, call: Coroutine[Any, Any, Any]) -> Any:
    """Await a call, or raise JobError as soon as the cluster is known to be gone."""
    task = asyncio.ensure_future(call)
    try:
        while not task.done():
            await asyncio.wait((task,), timeout=_LOOK_S)
            if not task.done() and cluster.is_gone:
                raise JobError(
                    f"the cluster {cluster.name} has been stopped, or has died: `flinknet cluster "
                    f"status {cluster.name}` shows which"
                )
        return await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _Remote:
    """The calls that other threads may make to the cluster while it runs the job."""

    def __init__(self, client: CoordinatorClient) -> None:
        self._client = client

    async def savepoint(self, job_id: str, directory: str | None = None) -> str:
        place = None if directory is None else absolute_location(directory)
        return await self._client.savepoint(job_id, place)

    async def stop(self, job_id: str, directory: str | None = None, *, drain: bool = False) -> str:
        place = None if directory is None else absolute_location(directory)
        return await self._client.stop(job_id, place, drain=drain)


class _NothingCollected(dict[str, list[Any]]):
    """The collected records of a program that has not waited for its job."""

    def __missing__(self, sink: str) -> NoReturn:
        raise LocalProtocolError(
            "this program does not wait for the job (--detach), so it does not have the records of "
            f"its sink {sink!r}"
        )


def _submitted(progress: JobProgress) -> JobResult:
    return JobResult(
        job_id=progress.job_id,
        name=progress.name,
        state=progress.state,
        seconds=progress.seconds,
        workers=progress.workers,
        vertices=(),
        collected=_NothingCollected(),
    )
