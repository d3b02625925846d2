"""The routes for clients of the coordinator.

::

    GET  /api/v1/overview            counts of workers, slots and jobs
    GET  /api/v1/workers
    GET  /api/v1/workers/{worker}/statistics     as last reported; ?fresh=1 queries the worker,
                                     ?channels=N as well, and returns that many channels
    GET  /api/v1/jobs
    GET  /api/v1/jobs/{job}          ?wait_ms=N: returns when the job has ended, or after N ms
    GET  /api/v1/jobs/{job}/attempts state and end of each attempt and its regions, oldest first
    GET  /api/v1/jobs/{job}/statistics           its subtasks by worker, as last reported
    GET  /api/v1/jobs/{job}/latency  latencies of markers from sources to operators
    GET  /api/v1/jobs/{job}/printed  lines printed by functions, if its submission asks for that;
                                     ?after=N: the lines from number N on; ?wait_ms=N as above
    POST /api/v1/jobs                body: a Submission; 201 {"job_id": ...}; waits for slots;
                                     ?job_id=ID chooses the id and makes the request idempotent
    POST /api/v1/jobs/{job}/cancel
    GET  /api/v1/jobs/{job}/result   msgpack
    DELETE /api/v1/jobs/{job}/result drops the collected records, after the client has fetched them
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Protocol

import msgpack
from aiohttp import web

from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.software import check_software
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.restore_point import RestorePoint
from flinknet.cluster.coordinator.jobs.result_store import ResultStore
from flinknet.cluster.coordinator.metrics.metric_store import MetricStore
from flinknet.cluster.coordinator.metrics.printed_store import PrintedStore
from flinknet.cluster.coordinator.rest.http_requests import (
    WAIT_MS_MAX,
    named_job,
    read_body,
    whole_number,
)
from flinknet.cluster.coordinator.rest.latency_view import latency_rows
from flinknet.cluster.coordinator.workers.worker_registry import WorkerRecord
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError
from flinknet.metrics.plain import to_plain
from flinknet.metrics.worker_statistics import WorkerStatistics
from flinknet.texts import printable

__all__ = ["ClientRoutes", "Jobs", "worker_row"]

_JOB_ID = re.compile(r"[0-9a-f]{32}")


class Jobs(Protocol):
    """The coordinator as these routes use it."""

    config: ClusterConfig
    dispatcher: Dispatcher
    metrics: MetricStore
    printed: PrintedStore
    results: ResultStore

    def now(self) -> float: ...
    async def wait_for_slots(self, submission: Submission) -> None: ...
    async def find_restore_point(self, submission: Submission) -> RestorePoint | None: ...
    def submit(
        self,
        submission: Submission,
        restored: RestorePoint | None = None,
        job_id: str | None = None,
    ) -> JobRecord: ...
    def cancel(self, record: JobRecord) -> None: ...
    async def wait_for_end(self, record: JobRecord, timeout_s: float) -> None: ...
    async def wait_for_printed(self, record: JobRecord, number: int, timeout_s: float) -> None: ...


class ClientRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Jobs) -> None:
        self._coordinator = coordinator
        self._dispatcher = coordinator.dispatcher
        self._config = coordinator.config

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        return [
            web.get("/api/v1/overview", self._overview),
            web.get("/api/v1/workers", self._workers),
            web.get("/api/v1/workers/{worker}/statistics", self._worker_statistics),
            web.get("/api/v1/jobs", self._jobs),
            web.get("/api/v1/jobs/{job}", self._job),
            web.get("/api/v1/jobs/{job}/attempts", self._attempts),
            web.get("/api/v1/jobs/{job}/statistics", self._job_statistics),
            web.get("/api/v1/jobs/{job}/latency", self._latency),
            web.get("/api/v1/jobs/{job}/printed", self._printed),
            web.post("/api/v1/jobs", self._submit),
            web.post("/api/v1/jobs/{job}/cancel", self._cancel),
            web.get("/api/v1/jobs/{job}/result", self._result),
            web.delete("/api/v1/jobs/{job}/result", self._forget_result),
        ]

    async def _overview(self, request: web.Request) -> web.Response:
        workers = self._dispatcher.workers.registered()
        return web.json_response(
            {
                "workers": len(workers),
                "slots": sum(worker.slots for worker in workers),
                "free_slots": sum(worker.free_slots for worker in workers),
                "jobs": Counter(job.state.value for job in self._dispatcher.jobs()),
            }
        )

    async def _workers(self, request: web.Request) -> web.Response:
        now = self._coordinator.now()
        workers = self._dispatcher.workers.workers()
        return web.json_response({"workers": [worker_row(worker, now) for worker in workers]})

    async def _worker_statistics(self, request: web.Request) -> web.Response:
        worker_id = request.match_info["worker"]
        worker = self._dispatcher.workers.get(worker_id)
        if worker is None or worker.is_lost:
            raise web.HTTPNotFound(text=printable(f"no worker {worker_id}"))
        channels_max = whole_number(request, "channels")
        if channels_max or whole_number(request, "fresh"):
            statistics = await self._fetch(worker_id, channels_max)
        else:
            report = self._coordinator.metrics.latest().get(worker_id)
            statistics = None if report is None else report.statistics
        if statistics is None:
            raise web.HTTPNotFound(text=printable(f"worker {worker_id} has not reported"))
        return web.json_response(to_plain(statistics))

    async def _fetch(self, worker_id: str, channels_max: int) -> WorkerStatistics | None:
        timeout_ms = self._config.http_request_timeout_ms
        try:
            return await self._coordinator.metrics.fetch(
                worker_id, channels_max=channels_max, timeout_s=timeout_ms / 1000
            )
        except TimeoutError:
            raise web.HTTPGatewayTimeout(
                text=printable(
                    f"worker {worker_id} has not answered within {timeout_ms:.0f} ms "
                    "(cluster.http_request_timeout_ms)"
                )
            ) from None

    async def _job_statistics(self, request: web.Request) -> web.Response:
        record = named_job(request, self._dispatcher)
        subtasks = self._coordinator.metrics.of_job(record.job_id)
        return web.json_response(
            {worker_id: [to_plain(one) for one in ones] for worker_id, ones in subtasks.items()}
        )

    async def _latency(self, request: web.Request) -> web.Response:
        record = named_job(request, self._dispatcher)
        reports = self._coordinator.metrics.of_job(record.job_id).values()
        reported = [one for report in reports for one in report]
        return web.json_response({"latency": latency_rows(record.submission.shape, reported)})

    async def _printed(self, request: web.Request) -> web.Response:
        record = named_job(request, self._dispatcher)
        after, wait_ms = whole_number(request, "after"), whole_number(request, "wait_ms")
        wait_s = min(wait_ms, WAIT_MS_MAX) / 1000
        await self._coordinator.wait_for_printed(record, after, wait_s)
        start, lines = self._coordinator.printed.after(record.job_id, after)
        return web.json_response({"start": start, "lines": lines})

    async def _jobs(self, request: web.Request) -> web.Response:
        now = self._coordinator.now()
        return web.json_response({"jobs": [job.status(now) for job in self._dispatcher.jobs()]})

    async def _job(self, request: web.Request) -> web.Response:
        record = named_job(request, self._dispatcher)
        wait_ms = whole_number(request, "wait_ms")
        await self._coordinator.wait_for_end(record, min(wait_ms, WAIT_MS_MAX) / 1000)
        return web.json_response(record.status(self._coordinator.now()))

    async def _attempts(self, request: web.Request) -> web.Response:
        now = self._coordinator.now()
        attempts = named_job(request, self._dispatcher).attempts
        return web.json_response({"attempts": [attempt.story(now) for attempt in attempts]})

    async def _submit(self, request: web.Request) -> web.Response:
        body = await read_body(request, self._config.http_request_timeout_ms)
        if len(body) > self._config.job_bytes_max:
            raise web.HTTPRequestEntityTooLarge(
                self._config.job_bytes_max,
                len(body),
                text=f"the job graph has {len(body)} bytes, more than cluster.job_bytes_max = "
                f"{self._config.job_bytes_max}: read large collections from files, or raise that "
                "option",
            )
        job_id = request.query.get("job_id")
        if job_id is not None and _JOB_ID.fullmatch(job_id) is None:
            raise ConfigurationError(f"{job_id[:40]!r} is not a job id: choose 32 digits of 0-9a-f")
        # The client has repeated its request. The job may have started since.
        if job_id is not None and self._dispatcher.job(job_id) is not None:
            return web.json_response({"job_id": job_id}, status=201)
        submission = Submission.from_bytes(body, self._config.job_shape_bytes_max)
        check_software(f'the program that submits job "{submission.name}"', submission.software)
        restored = await self._coordinator.find_restore_point(submission)
        await self._coordinator.wait_for_slots(submission)
        # It may have left while this request waited for slots.
        if request.transport is None or request.transport.is_closing():
            raise web.HTTPConflict(
                text="the client closed its connection before its job could start"
            )
        record = self._coordinator.submit(submission, restored, job_id)
        return web.json_response({"job_id": record.job_id}, status=201)

    async def _cancel(self, request: web.Request) -> web.Response:
        record = named_job(request, self._dispatcher)
        self._coordinator.cancel(record)
        return web.json_response(record.status(self._coordinator.now()))

    async def _result(self, request: web.Request) -> web.Response:
        record = named_job(request, self._dispatcher)
        if record.state is not JobState.FINISHED:
            raise web.HTTPConflict(text=f"the job is {record.state.value}: no result")
        rows = record.present.result()
        if not rows:
            raise web.HTTPConflict(text="the result of the job has been fetched before")
        body = msgpack.packb(rows)
        return web.Response(body=body, content_type="application/msgpack")

    async def _forget_result(self, request: web.Request) -> web.Response:
        self._coordinator.results.forget(named_job(request, self._dispatcher))
        return web.json_response({})


def worker_row(worker: WorkerRecord, now: float) -> dict[str, Any]:
    """Return a worker as plain JSON types."""
    error_s = worker.clock_error_s
    return {
        "worker_id": worker.worker_id,
        "pid": worker.pid,
        "address": worker.address,
        "metrics_address": worker.metrics_address,
        "state": worker.status,
        "slots": worker.slots,
        "free_slots": worker.free_slots,
        "heard_ms_ago": round((now - worker.heard_at) * 1000, 1),
        "clock_offset_ms": None if error_s is None else round(worker.clock_offset_s * 1000, 3),
        "clock_error_ms": None if error_s is None else round(error_s * 1000, 3),
        "loss": None if worker.loss is None else worker.loss.message,
    }
