"""A worker's end of the control plane: its conversation with the coordinator, and its requests.

What carries both is a ``CoordinatorTransport`` (``transport.py``); this packs and unpacks what goes
over it, and registers the worker.
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
from flinknet.net.patience import patient_timeout

__all__ = ["ControlLink", "Deployment"]


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
    passes_printed_on: bool
    """Whether the job's client asks for what its functions print."""


class ControlLink:
    """The connection of one worker to its coordinator. ``async with``, then ``register``."""

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
        """Join the cluster; again, on a new connection, if that is lost on which it did before.

        ConfigurationError if the coordinator refuses, RemoteTransportError if it is not there, not
        any more, does not answer within ``coordinator_timeout_ms``, or is an older one than the
        worker has served.
        """
        try:
            async with patient_timeout(self._timeout_ms / 1000):
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
        if answer.state_id == message.state_id and answer.epoch < message.epoch:
            await self._conversation.close()
            raise RemoteTransportError(
                f"the coordinator at {self._transport.address}, of epoch {answer.epoch}, is "
                f"superseded by one of epoch {message.epoch}"
            )
        return answer

    def unanswered(self) -> str:
        """What to say of the coordinator once it has been silent for too long."""
        return unanswered(self._transport.address, self._timeout_ms)

    async def send(self, message: Message) -> None:
        """Send a message. Nothing happens if the connection is gone: ``receive`` says so."""
        assert self._conversation is not None
        with suppress(ConnectionError):
            await self._conversation.send(encode(message))

    async def receive(self) -> Message | None:
        """The next message; None when the connection has ended."""
        assert self._conversation is not None
        message = await self._conversation.receive()
        return None if message is None else decode(message)

    async def fetch_deployment(self, job_id: str, attempt: int, worker_id: str) -> Deployment:
        """What this worker is to run."""
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
        """The job graph's bytes, and what its two-phase sinks have prepared, subtask by subtask."""
        body = msgpack.unpackb(await self._transport.committables(job_id, attempt))
        return body["graph"], body["committables"]

    async def upload_results(
        self, job_id: str, attempt: int, worker_id: str, results: Mapping[tuple[int, int], bytes]
    ) -> dict[tuple[int, int], str]:
        """Hand in the results of finished subtasks, by vertex and index. Return why the coordinator
        refuses some of them, if it does; JobError if it refuses them all."""
        body = pack_results(results)
        answer = await self._transport.take_results(job_id, attempt, worker_id, body)
        refused = msgpack.unpackb(answer)
        return {(vertex, index): reason for vertex, index, reason in refused}

    async def upload_answer(self, worker_id: str, request: int, body: bytes) -> None:
        """Answer a request that has a number; JobError if nobody waits for it any more."""
        await self._transport.take_answer(worker_id, request, body)
