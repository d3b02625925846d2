"""The transport interface between a worker and its coordinator.

Theory of operation. A worker and its coordinator exchange small messages (``messages.py``) in one
conversation. The worker also makes requests, which have large bodies. Neither side depends on the
implementation. Over HTTP the conversation is a websocket, and each request has a connection of its
own (``http_transport.py`` on the worker, ``rest/worker_routes.py`` on the coordinator). A
simulation connects both sides in one process, without any socket.
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
    """The requests of a worker to its coordinator.

    Bodies are msgpack, in the format of ``ControlLink`` and ``rest/worker_requests.py``. Each
    request raises JobError if the coordinator refuses it.
    """

    async def deployment(self, job_id: str, attempt: int, worker_id: str) -> bytes:
        """Return the graph and the subtasks that the worker must run."""

    async def committables(self, job_id: str, attempt: int) -> bytes:
        """Return the prepared output of two-phase sinks."""

    async def take_results(self, job_id: str, attempt: int, worker_id: str, body: bytes) -> bytes:
        """Upload results of finished subtasks; return the refused ones."""

    async def take_answer(self, worker_id: str, request: int, body: bytes) -> None:
        """Upload the answer to a message that has a number."""


class Conversation(Protocol):
    """One end of the message exchange between a worker and its coordinator."""

    async def send(self, message: bytes) -> None:
        """Send a message; raise ConnectionError if the connection is gone."""

    async def receive(self) -> bytes | None:
        """Return the next message, or None after the end of the connection.

        The coordinator's end raises RemoteProtocolError for anything but a message.
        """

    async def close(self) -> None:
        """Close the connection once the peer has all messages; idempotent."""


class AcceptedConversation(Conversation, Protocol):
    """The coordinator's end."""

    @property
    def vouched(self) -> Sequence[str] | None:
        """The names in the worker's certificate; None without TLS."""

    def abort(self) -> None:
        """Close the connection at once."""


class CoordinatorTransport(WorkerRequests, Protocol):
    """A worker's transport to one coordinator.

    The requests raise LocalTransportError if the coordinator cannot be reached, or is silent for
    ``coordinator_timeout_ms``.
    """

    address: str
    """Address of the coordinator, for texts."""

    async def open(self) -> None:
        """Create the resources that all connections share, without connecting."""

    async def connect(self) -> Conversation:
        """Open a conversation.

        Raises ConfigurationError if the coordinator refuses, and RemoteTransportError if it is not
        there.
        """

    async def close(self) -> None:
        """Release the resources of ``open``."""


def unanswered(coordinator: str, timeout_ms: float) -> str:
    """Return the error text for a coordinator that is connected but silent."""
    return (
        f"the coordinator at {coordinator} has not answered for {timeout_ms:.0f} ms "
        "(cluster.coordinator_timeout_ms): it hangs or is stopped"
    )
