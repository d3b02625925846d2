"""The routes for savepoints, as in Flink's REST API.

::

    POST /v1/jobs/{job}/savepoints   {"target-directory": ...}: 202 {"request-id": ...}
    POST /v1/jobs/{job}/stop         {"targetDirectory": ..., "drain": false}: the same
    GET  /v1/jobs/{job}/savepoints/{request}     the outcome of either; with ?wait_ms=N: returns
                                     when it is known, or after N ms

With ``"triggerId"``, 32 hexadecimal digits, the client chooses the id of its request. It may then
repeat the request, also to a coordinator that replaces a lost one. A directory is an absolute path
or a URL. Without one, the savepoint is written to the job's checkpoint directory. 409 unless all
subtasks of the job run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

from aiohttp import web

from flinknet.cluster.coordinator.jobs.dispatcher import Dispatcher
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.jobs.savepoint_request import SavepointRequest
from flinknet.cluster.coordinator.rest.http_requests import (
    WAIT_MS_MAX,
    named_job,
    read_body,
    whole_number,
)
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError, LocalProtocolError
from flinknet.texts import printable
from flinknet.wire.checkpoint_options import CheckpointKind

__all__ = ["SavepointRoutes", "Savepoints"]

_ID = re.compile(r"[0-9a-f]{32}")


class Savepoints(Protocol):
    """The coordinator as these routes use it."""

    config: ClusterConfig
    dispatcher: Dispatcher

    def trigger_savepoint(
        self,
        record: JobRecord,
        kind: CheckpointKind,
        directory: str,
        request_id: str | None = None,
    ) -> SavepointRequest: ...
    async def wait_for_savepoint(self, request: SavepointRequest, timeout_s: float) -> None: ...


class SavepointRoutes:
    """The routes, bound to one coordinator."""

    def __init__(self, coordinator: Savepoints) -> None:
        self._coordinator = coordinator

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        return [
            web.post("/v1/jobs/{job}/savepoints", self._savepoint),
            web.post("/v1/jobs/{job}/stop", self._stop),
            web.get("/v1/jobs/{job}/savepoints/{request}", self._status),
        ]

    async def _savepoint(self, request: web.Request) -> web.Response:
        record = named_job(request, self._coordinator.dispatcher)
        body = await self._read_json(request)
        if body.get("cancel-job"):
            raise ConfigurationError(
                "a job cannot be cancelled with a savepoint: stop it with one "
                "(POST /v1/jobs/JOB/stop, flink stop)"
            )
        return self._trigger(record, CheckpointKind.SAVEPOINT, body.get("target-directory"), body)

    async def _stop(self, request: web.Request) -> web.Response:
        record = named_job(request, self._coordinator.dispatcher)
        body = await self._read_json(request)
        drains = body.get("drain", False) is True
        kind = CheckpointKind.SAVEPOINT_TERMINATE if drains else CheckpointKind.SAVEPOINT_SUSPEND
        return self._trigger(record, kind, body.get("targetDirectory"), body)

    async def _read_json(self, request: web.Request) -> dict[str, Any]:
        body = await read_body(request, self._coordinator.config.http_request_timeout_ms)
        try:
            fields = json.loads(body or b"{}")
        except ValueError as error:
            raise ConfigurationError(f"the request's body is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise ConfigurationError("the request's body is not a JSON object")
        return fields

    def _trigger(
        self,
        record: JobRecord,
        kind: CheckpointKind,
        directory: object,
        body: Mapping[str, Any],
    ) -> web.Response:
        if directory is not None and not isinstance(directory, str):
            raise ConfigurationError(f"the directory is {directory!r}: write a path or a URL")
        chosen = body.get("triggerId")
        if chosen is not None and not (isinstance(chosen, str) and _ID.fullmatch(chosen)):
            raise ConfigurationError("triggerId is not an id: give 32 hexadecimal digits")
        try:
            asked = self._coordinator.trigger_savepoint(record, kind, directory or "", chosen)
        except LocalProtocolError as error:
            name, state = record.submission.name, record.state.value
            raise web.HTTPConflict(text=printable(f'job "{name}" is {state}: {error}')) from error
        return web.json_response({"request-id": asked.request_id}, status=202)

    async def _status(self, request: web.Request) -> web.Response:
        record = named_job(request, self._coordinator.dispatcher)
        request_id = request.match_info["request"]
        asked = record.savepoint(request_id)
        if asked is None:
            raise web.HTTPNotFound(text=printable(f"no savepoint was requested as {request_id}"))
        wait_ms = min(whole_number(request, "wait_ms"), WAIT_MS_MAX)
        await self._coordinator.wait_for_savepoint(asked, wait_ms / 1000)
        return web.json_response(asked.to_dict())
