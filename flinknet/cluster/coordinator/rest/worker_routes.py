"""What workers ask of the coordinator: their websocket, and what is too large for it.

::

    GET  /api/v1/worker              the websocket of messages.py
    GET  /api/v1/jobs/{job}/attempts/{attempt}/deployment/{worker}
    PUT  /api/v1/jobs/{job}/attempts/{attempt}/results/{worker}    of finished subtasks, in msgpack;
                                     the answer says which are refused, and why
    GET  /api/v1/jobs/{job}/attempts/{attempt}/committables
    PUT  /api/v1/workers/{worker}/answers/{request}          to a control message with a number
    PUT  /api/v1/workers/{worker}/pulse                      it lives, and user code holds it up

The body of a worker's request may take any time while the worker is there: its user code may hold
it up, and the registry finds out if it is lost.

A request for an attempt that is not the job's present one is a conflict (409): it is late; and so
is an answer that nobody waits for any more. Regions that were restarted alone are of the present
attempt, under numbers of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgpack
from aiohttp import web

from flinknet.cluster.control.subtask_result import decode_result, unpack_results
from flinknet.cluster.coordinator.jobs.attempt_record import AttemptRecord
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_execution import SubtaskKey
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.rest.http_requests import named_job, read_body
from flinknet.cluster.coordinator.workers.inquiries import Inquiries
from flinknet.cluster.coordinator.workers.worker_connection import WorkerConnection, Workers
from flinknet.graph.deployment import descriptors_to_fields

__all__ = ["Attempts", "WorkerRoutes"]

_ATTEMPT = r"/api/v1/jobs/{job}/attempts/{attempt:\d+}"


class Attempts(Workers, Protocol):
    """What these routes need of the coordinator."""

    dispatcher: Dispatcher
    answers: Inquiries[bytes]

    async def keep_results(
        self, record: JobRecord, attempt: AttemptRecord, results: Mapping[SubtaskKey, bytes]
    ) -> None: ...
    def take_results(
        self,
        record: JobRecord,
        attempt: AttemptRecord,
        number: int,
        results: Mapping[SubtaskKey, dict[str, Any]],
    ) -> dict[SubtaskKey, str]: ...
    def take_pulse(self, worker_id: str) -> None: ...


class WorkerRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Attempts) -> None:
        self._coordinator = coordinator

    def routes(self) -> list[web.RouteDef]:
        """What to add to an application."""
        return [
            web.get("/api/v1/worker", self._worker),
            web.get(_ATTEMPT + "/deployment/{worker}", self._deployment),
            web.get(_ATTEMPT + "/committables", self._committables),
            web.put(_ATTEMPT + "/results/{worker}", self._take_results),
            web.put(r"/api/v1/workers/{worker}/answers/{request:\d+}", self._take_answer),
            web.put("/api/v1/workers/{worker}/pulse", self._take_pulse),
        ]

    async def _worker(self, request: web.Request) -> web.StreamResponse:
        return await WorkerConnection(self._coordinator, request).serve()

    async def _deployment(self, request: web.Request) -> web.Response:
        record, attempt = self._named_attempt(request)
        number = int(request.match_info["attempt"])
        descriptors = attempt.placement.deployed(request.match_info["worker"], number)
        restored = attempt.restored_for(number)
        return _msgpack(
            {
                "graph": record.submission.graph,
                "subtasks": descriptors_to_fields(descriptors),
                "restored_from": restored.directory,
                "restored_finished": [list(subtask) for subtask in restored.finished],
                "checkpoints_as": attempt.number,
            }
        )

    async def _committables(self, request: web.Request) -> web.Response:
        record, attempt = self._named_attempt(request)
        return _msgpack({"graph": record.submission.graph, "committables": attempt.prepared()})

    async def _take_results(self, request: web.Request) -> web.Response:
        record, attempt = self._named_attempt(request)
        number = int(request.match_info["attempt"])
        bodies = unpack_results(await self._read_body(request))
        results = {subtask: decode_result(body) for subtask, body in bodies.items()}
        present = {
            subtask: body
            for subtask, body in bodies.items()
            if attempt.execution.number_of(subtask) == number
        }
        if attempt.ended_at is None:
            await self._coordinator.keep_results(record, attempt, present)
        if attempt.ended_at is not None:
            raise web.HTTPConflict(text=f"attempt {attempt.number} of the job has ended")
        refused = self._coordinator.take_results(record, attempt, number, results)
        return _msgpack([[*subtask, reason] for subtask, reason in refused.items()])

    async def _take_answer(self, request: web.Request) -> web.Response:
        body = await self._read_body(request)
        worker_id, number = request.match_info["worker"], int(request.match_info["request"])
        if not self._coordinator.answers.take(worker_id, number, body):
            raise web.HTTPConflict(text=f"nobody waits for answer {number}")
        return web.json_response({})

    async def _take_pulse(self, request: web.Request) -> web.Response:
        self._coordinator.take_pulse(request.match_info["worker"])
        return web.json_response({})

    async def _read_body(self, request: web.Request) -> bytes:
        timeout_ms = self._coordinator.config.http_request_timeout_ms
        workers, worker_id = self._coordinator.dispatcher.workers, request.match_info["worker"]
        return await read_body(request, timeout_ms, lambda: workers.is_there(worker_id))

    def _named_attempt(self, request: web.Request) -> tuple[JobRecord, AttemptRecord]:
        record = named_job(request, self._coordinator.dispatcher)
        if not record.present.has(int(request.match_info["attempt"])):
            raise web.HTTPConflict(text=f"job {record.job_id} is at another attempt")
        return record, record.present


def _msgpack(value: object) -> web.Response:
    return web.Response(body=msgpack.packb(value), content_type="application/msgpack")
