"""A coordinator that serves the control plane in the test's own event loop."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Handler

from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.control.http_server import HttpServer
from flinknet.cluster.control.http_transport import http_link
from flinknet.cluster.control.messages import Message, Register
from flinknet.cluster.coordinator.application import control_plane
from flinknet.cluster.coordinator.coordinator import Coordinator
from flinknet.cluster.coordinator.jobs.job_store import JobStore
from flinknet.config import ClusterConfig

__all__ = [
    "CONFIG",
    "ServedCoordinator",
    "expect",
    "get",
    "mute_server",
    "serve_control_plane",
    "served_websocket",
]

CONFIG = ClusterConfig(
    workers=2,
    cause_grace_ms=20.0,
    control_message_bytes_max=64 * 1024,
    job_bytes_max=200_000,
    collect_bytes_max=1024,
)


@dataclass(frozen=True)
class ServedCoordinator:
    """A running coordinator and how to reach it."""

    coordinator: Coordinator
    address: str
    token: str

    def link(self, token: str | None = None) -> ControlLink:
        """Return a worker's end that is not registered yet."""
        return http_link(
            self.address, self.token if token is None else token, self.coordinator.config
        )

    def client(self, token: str | None = None) -> CoordinatorClient:
        """Return a client."""
        return CoordinatorClient(
            self.address, self.token if token is None else token, self.coordinator.config
        )

    @asynccontextmanager
    async def worker(self, worker_id: str, *, slots: int = 2) -> AsyncIterator[ControlLink]:
        """Yield the link of a registered worker; the test plays this worker."""
        async with self.link() as link:
            await link.register(Register(worker_id, 4711, f"{worker_id}.invalid:1", slots))
            yield link


@asynccontextmanager
async def serve_control_plane(
    config: ClusterConfig, before: ServedCoordinator | None = None
) -> AsyncIterator[ServedCoordinator]:
    """Serve a coordinator on a free port, or in place of the coordinator ``before``."""
    store = JobStore(Path(config.state_directory)) if config.state_directory else None
    coordinator = Coordinator(config, store=store)
    token = new_token() if before is None else before.token
    port = 0 if before is None else int(before.address.rpartition(":")[2])
    server = HttpServer(
        control_plane(coordinator, token), config, refusals=coordinator.http_refusals
    )
    try:
        address = await server.start(config.host, port, "port")
        yield ServedCoordinator(coordinator, address, token)
    finally:
        coordinator.close("the test ends")
        await coordinator.finish_checkpoints()
        await server.close()
        if store is not None:
            store.close()


@asynccontextmanager
async def served_websocket(handler: Handler) -> AsyncIterator[str]:
    """Serve a websocket that is no coordinator's at the coordinator's path; yield the address."""
    application = web.Application()
    application.add_routes([web.get("/api/v1/worker", handler)])
    runner = web.AppRunner(application, shutdown_timeout=0.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def mute_server() -> AsyncIterator[str]:
    """Yield the address of a frozen coordinator: its kernel accepts connections and bytes, but it
    never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


async def expect(link: ControlLink, kind: type[Message]) -> Message:
    """Return the next message, which must be of this kind."""
    message = await link.receive()
    assert isinstance(message, kind), message
    return message


async def get(session: aiohttp.ClientSession, path: str) -> tuple[int, Any]:
    """Return status and body of a JSON answer."""
    async with session.get(path) as response:
        return response.status, await response.json()
