"""One job from its submission to its result, on any cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from flinknet.cluster.control.client import CoordinatorClient, OnProgress
from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.control.submission import Submission
from flinknet.config import ClusterConfig
from flinknet.errors import FlinknetError, JobError

__all__ = ["Guard", "execute_job", "unguarded"]

Guard = Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]
"""Awaits a call of the client, or raises an error if waiting is useless."""


async def unguarded(call: Coroutine[Any, Any, Any]) -> Any:
    """Await a call without a guard, for a cluster with processes that are watched elsewhere."""
    return await call


async def execute_job(
    client: CoordinatorClient,
    submission: Submission,
    job_id: str | None,
    config: ClusterConfig,
    on_progress: OnProgress | None = None,
    guard: Guard = unguarded,
    on_printed: Callable[[str], None] | None = None,
) -> JobResult:
    """Submit a job, follow it to its end and return its result.

    ``on_printed`` gets the lines that its functions print, if the submission asks for them.

    Raises the error of a refused submission, or the JobError that the job ended with. Cancelling
    this call cancels the job. The call then returns when the job has ended, or after the time that
    subtasks and processes have to stop.
    """
    # A sent request may start the job even if this call is cancelled, so it is awaited.
    submitting = asyncio.ensure_future(guard(client.submit(submission, job_id)))
    interval_ms = max(1, round(config.progress_interval_ms))
    try:
        submitted = await asyncio.shield(submitting)
        following = client.follow(submitted, interval_ms=interval_ms, on_progress=on_progress)
        if on_printed is not None:
            following = _with_printed(client, submitted, following, on_printed)
        result: JobResult = await guard(following)
    except asyncio.CancelledError:
        await _cancel(client, submitting, config, guard)
        raise
    return result


async def _with_printed(
    client: CoordinatorClient,
    job_id: str,
    following: Coroutine[Any, Any, JobResult],
    on_printed: Callable[[str], None],
) -> JobResult:
    """Return or raise the job's outcome after all its printed lines have been passed on."""
    printing = asyncio.create_task(client.pass_printed_on(job_id, on_printed))
    try:
        try:
            result = await following
        except JobError:
            # The error should follow the lines that were printed before it.
            await asyncio.wait((printing,))
            raise
        await asyncio.wait((printing,))
    finally:
        printing.cancel()
        # A line that cannot be read any more is no failure of the job.
        await asyncio.gather(printing, return_exceptions=True)
    return result


async def _cancel(
    client: CoordinatorClient, submitting: asyncio.Future[str], config: ClusterConfig, guard: Guard
) -> None:
    patience_ms = config.cancel_timeout_ms + config.stop_timeout_ms
    try:
        async with asyncio.timeout(patience_ms / 1000):
            job_id = await submitting
            await client.cancel(job_id)
            await guard(client.until_ended(job_id))
    except (TimeoutError, FlinknetError):
        pass  # it was refused, or ends with its coordinator
