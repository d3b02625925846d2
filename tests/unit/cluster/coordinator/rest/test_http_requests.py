"""Common parts of the requests of clients and workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp

from flinknet.cluster.control.credentials import authorization_headers
from tests.unit.cluster.control_plane import CONFIG, get, serve_control_plane

QUICK = replace(CONFIG, http_request_timeout_ms=50.0)


async def test_a_job_that_is_unknown_is_not_found(member: aiohttp.ClientSession) -> None:
    status, body = await get(member, "/api/v1/jobs/x")
    assert (status, body["error"]["message"]) == (404, "no job x")


async def test_a_body_that_does_not_come_is_given_up() -> None:
    async def beginning() -> AsyncIterator[bytes]:
        yield b"beginning"
        await asyncio.Event().wait()

    async with (
        serve_control_plane(QUICK) as served,
        aiohttp.ClientSession(headers=authorization_headers(served.token)) as session,
        session.post(f"http://{served.address}/api/v1/jobs", data=beginning()) as response,
    ):
        assert response.status == 408
        assert "cluster.http_request_timeout_ms" in (await response.json())["error"]["message"]
