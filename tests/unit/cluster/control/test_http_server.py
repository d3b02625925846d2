"""Misuse of connections to the control plane costs good clients nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from flinknet.cluster.control.credentials import Role, authorization_headers, role_token
from flinknet.cluster.control.http_server import HttpServer, check_role
from flinknet.cluster.control.submission import Submission
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError
from flinknet.net import stall_tolerant_timer
from tests.unit.cluster.control_plane import serve_control_plane
from tests.unit.cluster.graphs import keyed_graph
from tests.unit.cluster.running_cluster import CONFIG, running_cluster

QUICK = replace(CONFIG, http_request_timeout_ms=50.0)
FEW = replace(CONFIG, http_connections_max=12)


@asynccontextmanager
async def connected(
    address: str, sent: bytes = b""
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Return all bytes until the other side closes the connection."""
    received = b""
    try:
        while data := await reader.read(65_536):
            received += data
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /livez HTTP/1.1\r\nHost: a\r\n", b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"],
    ids=["silent", "half a head", "kept alive"],
)
async def test_a_connection_that_asks_for_nothing_is_reaped(sent: bytes) -> None:
    async with (
        serve_control_plane(QUICK) as served,
        connected(served.address, sent) as (reader, _),
    ):
        answer = await until_closed(reader)
        assert answer.endswith(b"ok\n") == sent.endswith(b"\r\n\r\n")


async def test_a_connection_is_not_reaped_while_a_worker_is_held_up() -> None:
    """The connection may belong to that worker, which can neither send requests nor read an
    answer."""
    application = web.Application()
    is_held_up = True
    asked: list[float] = []

    def peer_was_held_up(within_s: float) -> bool:
        asked.append(within_s)
        return is_held_up

    server = HttpServer(application, QUICK, peer_was_held_up)
    try:
        address = await server.start("127.0.0.1", 0, "port")
        async with connected(address) as (reader, _):
            closed = asyncio.create_task(until_closed(reader))
            while len(asked) < 3:
                assert not closed.done()
                await asyncio.sleep(0)
            is_held_up = False
            assert await closed == b""
            assert set(asked) == {QUICK.http_request_timeout_ms / 1000}
    finally:
        await server.close()


async def test_the_time_in_which_the_server_was_held_up_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It could not have read a request that had come by then."""
    monkeypatch.setattr(stall_tolerant_timer, "LATE_S", 0.01)
    request = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
    async with (
        serve_control_plane(QUICK) as served,
        connected(served.address, request) as (reader, writer),
    ):
        await reader.readuntil(b"ok\n")
        writer.write(request)
        time.sleep(0.2)  # noqa: ASYNC251
        assert (await until_closed(reader)).endswith(b"ok\n")


async def test_a_flood_of_requests_takes_turns_with_the_requests_of_others() -> None:
    order: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        order.append(request.path)
        return web.Response()

    application = web.Application()
    application.add_routes([web.get("/{name}", answer)])
    server = HttpServer(application, CONFIG)
    try:
        address = await server.start("127.0.0.1", 0, "port")
        flood = b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n" * 200
        one = b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n"
        async with connected(address, flood), connected(address, one) as (reader, _):
            await reader.readuntil(b"\r\n\r\n")
        assert order.index("/one") < 20
    finally:
        await server.close()


async def test_a_head_that_comes_byte_by_byte_does_not_keep_a_connection() -> None:
    """This holds for any number of bytes (slow loris)."""
    async with (
        serve_control_plane(QUICK) as served,
        connected(served.address, b"GET /livez HTTP/1.1\r\n") as (reader, writer),
    ):
        closed = asyncio.create_task(until_closed(reader))
        while not closed.done():
            writer.write(b"X: y\r\n")
            await asyncio.sleep(0.005)
        assert await closed == b""


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "silent"),
        (b"GET /livez HTTP/1.1\r\nHost: a\r\n", "slow"),
        (b"POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nTOKEN\r\nContent-Length: 9\r\n\r\nab", "slow"),
        (bytes(range(256)) + b"\r\n\r\n", "malformed"),
        (b"GET /v1/overview HTTP/1.1\r\nHost: a\r\n\r\n", "unauthorized"),
        (b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", None),
    ],
    ids=["silent", "half a head", "half a body", "garbage", "no token", "kept alive"],
)
async def test_refusals_are_counted_by_reason(sent: bytes, reason: str | None) -> None:
    async with serve_control_plane(QUICK) as served:
        token = f"Authorization: Bearer {served.token}".encode()
        async with connected(served.address, sent.replace(b"TOKEN", token)) as (reader, _):
            await until_closed(reader)
        counts = served.coordinator.http_refusals.counts
        assert counts == ({} if reason is None else {reason: 1})


@pytest.mark.parametrize(
    "sent", [b"GET /livez HTT", b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", b""]
)
async def test_a_peer_that_leaves_before_the_end_of_a_request_is_counted(sent: bytes) -> None:
    async with serve_control_plane(CONFIG) as served:
        async with connected(served.address, sent) as (reader, writer):
            if sent.endswith(b"\n"):
                await reader.readuntil(b"\r\n")
            writer.write_eof()
            await until_closed(reader)
        expected = {"left": 1} if sent and not sent.endswith(b"\n") else {}
        assert served.coordinator.http_refusals.counts == expected


async def test_an_answer_that_is_not_read_does_not_keep_a_connection() -> None:
    body = b"x" * 30_000_000

    async def give(request: web.Request) -> web.Response:
        return web.Response(body=body)

    application = web.Application()
    application.add_routes([web.get("/", give)])
    server = HttpServer(application, QUICK)
    try:
        address = await server.start("127.0.0.1", 0, "port")
        request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        async with connected(address, request) as (reader, writer):
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            for is_there in (True, False):
                while bool(len(server._connections)) != is_there:
                    await asyncio.sleep(0)
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert len(await until_closed(reader)) < len(body)
        assert server._refusals.counts == {"unread": 1}
    finally:
        await server.close()


async def test_a_crowd_that_says_nothing_makes_room_for_a_job() -> None:
    """There are as many silent connections as the limit allows, and as many again after each closed
    one."""
    async with running_cluster(config=FEW) as cluster:
        address = cluster.served.address
        crowd: list[asyncio.StreamWriter] = []
        host, _, port = address.rpartition(":")

        async def come() -> None:
            while True:
                _, writer = await asyncio.open_connection(host, int(port))
                crowd.append(writer)

        coming = asyncio.create_task(come())
        while len(crowd) < 3 * FEW.http_connections_max:
            assert not coming.done()
            await asyncio.sleep(0)
        client = cluster.served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        result = await client.follow(job_id, interval_ms=10)
        assert result.state == "FINISHED"
        assert not any(worker.done() for worker in cluster.workers)
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        for writer in crowd:
            writer.transport.abort()
        await asyncio.sleep(0)


async def test_a_long_poll_outlives_the_time_for_a_request() -> None:
    """The coordinator takes the time, not the client."""
    async with running_cluster(config=QUICK) as cluster:
        client = cluster.served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await client.follow(job_id, interval_ms=10_000)
        progress = await client.progress(job_id, wait_ms=150)
        assert progress.state == "FINISHED"


async def test_a_port_that_is_taken_is_refused() -> None:
    async with serve_control_plane(CONFIG) as served:
        port = int(served.address.rpartition(":")[2])
        server = HttpServer(web.Application(), CONFIG)
        with pytest.raises(ConfigurationError, match=r"choose another cluster\.coordinator_port"):
            await server.start("127.0.0.1", port, "cluster.coordinator_port")
        await server.close()


def test_fewer_connections_than_the_workers_need_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="http_connections_max is 11: choose at least"):
        ClusterConfig(workers=2, http_connections_max=11)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /api/v1/jobs?" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 9_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 9_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
        b"GET / HTTP/9.9.9\r\n\r\n",
        b"G\0T / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET  HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /%ff%00/.. HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET //[ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 what a browser says for https",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_a_request_that_is_no_http_is_refused_without_a_word_in_the_log(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The sender made the error and gets the answer.

    A traceback would appear on the user's terminal.
    """
    async with (
        serve_control_plane(QUICK) as served,
        connected(served.address, sent) as (reader, _),
    ):
        answer = await until_closed(reader)
    assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert [record for record in caplog.records if record.levelno >= logging.INFO] == []


async def test_an_error_of_this_process_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: web.Request) -> web.Response:
        raise ZeroDivisionError("ours")

    application = web.Application()
    application.add_routes([web.get("/", fail)])
    server = HttpServer(application, QUICK)
    try:
        address = await server.start("127.0.0.1", 0, "port")
        async with connected(address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as (reader, _):
            assert (await until_closed(reader)).startswith(b"HTTP/1.1 500")
    finally:
        await server.close()
    assert "ZeroDivisionError: ours" in caplog.text


@pytest.mark.parametrize(
    ("needed", "suffices"),
    [(Role.SUBMIT, "`flinknet token submit` makes one"), (Role.WORKER, "the cluster token itself")],
)
def test_the_token_of_a_lower_role_is_told_which_one_suffices(needed: Role, suffices: str) -> None:
    token = "a-token-of-enough-letters"
    shown = authorization_headers(role_token(token, Role.READ))
    with pytest.raises(web.HTTPForbidden) as refused:
        check_role(shown, token, needed)
    assert suffices in (refused.value.text or "")
