"""A worker's end of the control plane: one websocket for messages, HTTP beside it for bulk.

The websocket carries only small messages, see ``messages.py``; a deployment is fetched and results
are uploaded over HTTP connections of their own, so that neither delays a heartbeat.

A request waits for its turn before its time-out begins, and the time-out begins anew with each
piece of a body that goes or comes: it counts the silence of the coordinator, and nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
import msgpack

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.messages import (
    Message,
    Refused,
    Register,
    Registered,
    decode,
    encode,
)
from flinknet.cluster.control.subtask_result import pack_results
from flinknet.config import ClusterConfig
from flinknet.errors import (
    ConfigurationError,
    JobError,
    LocalTransportError,
    RemoteProtocolError,
    RemoteTransportError,
)
from flinknet.graph.deployment import SubtaskDescriptor, descriptors_of_fields
from flinknet.net.patience import patient_timeout

__all__ = ["ControlLink", "Deployment", "unanswered"]

_REQUESTS_MAX = 3
"""At a time, beside the websocket: deployments, results and answers take turns."""

_PIECE_BYTES = 256 * 1024
"""Size of the pieces in which a body is sent. After each the event loop turns, and the time-out
begins anew."""


class Deployment(NamedTuple):
    """A worker's part in an attempt."""

    graph: bytes
    """The job graph, for ``JobGraph.from_bytes``."""
    subtasks: list[SubtaskDescriptor]
    restored_from: str
    """The checkpoint, by its directory, that the attempt continues from; empty if it begins."""
    restored_finished: set[tuple[int, int]]
    """Subtasks, vertex and index, that had come to their end in it."""
    checkpoints_as: int
    """The number of the attempt in whose name checkpoints are written: that of those regions which
    go on, if the attempt is a restart of others."""


class ControlLink:
    """The connection of one worker to its coordinator. ``async with``, then ``register``."""

    def __init__(self, coordinator: str, token: str, config: ClusterConfig) -> None:
        """``coordinator`` is ``"host:port"``."""
        self._coordinator = coordinator
        self._token = token
        self._message_bytes_max = config.control_message_bytes_max
        self._timeout_ms = config.coordinator_timeout_ms
        self._session: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._turns = asyncio.Semaphore(_REQUESTS_MAX)

    async def __aenter__(self) -> Self:
        # A connection for each call, as in client.py.
        self._session = aiohttp.ClientSession(
            f"http://{self._coordinator}",
            headers=authorization_headers(self._token),
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            # One of aiohttp's would count the time in which this side is held up.
            timeout=aiohttp.ClientTimeout(total=None),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._socket is not None:
            await self._socket.close()
        assert self._session is not None
        await self._session.close()

    async def register(self, message: Register) -> Registered:
        """Join the cluster; again, on a new connection, if that is lost on which it did before.

        ConfigurationError if the coordinator refuses, RemoteTransportError if it is not there, not
        any more, or does not answer within ``coordinator_timeout_ms``.
        """
        try:
            async with patient_timeout(self._timeout_ms / 1000):
                return await self._register(message)
        except TimeoutError:
            raise RemoteTransportError(self.unanswered()) from None

    async def _register(self, message: Register) -> Registered:
        assert self._session is not None
        if self._socket is not None:
            await self._socket.close()
        try:
            self._socket = await self._session.ws_connect(
                "/api/v1/worker",
                max_msg_size=self._message_bytes_max,
                timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
            )
        except aiohttp.WSServerHandshakeError as error:
            raise ConfigurationError(
                f"the coordinator at {self._coordinator} refused the connection ({error.status}): "
                "check the cluster token"
            ) from error
        except aiohttp.ClientError as error:
            raise RemoteTransportError(f"no coordinator at {self._coordinator}: {error}") from error
        await self.send(message)
        answer = await self.receive()
        if answer is None:
            raise RemoteTransportError(f"the coordinator at {self._coordinator} is gone")
        if isinstance(answer, Refused):
            raise ConfigurationError(answer.reason)
        if not isinstance(answer, Registered):
            raise RemoteProtocolError(
                f"the coordinator answered {type(answer).__name__} to Register"
            )
        return answer

    def unanswered(self) -> str:
        """What to say of the coordinator once it has been silent for too long."""
        return unanswered(self._coordinator, self._timeout_ms)

    async def send(self, message: Message) -> None:
        """Send a message. Nothing happens if the connection is gone: ``receive`` says so."""
        assert self._socket is not None
        with suppress(ConnectionError):
            await self._socket.send_bytes(encode(message))

    async def receive(self) -> Message | None:
        """The next message; None when the connection has ended."""
        assert self._socket is not None
        frame = await self._socket.receive()
        if frame.type is aiohttp.WSMsgType.BINARY:
            return decode(frame.data)
        return None

    async def fetch_deployment(self, job_id: str, attempt: int, worker_id: str) -> Deployment:
        """What this worker is to run."""
        path = f"/api/v1/jobs/{job_id}/attempts/{attempt}/deployment/{worker_id}"
        body = msgpack.unpackb(await self._request("GET", path))
        return Deployment(
            body["graph"],
            descriptors_of_fields(body["subtasks"]),
            body["restored_from"],
            {(vertex, index) for vertex, index in body["restored_finished"]},
            body["checkpoints_as"],
        )

    async def fetch_committables(self, job_id: str, attempt: int) -> tuple[bytes, list[bytes]]:
        """The job graph's bytes, and what its two-phase sinks have prepared, subtask by subtask."""
        path = f"/api/v1/jobs/{job_id}/attempts/{attempt}/committables"
        body = msgpack.unpackb(await self._request("GET", path))
        return body["graph"], body["committables"]

    async def upload_results(
        self, job_id: str, attempt: int, worker_id: str, results: Mapping[tuple[int, int], bytes]
    ) -> dict[tuple[int, int], str]:
        """Hand in the results of finished subtasks, by vertex and index. Return why the coordinator
        refuses some of them, if it does; JobError if it refuses them all."""
        path = f"/api/v1/jobs/{job_id}/attempts/{attempt}/results/{worker_id}"
        refused = msgpack.unpackb(await self._request("PUT", path, pack_results(results)))
        return {(vertex, index): reason for vertex, index, reason in refused}

    async def upload_answer(self, worker_id: str, request: int, body: bytes) -> None:
        """Answer a request that has a number; JobError if nobody waits for it any more."""
        await self._request("PUT", f"/api/v1/workers/{worker_id}/answers/{request}", body)

    async def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        async with self._turns:
            return await self._request_in_turn(method, path, body)

    async def _request_in_turn(self, method: str, path: str, body: bytes | None) -> bytes:
        assert self._session is not None
        try:
            async with patient_timeout(self._timeout_ms / 1000) as begin_anew:
                data, headers = None, {}
                if body is not None:
                    data = _in_pieces(body, begin_anew)
                    headers["Content-Length"] = str(len(body))
                async with self._session.request(
                    method, path, data=data, headers=headers
                ) as response:
                    content = bytearray()
                    async for piece in response.content.iter_any():
                        begin_anew()
                        content += piece
                    if response.status >= 400:
                        raise JobError(json.loads(content)["error"]["message"])
                    return bytes(content)
        except TimeoutError as error:
            raise LocalTransportError(self.unanswered()) from error
        except aiohttp.ClientConnectionError as error:
            raise LocalTransportError(
                f"the connection to the coordinator at {self._coordinator} was lost during "
                f"{method} {path}: {error}"
            ) from error
        except aiohttp.ClientError as error:
            raise LocalTransportError(f"{method} {path} to the coordinator: {error}") from error


async def _in_pieces(body: bytes, begin_anew: Callable[[], None]) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PIECE_BYTES):
        begin_anew()
        yield body[start : start + _PIECE_BYTES]


def unanswered(coordinator: str, timeout_ms: float) -> str:
    """What to say of a coordinator that is connected and mute."""
    return (
        f"the coordinator at {coordinator} has not answered for {timeout_ms:.0f} ms "
        "(cluster.coordinator_timeout_ms): it hangs or is stopped"
    )
