"""Peers in Python that break the rules, over real sockets and in threads of their own."""

from __future__ import annotations

import asyncio
import select
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from tests.peers.programs import SEGMENT_BYTES
from tests.peers.python import wire

PATIENCE_S = 20.0
"""Seconds after which a connection fails its test."""

LOST = "lost"
"""The result of a stranger that gets no error before the end of its connection."""


class Stranger(wire.Wire):
    """A connection that sends no heartbeats, and fails after a deadline."""

    def __init__(self, peer: socket.socket) -> None:
        super().__init__(peer)
        self._deadline = time.monotonic() + PATIENCE_S

    def _wait(self) -> None:
        left = max(self._deadline - time.monotonic(), 0)
        if not select.select([self.socket], [], [], left)[0]:
            raise TimeoutError("nothing has come")

    def request(self, partition: str, *, channel: int = 0, credit: int = 2, index: int = 0) -> None:
        """Request a subpartition."""
        self.send(wire.REQUEST, channel, wire.partition_id(partition), index, credit)

    def send_together(self, messages: Iterable[bytes]) -> None:
        """Send messages in one piece, before any can be answered."""
        self.socket.sendall(b"".join(map(self.sealed, messages)))

    def buffer(
        self,
        channel: int,
        sequence: int,
        kind: int,
        body: bytes = b"",
        *,
        backlog: int = 0,
        continued: int = 0,
        unfinished: int = 0,
        records: int = 0,
    ) -> None:
        """Send a buffer."""
        fields = (channel, sequence, backlog, kind, continued, unfinished, records)
        self.send(wire.BUFFER, *fields, body=body)

    def expect(self, *types: int) -> wire.Message:
        """Return the next message of one of these types, and ignore others."""
        while True:
            message = self.receive()
            if message.type in types:
                return message

    def condemned(self) -> Any:
        """Return the code of the error that ends the connection, or LOST without one."""
        try:
            while True:
                message = self.receive()
                if message.type == wire.ERROR and message.fields[0] == wire.WHOLE_CONNECTION:
                    return message.fields[1]
        except wire.LostError:
            return LOST


Act = Callable[[Stranger], Any]


def identity(**fields: Any) -> wire.Identity:
    """Return an identity that is welcome, unless ``fields`` change that."""
    return wire.Identity(**{"segment_bytes": SEGMENT_BYTES, "worker_id": "stranger", **fields})


def connect(address: str) -> Stranger:
    """Open a socket without sending anything."""
    host, port = address.rsplit(":", 1)
    return Stranger(socket.create_connection((host, int(port)), PATIENCE_S))


async def dial(address: str, act: Act, **fields: Any) -> Any:
    """Dial flinknet, run ``act``, and return its result."""

    def run() -> Any:
        with connect(address) as peer:
            peer.dial(identity(**fields), b"")
            return act(peer)

    return await asyncio.to_thread(run)


@asynccontextmanager
async def accepting(act: Act, **fields: Any) -> AsyncIterator[tuple[str, asyncio.Future[Any]]]:
    """Listen, let flinknet dial, and run ``act``; yield the address and a future of the result."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def run() -> Any:
            with Stranger(listener.accept()[0]) as peer:
                peer.accept(identity(address=address, **fields), b"")
                return act(peer)

        outcome = asyncio.ensure_future(asyncio.to_thread(run))
        try:
            yield address, outcome
        finally:
            await asyncio.wait([outcome])
