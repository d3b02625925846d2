"""A client of the coordinator: submits a job graph and follows the job to its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
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
from flinknet.net.patience import patient_timeout
from flinknet.net.tls import tls_of

__all__ = ["CoordinatorClient", "OnProgress"]

OnProgress = Callable[[JobProgress], None]

_POLL_MS = 10_000
"""For which one request waits for a savepoint, or for a job's end; the next one follows it."""

_READING_MS = 600_000
"""For which the coordinator may read the checkpoint that a job continues from."""

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
    """Calls of the coordinator's REST over HTTP; use with ``async with``.

    Every method raises RemoteTransportError if the coordinator cannot be reached, or has not
    answered within ``coordinator_timeout_ms`` and what the call itself may wait for. One that has
    answered before may have been lost, and be started anew: it is asked again for
    ``coordinator_return_ms``, unless it may have heard what must not be said twice.
    """

    def __init__(
        self, coordinator: str, token: str, config: ClusterConfig, *, is_there: bool = False
    ) -> None:
        """``coordinator`` is ``"host:port"``; the caller may know that it ``is_there``, or was."""
        self._coordinator = coordinator
        self._timeout_ms = config.coordinator_timeout_ms
        self._slots_wait_ms = config.cause_grace_ms + config.cancel_timeout_ms
        """For which the coordinator may wait for slots of jobs that end."""
        self._return_s = config.coordinator_return_ms / 1000
        self._has_answered = is_there
        tls = config.tls
        self._http = HttpCalls(coordinator, token, tls_of(tls), tls.coordinator_name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing of a call is left when it has returned, so there is nothing to close."""

    async def submit(self, submission: Submission, job_id: str | None = None) -> str:
        """Start a job and return its id, made up if it is not given; InsufficientSlotsError if it
        does not fit, CheckpointError if it cannot continue from what it should."""
        wait_ms = self._slots_wait_ms + (0 if submission.restore is None else _READING_MS)
        # Chosen here, so that a request that is sent again does not start a second job.
        path = f"/api/v1/jobs?job_id={job_id or machine.unique_id()}"
        answer = await self._request("POST", path, submission.to_bytes(), wait_ms=wait_ms)
        return str(answer["job_id"])

    async def progress(self, job_id: str, *, wait_ms: int = 0) -> JobProgress:
        """How the job stands, when it has ended or after ``wait_ms``."""
        answer = await self._request(
            "GET", f"/api/v1/jobs/{job_id}?wait_ms={wait_ms}", wait_ms=wait_ms
        )
        return JobProgress.from_dict(answer)

    async def statistics(
        self, worker_id: str, *, fresh: bool = False, channels_max: int = 0
    ) -> WorkerStatistics:
        """What can be seen of a worker: as it last reported, or now if ``fresh``, or if up to
        ``channels_max`` channels are wanted, those first where most waits.

        Raises JobError if the worker is not there, has not reported or does not answer.
        """
        path = f"/api/v1/workers/{quote(worker_id, safe='')}/statistics"
        answer = await self._request("GET", f"{path}?fresh={int(fresh)}&channels={channels_max}")
        return from_plain(WorkerStatistics, answer)

    async def job_statistics(self, job_id: str) -> dict[str, tuple[SubtaskTotals, ...]]:
        """What can be seen of a job's subtasks, by worker id, as the workers last reported."""
        answer = await self._request("GET", f"/api/v1/jobs/{job_id}/statistics")
        return {
            worker_id: tuple(from_plain(SubtaskTotals, one) for one in subtasks)
            for worker_id, subtasks in answer.items()
        }

    async def read(self, path: str) -> Any:
        """What the coordinator's REST says there, ``/v1/jobs/overview``: JSON as Python has it.

        JobError if there is no such thing, ConfigurationError if it is asked for wrongly.
        """
        return await self._request("GET", path)

    async def find_job(self, job: str) -> str:
        """Return the id of a job that has not ended, by its id or its name; ConfigurationError if
        none, or several, are called so."""
        jobs = (await self._request("GET", "/api/v1/jobs"))["jobs"]
        if any(one["job_id"] == job for one in jobs):
            return job
        living = [one for one in jobs if not JobState(one["state"]).is_terminal]
        named = [one["job_id"] for one in living if one["name"] == job]
        if len(named) == 1:
            return str(named[0])
        if named:
            raise ConfigurationError(
                f'{len(named)} jobs are called "{job}", say which: {", ".join(named)}'
            )
        others = ", ".join(f'"{one["name"]}" ({one["job_id"]})' for one in living) or "none"
        raise ConfigurationError(
            f'no job "{job}" runs at {self._coordinator}; those that run: {others}'
        )

    async def pass_printed_on(self, job_id: str, on_printed: Callable[[str], None]) -> None:
        """Pass on what functions of a job print, line by line, until it has ended and all of it is
        passed on; its submission must ask for that."""
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
        """Have a savepoint of a running job written, and return where it is.

        ``directory`` is a URL, or a path as the coordinator and the workers know it; None for where
        the job's checkpoints are. ConfigurationError if there is no such place, JobError if not all
        subtasks run, CheckpointError if the savepoint fails: the job goes on in any case.
        """
        body = {"target-directory": directory}
        return await self._await_savepoint(job_id, f"/v1/jobs/{job_id}/savepoints", body)

    async def stop(self, job_id: str, directory: str | None = None, *, drain: bool = False) -> str:
        """Have a running job end with a savepoint, FINISHED, and return where that is.

        With ``drain`` the job ends as if its input had: windows fire, timers run out, and what is
        held back is emitted, before the savepoint; without, none of that happens, so that another
        job can go on from it. Raises as ``savepoint``; the job goes on if the savepoint fails, or,
        with ``drain``, is restarted as after any failure.
        """
        body = {"targetDirectory": directory, "drain": drain}
        return await self._await_savepoint(job_id, f"/v1/jobs/{job_id}/stop", body)

    async def _await_savepoint(self, job_id: str, path: str, body: dict[str, Any]) -> str:
        # Chosen here, so that a request that is sent again, perhaps to the coordinator in the place
        # of a lost one, is the same.
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
        """Ask for the job to stop."""
        await self._request("POST", f"/api/v1/jobs/{job_id}/cancel")

    async def until_ended(
        self, job_id: str, *, interval_ms: int = _POLL_MS, on_progress: OnProgress | None = None
    ) -> JobProgress:
        """Wait for the end of a job, whichever it is, and say how it stands then; ``on_progress``
        hears of it at each interval and at the end."""
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

        Raises the JobError that it ended with. Cancelling this call does not cancel the job.
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
                if not self._has_answered or (error.is_heard and once) or is_over:
                    raise RemoteTransportError(
                        f"the coordinator at {self._coordinator} cannot be reached: {error}"
                    ) from error
                await asyncio.sleep(backoff.next_pause())
            else:
                return answer

    async def _ask(self, method: str, path: str, body: bytes | None, wait_ms: float) -> Any:
        try:
            async with patient_timeout((self._timeout_ms + wait_ms) / 1000):
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
            reason = f"what answers there ({answer.status}, {kind}) is no coordinator"
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
    """What to say of workers that an ended job still occupies."""
    if not progress.holders:
        return ""
    return (
        f"; {', '.join(progress.holders)} has not let go of it within cluster.cancel_timeout_ms, "
        "because a function of it does not return: its slots stay taken until then"
    )


def _refusal(status: int, body: dict[str, Any]) -> FlinknetError:
    """The error that an answer stands for, whose body may have Flink's shape; 401 is a wrong
    secret, 403 that of a lower role."""
    if "errors" in body:
        kind = ConfigurationError if status in (400, 401, 403) else JobError
        return kind("; ".join(body["errors"]))
    if status in (401, 403):
        return ConfigurationError(body["error"]["message"])
    return _REFUSALS.get(body["error"]["type"], JobError)(body["error"]["message"])
