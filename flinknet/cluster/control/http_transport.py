"""A worker's transport to its coordinator over HTTP: a websocket and separate requests.

The websocket carries only small messages. Deployments are fetched, and results are uploaded, over
separate HTTP connections, so that they never delay a heartbeat.

The timeout of a request starts after it has waited for its turn, and restarts with each piece of a
body that is sent or received. It thus measures only the silence of the coordinator.

Each request may be sent twice: its connection may break although the coordinator lives, for
instance when the coordinator closes it as idle. aiohttp then sends the request once more on another
connection (RFC 9110, 9.2.2).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.transport import unanswered
from flinknet.config import ClusterConfig
from flinknet.errors import (
    ConfigurationError,
    JobError,
    LocalTransportError,
    RemoteTransportError,
)
from flinknet.net.http_client import HttpClient
from flinknet.net.stall_tolerant_timer import stall_tolerant_timeout
from flinknet.net.tls import tls_of

__all__ = ["HttpTransport", "http_link"]

_REQUESTS_MAX = 3
"""Concurrent requests next to the websocket; deployments, results and answers take turns."""

_PIECE_BYTES = 256 * 1024
"""Size of the pieces in which a body is sent. After each piece the event loop runs, and the timeout
restarts."""


def http_link(coordinator: str, token: str, config: ClusterConfig) -> ControlLink:
    """Make a worker's link to the coordinator at ``"host:port"``."""
    return ControlLink(HttpTransport(coordinator, token, config), config)


class HttpTransport:
    """The connections of one worker to its coordinator."""

    def __init__(self, coordinator: str, token: str, config: ClusterConfig) -> None:
        """``coordinator`` is ``"host:port"``."""
        self.address = coordinator
        self._message_bytes_max = config.control_message_bytes_max
        self._timeout_ms = config.coordinator_timeout_ms
        tls = config.tls
        self._http = HttpClient(coordinator, token, tls_of(tls), tls.coordinator_name)
        self._turns = asyncio.Semaphore(_REQUESTS_MAX)

    async def open(self) -> None:
        """Open the HTTP session."""
        self._http.open()

    async def close(self) -> None:
        """Close the HTTP session."""
        await self._http.close()

    async def connect(self) -> _WebSocket:
        """Open the websocket."""
        try:
            return _WebSocket(
                await self._http.websocket(
                    "/api/v1/worker",
                    max_msg_size=self._message_bytes_max,
                    timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
                )
            )
        except aiohttp.WSServerHandshakeError as error:
            raise ConfigurationError(
                f"the coordinator at {self.address} refused the connection ({error.status}): "
                "check the cluster token"
            ) from error
        except aiohttp.ClientError as error:
            is_there = not isinstance(error, aiohttp.ClientConnectorError)
            hint = self._http.hint_of_hang_up() if is_there else ""
            raise RemoteTransportError(
                f"no coordinator at {self.address}: {self._http.reason(error)}{hint}"
            ) from error

    async def deployment(self, job_id: str, attempt: int, worker_id: str) -> bytes:
        path = f"/api/v1/jobs/{job_id}/attempts/{attempt}/deployment/{worker_id}"
        return await self._request("GET", path)

    async def committables(self, job_id: str, attempt: int) -> bytes:
        return await self._request("GET", f"/api/v1/jobs/{job_id}/attempts/{attempt}/committables")

    async def take_results(self, job_id: str, attempt: int, worker_id: str, body: bytes) -> bytes:
        path = f"/api/v1/jobs/{job_id}/attempts/{attempt}/results/{worker_id}"
        return await self._request("PUT", path, body)

    async def take_answer(self, worker_id: str, request: int, body: bytes) -> None:
        await self._request("PUT", f"/api/v1/workers/{worker_id}/answers/{request}", body)

    async def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        async with self._turns:
            return await self._request_in_turn(method, path, body)

    async def _request_in_turn(self, method: str, path: str, body: bytes | None) -> bytes:
        try:
            async with stall_tolerant_timeout(self._timeout_ms / 1000) as begin_anew:
                data = None if body is None else _Pieces(body, begin_anew)
                async with self._http.request(method, path, data=data) as response:
                    content = bytearray()
                    async for piece in response.content.iter_any():
                        begin_anew()
                        content += piece
                    if response.status >= 400:
                        raise JobError(json.loads(content)["error"]["message"])
                    return bytes(content)
        except TimeoutError as error:
            raise LocalTransportError(unanswered(self.address, self._timeout_ms)) from error
        except aiohttp.ClientConnectionError as error:
            raise LocalTransportError(
                f"the connection to the coordinator at {self.address} was lost during "
                f"{method} {path}: {error}"
            ) from error
        except aiohttp.ClientError as error:
            raise LocalTransportError(f"{method} {path} to the coordinator: {error}") from error


class _WebSocket:
    """A worker's end of the websocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, message: bytes) -> None:
        await self._socket.send_bytes(message)

    async def receive(self) -> bytes | None:
        frame = await self._socket.receive()
        return frame.data if frame.type is aiohttp.WSMsgType.BINARY else None

    async def close(self) -> None:
        await self._socket.close()


class _Pieces(Payload):
    """A body that is sent in pieces, with a call of ``begin_anew`` before each.

    Unlike an iterator, it can be sent again.
    """

    def __init__(self, body: bytes, begin_anew: Callable[[], None]) -> None:
        super().__init__(body, content_type="application/octet-stream")
        self._body = body
        self._begin_anew = begin_anew

    @property
    def size(self) -> int:
        """See ``Payload`` for this and the methods below."""
        return len(self._body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._body.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        for start in range(0, len(self._body), _PIECE_BYTES):
            self._begin_anew()
            await writer.write(self._body[start : start + _PIECE_BYTES])
