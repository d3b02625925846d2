"""A worker's transport to its coordinator when the other end is missing or silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.control.http_transport import http_link
from flinknet.cluster.control.messages import Register
from flinknet.config import ClusterConfig
from flinknet.errors import LocalTransportError, RemoteTransportError
from tests.unit.cluster.control_plane import (
    CONFIG,
    mute_server,
    serve_control_plane,
    served_websocket,
)

IMPATIENT = replace(CONFIG, coordinator_timeout_ms=60.0, heartbeat_interval_ms=10.0)
REGISTER = Register("worker-0", 1, "127.0.0.1:1", 1)
UNANSWERED = r"the coordinator at 127\.0\.0\.1:\d+ has not answered for 60 ms"


async def test_a_worker_finds_no_coordinator() -> None:
    async with serve_control_plane(CONFIG) as gone:
        pass
    async with gone.link() as link:
        with pytest.raises(RemoteTransportError, match=f"no coordinator at {gone.address}"):
            await link.register(REGISTER)


async def test_a_coordinator_that_goes_while_a_worker_registers() -> None:
    async def hang_up(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await socket.close()
        return socket

    async with (
        served_websocket(hang_up) as address,
        http_link(address, new_token(), ClusterConfig()) as link,
    ):
        with pytest.raises(RemoteTransportError, match="is gone"):
            await link.register(REGISTER)


async def take_in(request: web.Request) -> web.WebSocketResponse:
    """Read on and never answer."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for _ in socket:
        pass
    return socket


async def test_a_worker_does_not_wait_for_a_frozen_coordinator_to_connect() -> None:
    async with (
        mute_server() as address,
        http_link(address, new_token(), IMPATIENT) as link,
    ):
        with pytest.raises(RemoteTransportError, match=UNANSWERED):
            await link.register(REGISTER)


async def test_a_worker_that_registers_with_a_mute_coordinator_gives_up() -> None:
    async with (
        served_websocket(take_in) as address,
        http_link(address, new_token(), IMPATIENT) as link,
    ):
        with pytest.raises(RemoteTransportError, match=UNANSWERED):
            await link.register(REGISTER)


async def test_a_coordinator_whose_connection_breaks_during_a_call_is_named() -> None:
    """This does not depend on the error of the library below."""

    def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        async with http_link(f"{host}:{port}", new_token(), CONFIG) as link:
            with pytest.raises(
                LocalTransportError,
                match=rf"^the connection to the coordinator at {host}:{port} was lost during GET /",
            ):
                await link.fetch_committables("job", 0)


@asynccontextmanager
async def slow_coordinator(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[str]:
    application = web.Application(client_max_size=1 << 30)
    application.add_routes([web.route("*", "/{path:.*}", answer)])
    runner = web.AppRunner(application, shutdown_timeout=0.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


BRIEF = replace(CONFIG, coordinator_timeout_ms=1000.0, heartbeat_interval_ms=10.0)


async def turns_beyond_the_timeout() -> AsyncIterator[float]:
    """Yield in each turn of the event loop, for longer than the time-out, the part of it that has
    passed."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    until = begun + 1.2 * BRIEF.coordinator_timeout_ms / 1000
    while (now := loop.time()) < until:
        await asyncio.sleep(0)
        yield (now - begun) / (until - begun)


async def test_a_timeout_counts_neither_the_wait_for_a_turn_nor_an_answer_that_moves() -> None:
    """Three requests take longer than the time-out, and other requests wait for them."""
    under_way = most = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        response = web.StreamResponse()
        await response.prepare(request)
        if most <= 3 and under_way == most:
            async for _ in turns_beyond_the_timeout():
                await response.write(b" ")
        under_way -= 1
        return response

    async with (
        slow_coordinator(answer) as address,
        http_link(address, new_token(), BRIEF) as link,
    ):
        await asyncio.gather(
            *(link.upload_answer("worker-0", number, b"body") for number in range(9))
        )
    assert most == 3


async def test_a_timeout_does_not_count_the_time_in_which_a_body_is_sent() -> None:
    """This holds as long as the coordinator reads some of it from time to time."""
    size = 32 << 20
    body = bytes(size)

    async def answer(request: web.Request) -> web.Response:
        rest = size
        async for passed in turns_beyond_the_timeout():
            if rest > size * (1 - passed):
                rest -= len(await request.content.read(1 << 18))
        while rest:
            rest -= len(await request.content.read(rest))
        return web.Response()

    async with (
        slow_coordinator(answer) as address,
        http_link(address, new_token(), BRIEF) as link,
    ):
        await link.upload_answer("worker-0", 1, body)


async def test_a_request_is_sent_again_if_its_connection_breaks_before_the_answer() -> None:
    """Its whole body is sent again, also if the coordinator had received a part of it."""
    body = bytes(range(256)) * 4096
    received: list[bytes] = []

    async def answer(request: web.Request) -> web.Response:
        if not received:
            received.append(await request.content.readexactly(1_000))
            assert request.transport is not None
            request.transport.abort()
        received.append(await request.read())
        return web.Response()

    async with (
        slow_coordinator(answer) as address,
        http_link(address, new_token(), BRIEF) as link,
    ):
        await link.upload_answer("worker-0", 1, body)
    assert received == [body[:1_000], body]
