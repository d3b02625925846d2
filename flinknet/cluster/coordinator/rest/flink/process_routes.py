"""The routes of Flink's clients and its dashboard for single processes.

They return the log, the standard output, and the stacks of threads and tasks.

::

    GET  /v1/taskmanagers/{worker}/logs             the names of its texts
    GET  /v1/taskmanagers/{worker}/logs/{name}      one of these texts
    GET  /v1/taskmanagers/{worker}/log              its log
    GET  /v1/taskmanagers/{worker}/stdout           its standard output
    GET  /v1/taskmanagers/{worker}/thread-dump      its threads, and the tasks of its event loop
    GET  /v1/jobmanager/...                         the same for the coordinator

A worker answers from its event loop. A worker with a blocked loop answers once the loop runs again,
or too late (504). The diagnosis (``/api/v1/jobs/{job}/diagnosis``) shows the cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgpack
from aiohttp import web

from flinknet.cluster.control.kept_output import KeptFile, KeptOutput
from flinknet.cluster.control.messages import DumpThreads, ListOutput, Message, ReadOutput
from flinknet.cluster.control.thread_dump import ThreadInfo, thread_dump
from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.workers.inquiries import Inquiries
from flinknet.config import ClusterConfig
from flinknet.texts import printable

__all__ = ["Outspoken", "ProcessRoutes"]


class Outspoken(Protocol):
    """The coordinator as these routes use it."""

    config: ClusterConfig
    dispatcher: Dispatcher
    answers: Inquiries[bytes]
    output: KeptOutput


class ProcessRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Outspoken) -> None:
        self._coordinator = coordinator

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        worker, mine = "/v1/taskmanagers/{worker}", "/v1/jobmanager"
        return [
            web.get(f"{worker}/logs", self._list),
            web.get(f"{worker}/logs/{{name}}", self._read),
            web.get(f"{worker}/log", self._read),
            web.get(f"{worker}/stdout", self._read),
            web.get(f"{worker}/thread-dump", self._dump),
            web.get(f"{mine}/logs", self._list_mine),
            web.get(f"{mine}/logs/{{name}}", self._read_mine),
            web.get(f"{mine}/log", self._read_mine),
            web.get(f"{mine}/stdout", self._read_mine),
            web.get(f"{mine}/thread-dump", self._dump_mine),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        files = [KeptFile(*one) for one in await self._ask(request, ListOutput)]
        return _log_list(files)

    async def _read(self, request: web.Request) -> web.Response:
        name = _name_in(request, request.match_info["worker"])
        return _text(name, await self._ask(request, lambda number: ReadOutput(number, name)))

    async def _dump(self, request: web.Request) -> web.Response:
        return _dumped(ThreadInfo(*one) for one in await self._ask(request, DumpThreads))

    async def _list_mine(self, request: web.Request) -> web.Response:
        return _log_list(self._coordinator.output.files())

    async def _read_mine(self, request: web.Request) -> web.Response:
        name = _name_in(request, "coordinator")
        return _text(name, self._coordinator.output.read(name))

    async def _dump_mine(self, request: web.Request) -> web.Response:
        depth_max = self._coordinator.config.stack_depth_max
        return _dumped(thread_dump(asyncio.get_running_loop(), depth_max))

    async def _ask(self, request: web.Request, question: Callable[[int], Message]) -> Any:
        """Return the answer of the worker that the path names; 404 if it is not present."""
        worker_id = request.match_info["worker"]
        worker = self._coordinator.dispatcher.workers.get(worker_id)
        if worker is None or worker.is_lost:
            raise web.HTTPNotFound(text=printable(f"no worker {worker_id}"))
        timeout_ms = self._coordinator.config.coordinator_timeout_ms
        try:
            answer = await self._coordinator.answers.ask(worker_id, question, timeout_ms / 1000)
        except TimeoutError:
            raise web.HTTPGatewayTimeout(
                text=f"worker {worker_id} has not answered for {timeout_ms:.0f} ms "
                "(cluster.coordinator_timeout_ms): its event loop is blocked"
            ) from None
        if answer is None:
            raise web.HTTPNotFound(text=f"worker {worker_id} was lost before it answered")
        return msgpack.unpackb(answer)


def _name_in(request: web.Request, process: str) -> str:
    """Return the name of the requested text: as given, or of the log or the standard output."""
    kind = request.path.rpartition("/")[2]
    named = {"log": f"{process}.log", "stdout": f"{process}.out"}
    return request.match_info.get("name") or named[kind]


def _log_list(files: Iterable[KeptFile]) -> web.Response:
    """Return Flink's LogListInfo."""
    rows = [
        {"name": one.name, "size": one.size, "mtime": round(1000 * one.modified_s)} for one in files
    ]
    return web.json_response({"logs": rows})


def _text(name: str, body: bytes | None) -> web.Response:
    if body is None:
        raise web.HTTPNotFound(text=printable(f"there is no log {name}"))
    return web.Response(body=body, content_type="text/plain", charset="utf-8")


def _dumped(infos: Iterable[ThreadInfo]) -> web.Response:
    """Return Flink's ThreadDumpInfo."""
    rows = [{"threadName": one.name, "stringifiedThreadInfo": one.text} for one in infos]
    return web.json_response({"threadInfos": rows})
