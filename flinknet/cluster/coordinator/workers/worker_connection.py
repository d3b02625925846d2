"""The coordinator's end of one worker's control connection.

Theory of operation
-------------------
``serve`` reads messages. A separate task writes the messages that ``send`` has queued, so that the
coordinator never waits for a socket. The queue is bounded: a worker that leaves
``OUTBOX_MESSAGES_MAX`` messages unread is disconnected, and thus lost. However the connection ends,
the coordinator is told once, through ``leave``, and only if it had accepted the worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from flinknet.cluster.control.messages import (
    Message,
    Refused,
    Register,
    Registered,
    Stop,
    decode,
    encode,
)
from flinknet.cluster.control.transport import AcceptedConversation
from flinknet.config import ClusterConfig
from flinknet.connection.handshake import certificate_name_matches
from flinknet.errors import ConfigurationError, CoordinatorSupersededError, RemoteProtocolError

__all__ = ["WorkerConnection", "Workers"]

OUTBOX_MESSAGES_MAX = 10_000
"""Far more messages than all jobs of a cluster queue for one worker, unless it does not read."""

log = logging.getLogger("flinknet.coordinator")


class Workers(Protocol):
    """The coordinator, as a worker connection uses it."""

    config: ClusterConfig

    def join(self, message: Register, connection: WorkerConnection) -> None: ...
    def answered(self) -> None: ...
    def receive(self, worker_id: str, message: Message) -> None: ...
    def leave(self, worker_id: str, connection: WorkerConnection) -> None: ...


class WorkerConnection:
    """One control connection, from ``Register`` to its end."""

    def __init__(self, coordinator: Workers, conversation: AcceptedConversation) -> None:
        self._coordinator = coordinator
        self._conversation = conversation
        self._silence_s = coordinator.config.heartbeat_timeout_ms / 1000
        self._outbox: asyncio.Queue[Message | None] = asyncio.Queue(OUTBOX_MESSAGES_MAX)
        """Messages to write; None ends the writer."""
        self._is_cut = False
        self.is_answered = False
        """Whether the worker has been told that it is registered."""

    async def serve(self) -> None:
        """Serve the worker until either side ends the connection."""
        writer = asyncio.create_task(self._write())
        try:
            await self._converse()
        except RemoteProtocolError as error:
            log.warning("worker connection closed: %s", error)
        except TimeoutError:
            log.warning("worker connection closed: it did not register")
        finally:
            self._put(None)
            await writer
            await self._conversation.close()

    def send(self, message: Message) -> None:
        """Queue a message for the worker."""
        self._put(message)

    def dismiss(self, reason: str) -> None:
        """Send ``Stop`` as the last message; the worker then closes the connection.

        The worker must be the side that closes. Otherwise a message that it sends before it reads
        ``Stop`` meets a closed socket, and the resulting reset discards the unread ``Stop``. The
        time limit for this is ``Coordinator.wait_for_workers``.
        """
        self._put(Stop(reason))
        self._put(None)

    def abort(self) -> None:
        """Close the connection at once and ignore everything that the worker still sends."""
        self._is_cut = True
        self._conversation.abort()

    async def _converse(self) -> None:
        # After ``Register`` the worker registry watches for silence.
        async with asyncio.timeout(self._silence_s):
            first = await self._receive()
        if not isinstance(first, Register):
            raise RemoteProtocolError("the first message of a worker must be Register")
        vouched = self._conversation.vouched
        try:
            if vouched is not None:
                _check_vouched(first.worker_id, vouched)
            self._coordinator.join(first, self)
        except ConfigurationError as error:
            self.send(Refused(str(error)))
            return
        except CoordinatorSupersededError:
            return  # The worker looks for the new coordinator.
        try:
            while (message := await self._receive()) is not None and not self._is_cut:
                self._coordinator.receive(first.worker_id, message)
        finally:
            self._coordinator.leave(first.worker_id, self)

    async def _receive(self) -> Message | None:
        message = await self._conversation.receive()
        return None if message is None else decode(message)

    def _put(self, message: Message | None) -> None:
        try:
            self._outbox.put_nowait(message)
        except asyncio.QueueFull:
            self.abort()

    async def _write(self) -> None:
        while (message := await self._outbox.get()) is not None:
            try:
                await self._conversation.send(encode(message))
            except ConnectionError:
                return  # The reading side notices the end as well, and reports it.
            if isinstance(message, Registered):
                self.is_answered = True
                self._coordinator.answered()


def _check_vouched(worker_id: str, vouched: Sequence[str]) -> None:
    """Raise ConfigurationError if the worker's certificate belongs to another process."""
    if not any(certificate_name_matches(name, worker_id) for name in vouched):
        names = ", ".join(vouched) or "no name"
        raise ConfigurationError(
            f"worker {worker_id} shows a certificate of {names}: it needs one with its id among "
            "the DNS names"
        )
