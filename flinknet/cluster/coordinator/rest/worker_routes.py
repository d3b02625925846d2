"""The routes for workers: their websocket, and bodies that are too large for it.

::

    GET  /api/v1/worker              the websocket of messages.py
    GET  /api/v1/jobs/{job}/attempts/{attempt}/deployment/{worker}
    PUT  /api/v1/jobs/{job}/attempts/{attempt}/results/{worker}    of finished subtasks, in msgpack;
                                     the answer lists refused results with reasons
    GET  /api/v1/jobs/{job}/attempts/{attempt}/committables
    PUT  /api/v1/workers/{worker}/answers/{request}          to a control message with a number
    PUT  /api/v1/workers/{worker}/pulse                      alive, but blocked by user code

There is no time limit for the body of a request while its worker is registered, since user code may
block the worker. The registry detects if the worker is lost. A late request is a conflict (409).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from aiohttp import WSMsgType, web

from flinknet.cluster.coordinator.rest.http_requests import named_job, read_body
from flinknet.cluster.coordinator.rest.worker_requests import (
    AnsweredRequests,
    Attempts,
    LateRequestError,
)
from flinknet.cluster.coordinator.workers.worker_connection import WorkerConnection
from flinknet.errors import RemoteProtocolError
from flinknet.net.tls import names_in

__all__ = ["WorkerRoutes"]

_ATTEMPT = r"/api/v1/jobs/{job}/attempts/{attempt:\d+}"

T = TypeVar("T")


class WorkerRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Attempts) -> None:
        self._coordinator = coordinator
        self._requests = AnsweredRequests(coordinator)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        return [
            web.get("/api/v1/worker", self._worker),
            web.get(_ATTEMPT + "/deployment/{worker}", self._deployment),
            web.get(_ATTEMPT + "/committables", self._committables),
            web.put(_ATTEMPT + "/results/{worker}", self._take_results),
            web.put(r"/api/v1/workers/{worker}/answers/{request:\d+}", self._take_answer),
            web.put("/api/v1/workers/{worker}/pulse", self._take_pulse),
        ]

    async def _worker(self, request: web.Request) -> web.StreamResponse:
        bytes_max = self._coordinator.config.control_message_bytes_max
        socket = web.WebSocketResponse(max_msg_size=bytes_max, timeout=1.0)
        await socket.prepare(request)
        await WorkerConnection(self._coordinator, _WebSocket(socket, request)).serve()
        return socket

    async def _deployment(self, request: web.Request) -> web.Response:
        job_id, attempt = self._attempt(request)
        worker_id = request.match_info["worker"]
        return _msgpack(await _in_time(self._requests.deployment(job_id, attempt, worker_id)))

    async def _committables(self, request: web.Request) -> web.Response:
        job_id, attempt = self._attempt(request)
        return _msgpack(await _in_time(self._requests.committables(job_id, attempt)))

    async def _take_results(self, request: web.Request) -> web.Response:
        return _msgpack(await _in_time(self._taken_results(request)))

    async def _taken_results(self, request: web.Request) -> bytes:
        job_id, attempt = self._attempt(request)
        # Checked before the body is read, which may be large.
        self._requests.check(job_id, attempt)
        worker_id, body = request.match_info["worker"], await self._read_body(request)
        return await self._requests.take_results(job_id, attempt, worker_id, body)

    async def _take_answer(self, request: web.Request) -> web.Response:
        body = await self._read_body(request)
        worker_id, number = request.match_info["worker"], int(request.match_info["request"])
        await _in_time(self._requests.take_answer(worker_id, number, body))
        return web.json_response({})

    async def _take_pulse(self, request: web.Request) -> web.Response:
        self._coordinator.take_pulse(request.match_info["worker"])
        return web.json_response({})

    async def _read_body(self, request: web.Request) -> bytes:
        timeout_ms = self._coordinator.config.http_request_timeout_ms
        workers, worker_id = self._coordinator.dispatcher.workers, request.match_info["worker"]
        return await read_body(request, timeout_ms, lambda: workers.is_there(worker_id))

    def _attempt(self, request: web.Request) -> tuple[str, int]:
        """Return job id and attempt number from the path; 404 if the job is unknown."""
        record = named_job(request, self._coordinator.dispatcher)
        return record.job_id, int(request.match_info["attempt"])


class _WebSocket:
    """The coordinator's end of a worker's websocket."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self._socket = socket
        self._request = request

    @property
    def vouched(self) -> tuple[str, ...] | None:
        shown = self._request.get_extra_info("ssl_object")
        return None if shown is None else names_in(shown.getpeercert() or {})

    async def send(self, message: bytes) -> None:
        await self._socket.send_bytes(message)

    async def receive(self) -> bytes | None:
        frame = await self._socket.receive()
        if frame.type is WSMsgType.TEXT:
            raise RemoteProtocolError("control messages are binary")
        return frame.data if frame.type is WSMsgType.BINARY else None

    async def close(self) -> None:
        await self._socket.close()

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


async def _in_time(answer: Coroutine[Any, Any, T]) -> T:
    try:
        return await answer
    except LateRequestError as error:
        raise web.HTTPConflict(text=str(error)) from error


def _msgpack(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/msgpack")
