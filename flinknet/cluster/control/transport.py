"""The transport of the control plane: what joins a worker to its coordinator.

Theory of operation. A worker and its coordinator exchange small messages (``messages.py``) in one
conversation, and the worker makes requests beside it whose bodies are large. Neither side knows
what carries them. Over HTTP the conversation is a websocket, and each request has a connection of
its own (``http_transport.py`` at the worker, the routes in ``rest/worker_routes.py`` at the
coordinator). A simulation joins both sides in one process, without any socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = [
    "AcceptedConversation",
    "Conversation",
    "CoordinatorTransport",
    "WorkerRequests",
    "unanswered",
]


class WorkerRequests(Protocol):
    """What a worker asks of its coordinator. Bodies are msgpack, as ``ControlLink`` and
    ``rest/worker_requests.py`` pack them. JobError if the coordinator refuses."""

    async def deployment(self, job_id: str, attempt: int, worker_id: str) -> bytes:
        """Return the graph and the subtasks that the worker is to run."""

    async def committables(self, job_id: str, attempt: int) -> bytes:
        """Return what two-phase sinks have prepared."""

    async def take_results(self, job_id: str, attempt: int, worker_id: str, body: bytes) -> bytes:
        """Hand in results of finished subtasks; return which are refused."""

    async def take_answer(self, worker_id: str, request: int, body: bytes) -> None:
        """Hand in the answer to a message that has a number."""


class Conversation(Protocol):
    """One end of the messages between a worker and its coordinator."""

    async def send(self, message: bytes) -> None:
        """Send a message; ConnectionError if the connection is gone."""

    async def receive(self) -> bytes | None:
        """Return the next message; None when the connection has ended.

        The coordinator's end raises RemoteProtocolError for something else than a message.
        """

    async def close(self) -> None:
        """End the connection when the peer has all messages; idempotent."""


class AcceptedConversation(Conversation, Protocol):
    """The coordinator's end."""

    @property
    def vouched(self) -> Sequence[str] | None:
        """The names for which the worker's certificate vouches; None without TLS."""

    def abort(self) -> None:
        """Cut the connection at once."""


class CoordinatorTransport(WorkerRequests, Protocol):
    """A worker's way to one coordinator. The requests raise LocalTransportError if it is not
    reached, or says nothing for ``coordinator_timeout_ms``."""

    address: str
    """Of the coordinator, for people."""

    async def open(self) -> None:
        """Prepare what all connections share; reaches nothing."""

    async def connect(self) -> Conversation:
        """Begin a conversation. ConfigurationError if the coordinator refuses, RemoteTransportError
        if it is not there."""

    async def close(self) -> None:
        """End what ``open`` has begun."""


def unanswered(coordinator: str, timeout_ms: float) -> str:
    """What to say of a coordinator that is connected and mute."""
    return (
        f"the coordinator at {coordinator} has not answered for {timeout_ms:.0f} ms "
        "(cluster.coordinator_timeout_ms): it hangs or is stopped"
    )
