"""Raw blocking sockets: the limit of loopback TCP for a Python program, for bytes only.

The records of a block are joined beforehand and sent in one call of 1 MiB after a length. Records
have no framing, because both sides know their length. The receiver reuses one buffer and looks at
slices of it. No peer could use this as it is: it shows the limit that the kernel sets.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from struct import Struct
from typing import Any

from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.system import System
from bench.peers.codec import Pack, packer, unpack
from bench.peers.pingpong.system import Echo, Ping, PingPongSystem

__all__ = ["PING_PONG", "SYSTEM"]

LENGTHS = Struct(">II")
"""The lengths of the next block and of each of its records; a block of 0 bytes ends the round."""

HOST = "127.0.0.1"
SMALL_BYTES_MAX = 1 << 16


def send_blocks(connection: socket.socket, blocks: Iterable[Block]) -> None:
    """Write a length and all records for every block."""
    last: Block | None = None
    joined, lengths = b"", b""
    for block in blocks:
        if block is not last:
            last, joined = block, b"".join(block)
            lengths = LENGTHS.pack(len(joined), len(block[0]))
        connection.sendall(lengths)
        connection.sendall(joined)
    connection.sendall(LENGTHS.pack(0, 0))


def receive_blocks(connection: socket.socket, weigh: Weigh) -> Tally:
    """Receive every block into the same memory."""
    memory = memoryview(bytearray(1 << 20))
    header = memoryview(bytearray(LENGTHS.size))
    records = checksum = 0
    while True:
        _receive_all(connection, header)
        size, each = LENGTHS.unpack(header)
        if not size:
            return Tally(records, checksum)
        block = memory[:size]
        _receive_all(connection, block)
        for start in range(0, size, each):
            checksum += weigh(block[start : start + each])
        records += size // each


def _receive_all(connection: socket.socket, target: memoryview) -> None:
    received = 0
    while received < len(target):
        count = connection.recv_into(target[received:])
        if not count:
            raise ConnectionResetError("the producer has closed the connection")
        received += count


class SocketsProducer:
    """Accepts one connection when the first round begins."""

    def __init__(self, listener: socket.socket) -> None:
        self.address = _address(listener)
        self.connection: socket.socket | None = None
        self._listener = listener

    async def produce(self, blocks: Iterable[Block]) -> None:
        """Send a round; this blocks the event loop, which has nothing else to do."""
        if self.connection is None:
            self.connection, _ = self._listener.accept()
        send_blocks(self.connection, blocks)


class SocketsConsumer:
    """Receives on one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    async def consume(self, weigh: Weigh) -> Tally:
        """Receive a round; this blocks the event loop, which has nothing else to do."""
        return receive_blocks(self._connection, weigh)


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[SocketsProducer]:
    """Listen."""
    with socket.create_server((HOST, 0)) as listener:
        producer = SocketsProducer(listener)
        try:
            yield producer
        finally:
            if producer.connection is not None:
                producer.connection.close()


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[SocketsConsumer]:
    """Connect."""
    with _connect(address) as connection:
        yield SocketsConsumer(connection)


class SocketsEcho:
    """Sends each received record back."""

    def __init__(self, listener: socket.socket, pack: Pack) -> None:
        self.address = _address(listener)
        self._listener = listener
        self._pack = pack

    async def serve(self, ping_address: str) -> None:
        """Serve one connection until it is closed."""
        connection, _ = self._listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while message := connection.recv(SMALL_BYTES_MAX):
                connection.sendall(self._pack(unpack(message)))


class SocketsPing:
    """Sends a record and waits for it; loopback never splits such a small message."""

    address = ""

    def __init__(self, connection: socket.socket, pack: Pack) -> None:
        self._connection = connection
        self._pack = pack

    async def round_trip(self, record: Any) -> Any:
        """Send the record and receive it back."""
        self._connection.sendall(self._pack(record))
        return unpack(self._connection.recv(SMALL_BYTES_MAX))


@asynccontextmanager
async def open_echo() -> AsyncIterator[Echo]:
    """Listen."""
    with socket.create_server((HOST, 0)) as listener:
        yield SocketsEcho(listener, packer())


@asynccontextmanager
async def open_ping(address: str) -> AsyncIterator[Ping]:
    """Connect."""
    with _connect(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield SocketsPing(connection, packer())


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


def _parameters(case: Case) -> dict[str, Any]:
    return {"write_bytes": 1 << 20, "blocking": True}


def _version() -> str:
    return "CPython's"


SYSTEM = System(
    name="sockets",
    summary="raw blocking sockets, 1 MiB at a time: the limit, for bytes",
    variants=("bytes",),
    version=_version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)
PING_PONG = PingPongSystem("sockets", _version, {"blocking": True}, open_echo, open_ping)
