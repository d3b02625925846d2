"""A worker's end of the control plane: its conversation with the coordinator, and its requests.

``ControlLink`` encodes and decodes the data of a ``CoordinatorTransport`` (``transport.py``), and
registers the worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

import msgpack

from flinknet.cluster.control.messages import (
    Message,
    Refused,
    Register,
    Registered,
    decode,
    encode,
)
from flinknet.cluster.control.subtask_result import pack_results
from flinknet.cluster.control.transport import Conversation, CoordinatorTransport, unanswered
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError, RemoteProtocolError, RemoteTransportError
from flinknet.graph.deployment import SubtaskDescriptor, descriptors_of_fields
from flinknet.net.stall_tolerant_timer import stall_tolerant_timeout

__all__ = ["ControlLink", "Deployment"]


class Deployment(NamedTuple):
    """A worker's part of an attempt."""

    graph: bytes
    """The job graph, for ``JobGraph.from_bytes``."""
    subtasks: list[SubtaskDescriptor]
    restored_from: str
    """Directory of the checkpoint from which the attempt continues; empty if it starts anew."""
    restored_finished: set[tuple[int, int]]
    """Subtasks, by vertex and index, that had finished in that checkpoint."""
    checkpoints_as: int
    """Number of the attempt under which checkpoints are written. In a restart of some regions it is
    that of the regions that go on."""
    passes_printed_on: bool
    """Whether the job's client asks for the lines that its functions print."""


class ControlLink:
    """The connection of one worker to its coordinator. Use ``async with``, then ``register``."""

    def __init__(self, transport: CoordinatorTransport, config: ClusterConfig) -> None:
        self._transport = transport
        self._timeout_ms = config.coordinator_timeout_ms
        self._conversation: Conversation | None = None

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._conversation is not None:
            await self._conversation.close()
        await self._transport.close()

    async def register(self, message: Register) -> Registered:
        """Join the cluster, or join it again on a new connection after a loss of the old one.

        Raises ConfigurationError if the coordinator refuses. Raises RemoteTransportError if the
        coordinator is not there, disappears, does not answer within ``coordinator_timeout_ms``, or
        has been superseded by one that the worker has served.
        """
        try:
            async with stall_tolerant_timeout(self._timeout_ms / 1000):
                return await self._register(message)
        except TimeoutError:
            raise RemoteTransportError(self.unanswered()) from None

    async def _register(self, message: Register) -> Registered:
        if self._conversation is not None:
            await self._conversation.close()
        self._conversation = await self._transport.connect()
        await self.send(message)
        answer = await self.receive()
        if answer is None:
            raise RemoteTransportError(f"the coordinator at {self._transport.address} is gone")
        if isinstance(answer, Refused):
            raise ConfigurationError(answer.reason)
        if not isinstance(answer, Registered):
            raise RemoteProtocolError(
                f"the coordinator answered {type(answer).__name__} to Register"
            )
        # Epochs of different state directories cannot be compared.
        if answer.state_id == message.state_id and answer.epoch < message.epoch:
            await self._conversation.close()
            raise RemoteTransportError(
                f"the coordinator at {self._transport.address}, of epoch {answer.epoch}, is "
                f"superseded by one of epoch {message.epoch}"
            )
        return answer

    def unanswered(self) -> str:
        """Return the error text for a coordinator that has been silent for too long."""
        return unanswered(self._transport.address, self._timeout_ms)

    async def send(self, message: Message) -> None:
        """Send a message.

        If the connection is gone nothing happens, since ``receive`` reports it.
        """
        assert self._conversation is not None
        with suppress(ConnectionError):
            await self._conversation.send(encode(message))

    async def receive(self) -> Message | None:
        """Return the next message, or None after the end of the connection."""
        assert self._conversation is not None
        message = await self._conversation.receive()
        return None if message is None else decode(message)

    async def fetch_deployment(self, job_id: str, attempt: int, worker_id: str) -> Deployment:
        """Return the worker's part of an attempt."""
        body = msgpack.unpackb(await self._transport.deployment(job_id, attempt, worker_id))
        return Deployment(
            body["graph"],
            descriptors_of_fields(body["subtasks"]),
            body["restored_from"],
            {(vertex, index) for vertex, index in body["restored_finished"]},
            body["checkpoints_as"],
            body["passes_printed_on"],
        )

    async def fetch_committables(self, job_id: str, attempt: int) -> tuple[bytes, list[bytes]]:
        """Return the job graph's bytes, and the prepared output of two-phase sinks, per subtask."""
        body = msgpack.unpackb(await self._transport.committables(job_id, attempt))
        return body["graph"], body["committables"]

    async def upload_results(
        self, job_id: str, attempt: int, worker_id: str, results: Mapping[tuple[int, int], bytes]
    ) -> dict[tuple[int, int], str]:
        """Upload the results of finished subtasks, by vertex and index.

        Returns the reasons for the results that the coordinator refuses. Raises JobError if it
        refuses all.
        """
        body = pack_results(results)
        answer = await self._transport.take_results(job_id, attempt, worker_id, body)
        refused = msgpack.unpackb(answer)
        return {(vertex, index): reason for vertex, index, reason in refused}

    async def upload_answer(self, worker_id: str, request: int, body: bytes) -> None:
        """Answer a numbered request; raise JobError if the coordinator no longer waits for it."""
        await self._transport.take_answer(worker_id, request, body)
