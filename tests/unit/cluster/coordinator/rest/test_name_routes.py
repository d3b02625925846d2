"""Names over HTTP: each is published as long as its request lasts."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from flinknet.cluster.control.credentials import authorization_headers
from tests.unit.cluster.control_plane import CONFIG, get, serve_control_plane

FIELDS = {
    "id": "0" * 32,
    "job": "job",
    "name": "readings",
    "worker_id": "a",
    "address": "127.0.0.1:1",
}
LOOK = "/api/v1/names?job=job&name=readings"


async def test_a_name_exists_as_long_as_the_connection() -> None:
    async with (
        serve_control_plane(CONFIG) as served,
        aiohttp.ClientSession(
            f"http://{served.address}", headers=authorization_headers(served.token)
        ) as session,
    ):
        assert await get(session, LOOK) == (200, {"addresses": [], "failure": None})
        waiting = asyncio.ensure_future(get(session, f"{LOOK}&producers=2&wait_ms=60000"))
        first = await session.post("/api/v1/names", json=FIELDS)
        assert first.status == 200
        second = await session.post(
            "/api/v1/names",
            json={**FIELDS, "id": "1" * 32, "worker_id": "b", "address": "127.0.0.1:2"},
        )
        assert await waiting == (
            200,
            {
                "addresses": ["127.0.0.1:1", "127.0.0.1:2"],
                "failure": None,
            },
        )
        async with session.delete(f"/api/v1/names/{'1' * 32}") as answer:
            assert answer.status == 200
        assert await get(session, LOOK) == (200, {"addresses": ["127.0.0.1:1"], "failure": None})
        second.close()
        first.close()
        while (await get(session, LOOK))[1]["addresses"]:
            pass
        assert await get(session, f"{LOOK}&producers=1&wait_ms=1") == (
            200,
            {"addresses": [], "failure": None},
        )


async def test_the_end_of_a_coordinator_ends_the_requests_that_hold_names() -> None:
    async with aiohttp.ClientSession() as session:
        async with serve_control_plane(CONFIG) as served:
            headers = authorization_headers(served.token)
            url = f"http://{served.address}/api/v1/names"
            held = await session.post(url, json=FIELDS, headers=headers)
        assert await held.read() == b""


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "must have the fields address, id, job"),
        ({**FIELDS, "id": "1"}, "32 hexadecimal digits"),
        ({**FIELDS, "address": "here"}, "is not an address"),
        ({**FIELDS, "name": "n" * 1001}, "name is not a text of at most 1000"),
        ({**FIELDS, "name": 1}, "name is not a text"),
    ],
)
async def test_malformed_names_are_refused(fields: dict[str, Any], why: str) -> None:
    async with (
        serve_control_plane(CONFIG) as served,
        aiohttp.ClientSession(
            f"http://{served.address}", headers=authorization_headers(served.token)
        ) as session,
    ):
        async with session.post("/api/v1/names", json=fields) as answer:
            assert answer.status == 400
            assert why in (await answer.json())["error"]["message"]
        async with session.post("/api/v1/names", data=b"{") as answer:
            assert "is not JSON" in (await answer.json())["error"]["message"]


@pytest.mark.parametrize(
    "spoilt",
    [
        {"code": "6"},
        {"text": 1},
        {"unread": 1},
        {"unread": ["0"]},
        {"remembered_ms": "1"},
        {"more": 1},
    ],
)
async def test_a_malformed_failure_is_refused(spoilt: dict[str, Any]) -> None:
    said = {"code": 6, "text": "boom", "unread": [0], "remembered_ms": 1000, **spoilt}
    async with (
        serve_control_plane(CONFIG) as served,
        aiohttp.ClientSession(
            f"http://{served.address}", headers=authorization_headers(served.token)
        ) as session,
    ):
        held = await session.post("/api/v1/names", json=FIELDS)
        async with session.delete(f"/api/v1/names/{FIELDS['id']}", json=said) as answer:
            assert answer.status == 400
        assert (await get(session, LOOK))[1]["failure"] is None
        held.close()
