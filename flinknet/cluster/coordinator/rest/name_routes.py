"""Routes with which programs that embed the exchange publish partitions and look up producers.

::

    POST   /api/v1/names             {"id", "job", "name", "worker_id", "address"}: publishes the
                                     producer of a partition for as long as the response is open;
                                     the coordinator completes it only when it ends
    DELETE /api/v1/names/{id}        withdraws the name, before the connection is closed; with
                                     {"code", "text", "unread", "remembered_ms"}: the producer has
                                     failed before the readers of subpartitions "unread" connected
    GET    /api/v1/names?job=J&name=N            {"addresses": [...], "failure": null}, ordered by
                                     worker id; with &producers=K&wait_ms=N: waits until K
                                     producers exist, or a failure {"code", "text"} was left for
                                     the reader of &subpartition=S, or N ms have passed

The connection is the lease: when a producer is killed, its connection closes and its name is gone.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any

from aiohttp import web

from flinknet.cluster.coordinator.rest.http_requests import WAIT_MS_MAX, read_body, whole_number
from flinknet.cluster.coordinator.rest.published_names import (
    LeftFailure,
    PublishedName,
    PublishedNames,
)
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError
from flinknet.net.address import split_address

__all__ = ["NameRoutes"]

_ID = re.compile(r"[0-9a-f]{32}")

_TEXT_CHARACTERS_MAX = 1_000
"""Limit for each text; more than any valid name has, since names must fit into a handshake."""


class NameRoutes:
    """The routes, with the published names."""

    def __init__(self, config: ClusterConfig) -> None:
        self._timeout_ms = config.http_request_timeout_ms
        self._names = PublishedNames(config.failed_names_remembered_max)
        self._changed = asyncio.Event()
        """Set, and replaced by a new event, after every change."""
        self._closed = asyncio.Event()
        """Set when the coordinator is about to end."""

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to add to an application."""
        return [
            web.post("/api/v1/names", self._publish),
            web.delete("/api/v1/names/{id}", self._withdraw),
            web.get("/api/v1/names", self._addresses),
        ]

    async def close(self, application: web.Application) -> None:
        """End every open publication, because the coordinator is about to end."""
        self._closed.set()

    async def _publish(self, request: web.Request) -> web.StreamResponse:
        publication_id, published = _said(await read_body(request, self._timeout_ms))
        answer = web.StreamResponse()
        try:
            self._names.publish(publication_id, published)
            self._change()
            await answer.prepare(request)
            # Cancelled when the connection closes.
            await self._closed.wait()
            return answer
        finally:
            self._names.withdraw(publication_id, published)
            self._change()

    async def _withdraw(self, request: web.Request) -> web.Response:
        publication_id, body = request.match_info["id"], await read_body(request, self._timeout_ms)
        if body:
            self._names.leave(
                publication_id, _failure_said(body, asyncio.get_running_loop().time())
            )
        self._names.withdraw(publication_id)
        self._change()
        return web.json_response({})

    async def _addresses(self, request: web.Request) -> web.Response:
        job, name = request.query.get("job", ""), request.query.get("name", "")
        producers = whole_number(request, "producers")
        wait_ms = min(whole_number(request, "wait_ms"), WAIT_MS_MAX)
        subpartition = whole_number(request, "subpartition")
        loop = asyncio.get_running_loop()
        failure = self._names.take_failure(job, name, subpartition, loop.time())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                while failure is None and len(self._names.addresses(job, name)) < producers:
                    await self._changed.wait()
                    failure = self._names.take_failure(job, name, subpartition, loop.time())
        said = None if failure is None else {"code": failure.code, "text": failure.text}
        return web.json_response({"addresses": self._names.addresses(job, name), "failure": said})

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _failure_said(body: bytes, now: float) -> LeftFailure:
    """Return the failure that a producer leaves; raise ConfigurationError for a malformed body."""
    fields = _fields(body, {"code", "text", "unread", "remembered_ms"})
    code, text, remembered_ms = fields["code"], fields["text"], fields["remembered_ms"]
    unread = fields["unread"]
    if (
        not isinstance(code, int)
        or not isinstance(text, str)
        or not isinstance(remembered_ms, int | float)
        or not (unread is None or (isinstance(unread, list) and set(map(type, unread)) <= {int}))
    ):
        raise ConfigurationError(
            "the request's body is not a failure: give code as a number, text as text, unread as "
            "null or a list of subpartitions, remembered_ms as a number of milliseconds"
        )
    until = now + remembered_ms / 1000
    return LeftFailure(
        code, text[:_TEXT_CHARACTERS_MAX], None if unread is None else set(unread), until
    )


def _fields(body: bytes, named: set[str]) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise ConfigurationError(f"the request's body is not JSON: {error}") from error
    if not isinstance(fields, dict) or fields.keys() != named:
        raise ConfigurationError(
            f"the request's body must have the fields {', '.join(sorted(named))}"
        )
    return fields


def _said(body: bytes) -> tuple[str, PublishedName]:
    """Return the publication of a producer; raise ConfigurationError for a malformed body."""
    fields = _fields(body, {"id", "job", "name", "worker_id", "address"})
    for field, text in fields.items():
        if not isinstance(text, str) or len(text) > _TEXT_CHARACTERS_MAX:
            raise ConfigurationError(
                f"{field} is not a text of at most {_TEXT_CHARACTERS_MAX} characters"
            )
    publication_id = fields.pop("id")
    if not _ID.fullmatch(publication_id):
        raise ConfigurationError("the id is not 32 hexadecimal digits")
    split_address(fields["address"])
    return publication_id, PublishedName(**fields)
