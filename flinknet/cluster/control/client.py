"""A client of the coordinator: submits a job graph and follows the job to its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgpack

from flinknet import machine
from flinknet.cluster.control.job_result import JobProgress, JobResult
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.printed_lines import missed
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import merge_by_sink
from flinknet.cluster.control.transport import unanswered
from flinknet.config import ClusterConfig
from flinknet.errors import (
    CheckpointCorruptedError,
    CheckpointError,
    CheckpointNotFoundError,
    CheckpointStorageError,
    ConfigurationError,
    FlinknetError,
    InsufficientSlotsError,
    JobCancelledError,
    JobError,
    RemoteTransportError,
    StateError,
)
from flinknet.metrics.plain import from_plain
from flinknet.metrics.worker_statistics import SubtaskTotals, WorkerStatistics
from flinknet.net.backoff import CONTROL_PAUSE_S, Backoff
from flinknet.net.http_calls import Answer, CallError, HttpCalls
from flinknet.net.stall_tolerant_timer import stall_tolerant_timeout
from flinknet.net.tls import tls_of

__all__ = ["CoordinatorClient", "OnProgress"]

OnProgress = Callable[[JobProgress], None]

_POLL_MS = 10_000
"""Longest wait of one request for a savepoint or a job's end; another request follows."""

_READING_MS = 600_000
"""Time for which the coordinator may read the checkpoint from which a job continues."""

_REFUSALS: dict[str, type[FlinknetError]] = {
    refusal.__name__: refusal
    for refusal in (
        ConfigurationError,
        InsufficientSlotsError,
        CheckpointError,
        CheckpointCorruptedError,
        CheckpointNotFoundError,
        CheckpointStorageError,
        StateError,
    )
}


class CoordinatorClient:
    """Calls of the coordinator's REST API over HTTP, each on its own connection.

    Every method raises RemoteTransportError if the coordinator cannot be reached, or does not
    answer within ``coordinator_timeout_ms`` plus the time for which the call itself may wait. A
    coordinator that has answered before may have been lost and be started again, so requests are
    repeated for ``coordinator_return_ms``. A request that must not be repeated is not, if the
    coordinator may have received it.
    """

    def __init__(
        self, coordinator: str, token: str, config: ClusterConfig, *, is_there: bool = False
    ) -> None:
        """Create a client of the coordinator at ``"host:port"``.

        ``is_there`` means that this coordinator is known to have run, so that the first request is
        repeated as well.
        """
        self._coordinator = coordinator
        self._timeout_ms = config.coordinator_timeout_ms
        self._slots_wait_ms = config.cause_grace_ms + config.cancel_timeout_ms
        """Time for which the coordinator may wait for slots of jobs that are ending."""
        self._return_s = config.coordinator_return_ms / 1000
        self._has_answered = is_there
        tls = config.tls
        self._http = HttpCalls(coordinator, token, tls_of(tls), tls.coordinator_name)

    async def submit(self, submission: Submission, job_id: str | None = None) -> str:
        """Start a job and return its id, which is generated if it is not given.

        Raises InsufficientSlotsError if the job does not fit, and CheckpointError if it cannot
        continue from its checkpoint.
        """
        wait_ms = self._slots_wait_ms + (0 if submission.restore is None else _READING_MS)
        # The client chooses the id, so that a repeated request does not start a second job.
        path = f"/api/v1/jobs?job_id={job_id or machine.unique_id()}"
        answer = await self._request("POST", path, submission.to_bytes(), wait_ms=wait_ms)
        return str(answer["job_id"])

    async def progress(self, job_id: str, *, wait_ms: int = 0) -> JobProgress:
        """Return the status of the job, when it has ended or after ``wait_ms``."""
        answer = await self._request(
            "GET", f"/api/v1/jobs/{job_id}?wait_ms={wait_ms}", wait_ms=wait_ms
        )
        return JobProgress.from_dict(answer)

    async def statistics(
        self, worker_id: str, *, fresh: bool = False, channels_max: int = 0
    ) -> WorkerStatistics:
        """Return the statistics of a worker, as last reported.

        With ``fresh``, or if ``channels_max`` channels are wanted, the worker is queried. The
        channels with the most waiting data come first. Raises JobError if the worker is not there,
        has not reported or does not answer.
        """
        path = f"/api/v1/workers/{quote(worker_id, safe='')}/statistics"
        answer = await self._request("GET", f"{path}?fresh={int(fresh)}&channels={channels_max}")
        return from_plain(WorkerStatistics, answer)

    async def job_statistics(self, job_id: str) -> dict[str, tuple[SubtaskTotals, ...]]:
        """Return the statistics of a job's subtasks, by worker id, as last reported."""
        answer = await self._request("GET", f"/api/v1/jobs/{job_id}/statistics")
        return {
            worker_id: tuple(from_plain(SubtaskTotals, one) for one in subtasks)
            for worker_id, subtasks in answer.items()
        }

    async def read(self, path: str) -> Any:
        """Return the JSON under a path of the REST API, such as ``/v1/jobs/overview``.

        Raises JobError if there is no such path, and ConfigurationError for invalid parameters.
        """
        return await self._request("GET", path)

    async def find_job(self, job: str) -> str:
        """Return the id of a job, by its id or its name.

        A name means the running job of that name, or, if none runs, the last submitted one that the
        coordinator remembers. Raises ConfigurationError if no job has that id or name, or if
        several running jobs have that name.
        """
        jobs = (await self._request("GET", "/api/v1/jobs"))["jobs"]
        if any(one["job_id"] == job for one in jobs):
            return job
        living = [one for one in jobs if not JobState(one["state"]).is_terminal]
        named = [one["job_id"] for one in living if one["name"] == job]
        if len(named) == 1:
            return str(named[0])
        if named:
            raise ConfigurationError(
                f'{len(named)} running jobs have the name "{job}": give one of their ids: '
                f"{', '.join(named)}"
            )
        # An ended job has the same answers by its name as by its id.
        ended = [one["job_id"] for one in jobs if one["name"] == job]
        if ended:
            return str(ended[-1])
        others = ", ".join(f'"{one["name"]}" ({one["job_id"]})' for one in living) or "none"
        raise ConfigurationError(f'{self._coordinator} has no job "{job}"; running jobs: {others}')

    async def pass_printed_on(self, job_id: str, on_printed: Callable[[str], None]) -> None:
        """Forward all lines that functions of a job print, until the job has ended.

        The submission of the job must ask for printed lines.
        """
        number, has_ended = 0, False
        while True:
            wait_ms = 0 if has_ended else _POLL_MS
            path = f"/api/v1/jobs/{job_id}/printed?after={number}&wait_ms={wait_ms}"
            answer = await self._request("GET", path, wait_ms=wait_ms)
            if answer["start"] > number:
                on_printed(missed(answer["start"] - number))
            for line in answer["lines"]:
                on_printed(line)
            number = answer["start"] + len(answer["lines"])
            if not answer["lines"]:
                if has_ended:
                    return
                has_ended = JobState((await self.progress(job_id)).state).is_terminal

    async def savepoint(self, job_id: str, directory: str | None = None) -> str:
        """Write a savepoint of a running job, and return its location.

        ``directory`` is a URL, or a path as the coordinator and the workers know it; None for the
        directory of the job's checkpoints. Raises ConfigurationError if there is no such place,
        JobError unless all subtasks run, and CheckpointError if the savepoint fails. The job goes
        on in any case.
        """
        body = {"target-directory": directory}
        return await self._await_savepoint(job_id, f"/v1/jobs/{job_id}/savepoints", body)

    async def stop(self, job_id: str, directory: str | None = None, *, drain: bool = False) -> str:
        """Stop a running job with a savepoint, and return the savepoint's location.

        The job is then FINISHED. With ``drain`` the job ends as if its input had ended: windows
        fire, timers run out, and held-back records are emitted before the savepoint. Without it
        none of that happens, so that another job can continue from the savepoint. Raises the errors
        of ``savepoint``. If the savepoint fails the job goes on, or, with ``drain``, is restarted
        as after any failure.
        """
        body = {"targetDirectory": directory, "drain": drain}
        return await self._await_savepoint(job_id, f"/v1/jobs/{job_id}/stop", body)

    async def _await_savepoint(self, job_id: str, path: str, body: dict[str, Any]) -> str:
        # The client chooses the id, so that a repeated request is recognised, also by a coordinator
        # that replaces a lost one.
        body = {**body, "triggerId": machine.unique_id()}
        answer = await self._request("POST", path, json.dumps(body).encode())
        status = f"/v1/jobs/{job_id}/savepoints/{answer['request-id']}?wait_ms={_POLL_MS}"
        while True:
            answer = await self._request("GET", status, wait_ms=_POLL_MS)
            if answer["status"]["id"] == "COMPLETED":
                break
        operation = answer["operation"]
        if "failure-cause" in operation:
            raise CheckpointError(
                f"the savepoint failed: {operation['failure-cause']['stack-trace']}"
            )
        return str(operation["location"])

    async def cancel(self, job_id: str) -> None:
        """Request the cancellation of a job."""
        await self._request("POST", f"/api/v1/jobs/{job_id}/cancel")

    async def until_ended(
        self, job_id: str, *, interval_ms: int = _POLL_MS, on_progress: OnProgress | None = None
    ) -> JobProgress:
        """Wait for the end of a job, successful or not, and return its last status.

        ``on_progress`` is called at each interval and at the end.
        """
        while True:
            progress = await self.progress(job_id, wait_ms=interval_ms)
            if on_progress is not None:
                on_progress(progress)
            if JobState(progress.state).is_terminal:
                return progress

    async def follow(
        self, job_id: str, *, interval_ms: int, on_progress: OnProgress | None = None
    ) -> JobResult:
        """Wait for the end of a job, as ``until_ended`` does, and return its result.

        Raises the JobError with which it ended. Cancelling this call does not cancel the job.
        """
        progress = await self.until_ended(job_id, interval_ms=interval_ms, on_progress=on_progress)
        if progress.state == JobState.CANCELED.value:
            raise JobCancelledError(f'job "{progress.name}" was cancelled{_not_let_go(progress)}')
        if progress.cause is not None:
            raise progress.cause.to_error(progress.name, _not_let_go(progress))
        return await self._take_result(progress)

    async def _take_result(self, progress: JobProgress) -> JobResult:
        path = f"/api/v1/jobs/{progress.job_id}/result"
        rows = await self._request("GET", path)
        # The result is here. The request only frees memory of the coordinator.
        with suppress(RemoteTransportError):
            await self._request("DELETE", path, once=True)
        collected = merge_by_sink([row.pop("collected") for row in rows])
        return JobResult(
            job_id=progress.job_id,
            name=progress.name,
            state=progress.state,
            seconds=progress.seconds,
            workers=progress.workers,
            vertices=tuple(rows),
            collected=collected,
        )

    async def _request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        wait_ms: float = 0,
        once: bool = False,
    ) -> Any:
        loop = asyncio.get_running_loop()
        backoff, lost_at = Backoff(*CONTROL_PAUSE_S), None
        while True:
            try:
                answer = await self._ask(method, path, body, wait_ms)
            except CallError as error:
                lost_at = loop.time() if lost_at is None else lost_at
                is_over = loop.time() - lost_at >= self._return_s
                # A coordinator that has never answered may not exist: fail at once.
                if not self._has_answered or (error.is_heard and once) or is_over:
                    raise RemoteTransportError(
                        f"the coordinator at {self._coordinator} cannot be reached: {error}"
                    ) from error
                await asyncio.sleep(backoff.next_pause())
            else:
                return answer

    async def _ask(self, method: str, path: str, body: bytes | None, wait_ms: float) -> Any:
        try:
            async with stall_tolerant_timeout((self._timeout_ms + wait_ms) / 1000):
                answer = await self._http.call(method, path, body)
        except TimeoutError as error:
            raise RemoteTransportError(
                unanswered(self._coordinator, self._timeout_ms + wait_ms)
            ) from error
        try:
            content = _content(answer)
            refusal = _refusal(answer.status, content) if answer.status >= 400 else None
        except (ValueError, LookupError, TypeError) as error:
            kind = answer.content_type or "of no type"
            reason = f"the server there ({answer.status}, {kind}) is not a coordinator"
            raise CallError(reason, is_heard=True) from error
        self._has_answered = True
        if refusal is not None:
            raise refusal
        return content


def _content(answer: Answer) -> Any:
    if answer.content_type == "application/msgpack":
        return msgpack.unpackb(answer.content)
    return json.loads(answer.content)


def _not_let_go(progress: JobProgress) -> str:
    """Return the text about workers that an ended job still occupies."""
    if not progress.holders:
        return ""
    return (
        f"; {', '.join(progress.holders)} did not release it within cluster.cancel_timeout_ms, "
        "because a function does not return: its slots stay taken until the function returns"
    )


def _refusal(status: int, body: dict[str, Any]) -> FlinknetError:
    """Return the error for a refusing answer, which may be in Flink's format.

    401 is a wrong token, 403 the token of a lower role.
    """
    if "errors" in body:
        kind = ConfigurationError if status in (400, 401, 403) else JobError
        return kind("; ".join(body["errors"]))
    if status in (401, 403):
        return ConfigurationError(body["error"]["message"])
    return _REFUSALS.get(body["error"]["type"], JobError)(body["error"]["message"])
