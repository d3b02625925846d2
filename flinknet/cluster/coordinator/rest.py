"""The control plane's HTTP interface.

Open to everyone who can reach the port (loopback), and saying nothing of jobs or addresses::

    GET  /livez                      the event loop turns
    GET  /readyz                     200 once the expected workers have registered, else 503

Everything else takes the cluster token (``Authorization: Bearer``). For clients::

    GET  /api/v1/overview            counts of workers, slots and jobs
    GET  /api/v1/workers
    GET  /api/v1/jobs
    GET  /api/v1/jobs/{job}          with ?wait_ms=N: returns when the job has ended, or after N ms
    POST /api/v1/jobs                body: a Submission; 201 {"job_id": ...}; waits for slots
    POST /api/v1/jobs/{job}/cancel
    GET  /api/v1/jobs/{job}/result   msgpack, once: collected records are handed out and dropped

and for workers::

    GET  /api/v1/worker              the websocket of messages.py
    GET  /api/v1/jobs/{job}/attempts/{attempt}/deployment/{worker}
    PUT  /api/v1/jobs/{job}/attempts/{attempt}/subtasks/{vertex}/{index}/result
    GET  /api/v1/jobs/{job}/attempts/{attempt}/committables

An error is ``{"error": {"type": ..., "message": ...}}``: 400 refused, 401 no token, 404 unknown,
408 too slow, 409 not in this state, 413 too large. The token is checked before a body is read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgpack
from aiohttp import web
from aiohttp.typedefs import Handler

from flinknet.cluster.control.credentials import is_authorized
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import decode_result
from flinknet.cluster.coordinator.job_execution import JobState
from flinknet.cluster.coordinator.job_record import JobRecord
from flinknet.cluster.coordinator.worker_connection import WorkerConnection
from flinknet.cluster.coordinator.worker_registry import WorkerRecord
from flinknet.errors import ConfigurationError, FlinknetError, JobError, RemoteProtocolError
from flinknet.texts import printable, text_of

if TYPE_CHECKING:
    from flinknet.cluster.coordinator.coordinator import Coordinator

__all__ = ["ControlPlane"]

_OPEN = ("/livez", "/readyz")
_WAIT_MS_MAX = 60_000
_OVERHEAD_BYTES = 1024 * 1024
"""What an upload may have beside collected records or a job graph: counters, metrics, the shape."""


class ControlPlane:
    """The routes, bound to one coordinator and its token."""

    def __init__(self, coordinator: Coordinator, token: str) -> None:
        self._coordinator = coordinator
        self._config = coordinator.config
        self._token = token

    def application(self) -> web.Application:
        """The application to serve."""
        largest = max(self._config.job_bytes_max, self._config.collect_bytes_max)
        application = web.Application(
            middlewares=[_errors_as_json, self._with_token],
            client_max_size=largest + _OVERHEAD_BYTES,
        )
        job = "/api/v1/jobs/{job}"
        attempt = job + r"/attempts/{attempt:\d+}"
        application.add_routes(
            [
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/api/v1/overview", self._overview),
                web.get("/api/v1/workers", self._workers),
                web.get("/api/v1/jobs", self._jobs),
                web.get(job, self._job),
                web.post("/api/v1/jobs", self._submit),
                web.post(job + "/cancel", self._cancel),
                web.get(job + "/result", self._result),
                web.get("/api/v1/worker", self._worker),
                web.get(attempt + "/deployment/{worker}", self._deployment),
                web.get(attempt + "/committables", self._committables),
                web.put(
                    attempt + r"/subtasks/{vertex:\d+}/{index:\d+}/result",
                    self._take_result,
                ),
            ]
        )
        return application

    @web.middleware
    async def _with_token(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let nobody in without the token but to what is open to everyone."""
        if request.path not in _OPEN and not is_authorized(request.headers, self._token):
            raise web.HTTPUnauthorized(text="the cluster token is missing or wrong")
        return await handler(request)

    # -- read only

    async def _livez(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        registered = len(self._coordinator.dispatcher.workers.registered())
        return web.json_response(
            {"workers": registered, "expected": self._config.workers},
            status=200 if registered >= self._config.workers else 503,
        )

    async def _overview(self, request: web.Request) -> web.Response:
        dispatcher = self._coordinator.dispatcher
        workers = dispatcher.workers.registered()
        return web.json_response(
            {
                "workers": len(workers),
                "slots": sum(worker.slots for worker in workers),
                "free_slots": sum(worker.free_slots for worker in workers),
                "jobs": Counter(job.execution.state.value for job in dispatcher.jobs()),
            }
        )

    async def _workers(self, request: web.Request) -> web.Response:
        now = self._coordinator.now()
        workers = self._coordinator.dispatcher.workers.workers()
        return web.json_response({"workers": [_worker_row(worker, now) for worker in workers]})

    async def _jobs(self, request: web.Request) -> web.Response:
        now = self._coordinator.now()
        jobs = self._coordinator.dispatcher.jobs()
        return web.json_response({"jobs": [job.status(now) for job in jobs]})

    async def _job(self, request: web.Request) -> web.Response:
        record = self._record(request)
        wait_ms = _milliseconds(request.query.get("wait_ms", "0"))
        await self._coordinator.wait_for_end(record, min(wait_ms, _WAIT_MS_MAX) / 1000)
        return web.json_response(record.status(self._coordinator.now()))

    # -- for clients

    async def _submit(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        if len(body) > self._config.job_bytes_max:
            raise web.HTTPRequestEntityTooLarge(
                self._config.job_bytes_max,
                len(body),
                text=f"the job graph has {len(body)} bytes, more than cluster.job_bytes_max = "
                f"{self._config.job_bytes_max}: read large collections from files, or raise that "
                "option",
            )
        submission = Submission.from_bytes(body)
        await self._coordinator.wait_for_slots(submission)
        if request.transport is None or request.transport.is_closing():
            raise web.HTTPConflict(text="the client has gone before its job could be started")
        record = self._coordinator.submit(submission)
        return web.json_response({"job_id": record.job_id}, status=201)

    async def _cancel(self, request: web.Request) -> web.Response:
        record = self._record(request)
        self._coordinator.cancel(record)
        return web.json_response(record.status(self._coordinator.now()))

    async def _result(self, request: web.Request) -> web.Response:
        record = self._record(request)
        if record.execution.state is not JobState.FINISHED:
            raise web.HTTPConflict(text=f"the job is {record.execution.state.value}: no result")
        body = msgpack.packb(record.result())
        record.forget_collected()
        return web.Response(body=body, content_type="application/msgpack")

    # -- for workers

    async def _worker(self, request: web.Request) -> web.StreamResponse:
        return await WorkerConnection(self._coordinator, request).serve()

    async def _deployment(self, request: web.Request) -> web.Response:
        record = self._attempt(request)
        descriptors = record.deployment.get(request.match_info["worker"], ())
        body = msgpack.packb(
            {
                "graph": record.submission.graph,
                "subtasks": [descriptor.to_dict() for descriptor in descriptors],
            }
        )
        return web.Response(body=body, content_type="application/msgpack")

    async def _committables(self, request: web.Request) -> web.Response:
        record = self._attempt(request)
        body = msgpack.packb({"graph": record.submission.graph, "committables": record.prepared()})
        return web.Response(body=body, content_type="application/msgpack")

    async def _take_result(self, request: web.Request) -> web.Response:
        record = self._attempt(request)
        subtask = int(request.match_info["vertex"]), int(request.match_info["index"])
        record.execution.worker_of(subtask)
        result = decode_result(await self._body(request))
        if record.ended_at is not None:
            raise web.HTTPConflict(text=f"job {record.job_id} has ended")
        self._coordinator.take_result(record, subtask, result)
        return web.json_response({})

    async def _body(self, request: web.Request) -> bytes:
        timeout_ms = self._config.http_request_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout(
                text=f"the body has not come within {timeout_ms:.0f} ms "
                "(cluster.http_request_timeout_ms)"
            ) from None

    def _record(self, request: web.Request) -> JobRecord:
        record = self._coordinator.dispatcher.job(request.match_info["job"])
        if record is None:
            raise web.HTTPNotFound(text=printable(f"no job {request.match_info['job']}"))
        return record

    def _attempt(self, request: web.Request) -> JobRecord:
        record = self._record(request)
        if record.execution.attempt != int(request.match_info["attempt"]):
            raise web.HTTPConflict(text=f"job {record.job_id} is at another attempt")
        return record


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        return _error_response(refusal.status, FlinknetError(refusal.text or refusal.reason))
    except (ConfigurationError, RemoteProtocolError) as error:
        return _error_response(400, error)
    except JobError as error:
        return _error_response(413, error)


def _error_response(status: int, error: FlinknetError) -> web.Response:
    body = {"error": {"type": type(error).__name__, "message": text_of(error)}}
    return web.json_response(body, status=status)


def _milliseconds(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise ConfigurationError(f"wait_ms is {text[:20]!r}: write a whole number of milliseconds")
    return int(text)


def _worker_row(worker: WorkerRecord, now: float) -> dict[str, Any]:
    return {
        "worker_id": worker.worker_id,
        "pid": worker.pid,
        "address": worker.address,
        "state": worker.state.value,
        "slots": worker.slots,
        "free_slots": worker.free_slots,
        "heard_ms_ago": round((now - worker.heard_at) * 1000, 1),
        "loss": None if worker.loss is None else worker.loss.message,
    }
