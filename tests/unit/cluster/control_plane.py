"""A coordinator that serves the control plane in the test's own event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from flinknet.cluster.client import CoordinatorClient
from flinknet.cluster.control_link import ControlLink
from flinknet.cluster.coordinator import Coordinator
from flinknet.cluster.credentials import new_token
from flinknet.cluster.messages import Message, Register
from flinknet.cluster.rest import ControlPlane
from flinknet.config import ClusterConfig

__all__ = ["ServedCoordinator", "expect", "serve_control_plane"]


@dataclass(frozen=True)
class ServedCoordinator:
    """A running coordinator and how to reach it."""

    coordinator: Coordinator
    address: str
    token: str

    def link(self, token: str | None = None) -> ControlLink:
        """A worker's end that is not registered yet."""
        config = self.coordinator.config
        return ControlLink(
            self.address,
            self.token if token is None else token,
            control_message_bytes_max=config.control_message_bytes_max,
        )

    def client(self, token: str | None = None) -> CoordinatorClient:
        """A client."""
        return CoordinatorClient(self.address, self.token if token is None else token)

    @asynccontextmanager
    async def worker(self, worker_id: str, *, slots: int = 2) -> AsyncIterator[ControlLink]:
        """A registered worker, whose part the test plays."""
        async with self.link() as link:
            await link.register(Register(worker_id, 4711, f"{worker_id}.invalid:1", slots))
            yield link


@asynccontextmanager
async def serve_control_plane(config: ClusterConfig) -> AsyncIterator[ServedCoordinator]:
    """Serve a coordinator on a free port."""
    coordinator, token = Coordinator(config), new_token()
    runner = web.AppRunner(ControlPlane(coordinator, token).application(), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, config.host, 0).start()
        host, port = runner.addresses[0][:2]
        yield ServedCoordinator(coordinator, f"{host}:{port}", token)
    finally:
        coordinator.close("the test ends")
        await runner.cleanup()


async def expect(link: ControlLink, kind: type[Message]) -> Message:
    """The next message, which must be of this kind."""
    message = await link.receive()
    assert isinstance(message, kind), message
    return message
