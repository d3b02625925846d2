"""A coordinator that is there and says nothing: workers and clients give it up, and say so."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from aiohttp import web

from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.control.messages import Register, Registered, encode
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.worker.worker import Worker
from flinknet.errors import RemoteTransportError
from flinknet.net.network_environment import NetworkEnvironment
from tests.unit.cluster.control_plane import mute_server, served_websocket
from tests.unit.cluster.graphs import keyed_graph
from tests.unit.cluster.running_cluster import CONFIG, running_cluster

IMPATIENT = replace(CONFIG, coordinator_timeout_ms=60.0)
REGISTER = Register("worker-0", 1, "127.0.0.1:1", 1)
UNANSWERED = r"the coordinator at 127\.0\.0\.1:\d+ has not answered for 60 ms"


async def take_in(request: web.Request) -> web.WebSocketResponse:
    """Read on, and never answer."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for _ in socket:
        pass
    return socket


async def register_only(request: web.Request) -> web.WebSocketResponse:
    """Let a worker in, then read on and never answer."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    await socket.receive()
    await socket.send_bytes(encode(Registered(10.0, 10.0)))
    async for _ in socket:
        pass
    return socket


async def test_a_worker_does_not_wait_for_a_frozen_coordinator_to_connect() -> None:
    async with (
        mute_server() as address,
        ControlLink(address, new_token(), IMPATIENT) as link,
    ):
        with pytest.raises(RemoteTransportError, match=UNANSWERED):
            await link.register(REGISTER)


async def test_a_worker_that_registers_with_a_mute_coordinator_gives_up() -> None:
    async with (
        served_websocket(take_in) as address,
        ControlLink(address, new_token(), IMPATIENT) as link,
    ):
        with pytest.raises(RemoteTransportError, match=UNANSWERED):
            await link.register(REGISTER)


async def test_a_worker_whose_coordinator_falls_silent_ends_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with (
        NetworkEnvironment() as environment,
        served_websocket(register_only) as address,
        ControlLink(address, new_token(), IMPATIENT) as link,
    ):
        registered = await link.register(REGISTER)
        worker = Worker(environment, link, IMPATIENT)
        assert await worker.serve(registered, asyncio.Event()) is ExitStatus.COORDINATOR_LOST
    said = capsys.readouterr().err
    assert said.startswith("lost the coordinator: the coordinator at ")
    assert "has not answered for 60 ms (cluster.coordinator_timeout_ms)" in said


async def test_a_blocked_loop_is_no_silence_of_the_coordinator() -> None:
    """Of many heartbeats, and of twice the time-out: what it could not hear does not count."""
    config = replace(CONFIG, coordinator_timeout_ms=500.0)
    async with running_cluster(config=config) as cluster:
        while len(cluster.stops) < config.workers:
            await asyncio.sleep(0)
        # As a user function does.
        time.sleep(2 * config.coordinator_timeout_ms / 1000)  # noqa: ASYNC251
        async with cluster.served.client() as client:
            job_id = await client.submit(Submission.of_graph(keyed_graph()))
            await client.follow(job_id, interval_ms=10_000)
        assert not any(worker.done() for worker in cluster.workers)


@pytest.mark.parametrize("call", ["submit", "progress", "cancel"])
async def test_no_call_of_a_client_waits_for_a_frozen_coordinator(call: str) -> None:
    """But for the time that the call itself asks for."""
    impatient = replace(IMPATIENT, cancel_timeout_ms=1.0, cause_grace_ms=0.0)
    async with (
        mute_server() as address,
        CoordinatorClient(address, new_token(), impatient) as client,
    ):
        waits = {"submit": "61", "progress": "80", "cancel": "60"}
        with pytest.raises(RemoteTransportError, match=f"not answered for {waits[call]} ms"):
            if call == "submit":
                await client.submit(Submission.of_graph(keyed_graph()))
            elif call == "progress":
                await client.progress("job", wait_ms=20)
            else:
                await client.cancel("job")
