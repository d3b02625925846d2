"""A worker's end of the control plane, when the other end is not there."""

from __future__ import annotations

import pytest
from aiohttp import web

from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.control.messages import Register
from flinknet.config import ClusterConfig
from flinknet.errors import RemoteTransportError
from tests.unit.cluster.control_plane import CONFIG, serve_control_plane, served_websocket


async def test_a_worker_finds_no_coordinator() -> None:
    async with serve_control_plane(CONFIG) as gone:
        pass
    async with gone.link() as link:
        with pytest.raises(RemoteTransportError, match=f"no coordinator at {gone.address}"):
            await link.register(Register("worker-0", 1, "127.0.0.1:1", 1))
    async with gone.client() as client:
        with pytest.raises(RemoteTransportError, match="cannot be reached"):
            await client.progress("job")


async def test_a_coordinator_that_goes_while_a_worker_registers() -> None:
    async def hang_up(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await socket.close()
        return socket

    async with (
        served_websocket(hang_up) as address,
        ControlLink(address, new_token(), ClusterConfig()) as link,
    ):
        with pytest.raises(RemoteTransportError, match="is gone"):
            await link.register(Register("worker-0", 1, "127.0.0.1:1", 1))
