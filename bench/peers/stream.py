"""A plain uvloop stream: a careful program without a library for messages.

Every record is one message: its length in four bytes, then the record as msgpack. The sender writes
header and record in one call, which is faster, and awaits ``drain`` after each for backpressure.
The receiver awaits exactly the header, then exactly the record. A length of 0 ends a round. One
connection transfers all records in order, without channels or partitioning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata
from struct import Struct
from typing import Any

import msgpack

from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.system import System
from bench.peers.codec import Pack, packer, unpack
from bench.peers.pingpong.system import Echo, Ping, PingPongSystem

__all__ = ["PING_PONG", "SYSTEM"]

LENGTH = Struct(">I")
END = LENGTH.pack(0)

READ_BYTES_MAX = 1 << 20
"""The receiver's limit; with asyncio's 64 KiB it would pause and resume reading all the time."""


async def send_each(writer: asyncio.StreamWriter, blocks: AsyncIterable[Block]) -> None:
    """Send one message for every record."""
    pack = packer()
    prefix = LENGTH.pack
    async for block in blocks:
        for record in block:
            body = pack(record)
            writer.write(prefix(len(body)) + body)
            await writer.drain()
    writer.write(END)
    await writer.drain()


async def receive_each(reader: asyncio.StreamReader, weigh: Weigh) -> Tally:
    """Receive one message for every record."""
    unpack, size_of = msgpack.unpackb, LENGTH.unpack
    records = checksum = 0
    while True:
        (size,) = size_of(await reader.readexactly(LENGTH.size))
        if not size:
            return Tally(records, checksum)
        record = unpack(await reader.readexactly(size), use_list=False)
        records += 1
        checksum += weigh(record)


class StreamProducer:
    """Accepts one connection and sends on it."""

    def __init__(self) -> None:
        self.address = ""
        self.connected: asyncio.Future[asyncio.StreamWriter]
        self.connected = asyncio.get_running_loop().create_future()

    def accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accept the connection."""
        self.connected.set_result(writer)

    async def produce(self, blocks: AsyncIterable[Block]) -> None:
        """Send a round."""
        await send_each(await self.connected, blocks)


class StreamConsumer:
    """Receives on one connection."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def consume(self, weigh: Weigh) -> Tally:
        """Receive a round."""
        return await receive_each(self._reader, weigh)


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[StreamProducer]:
    """Listen."""
    producer = StreamProducer()
    server = await asyncio.start_server(producer.accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    producer.address = f"{host}:{port}"
    async with server:
        try:
            yield producer
        finally:
            if producer.connected.done():
                writer = producer.connected.result()
                writer.close()
                await writer.wait_closed()


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[StreamConsumer]:
    """Connect."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=READ_BYTES_MAX)
    try:
        yield StreamConsumer(reader)
    finally:
        writer.close()
        await writer.wait_closed()


class StreamEcho:
    """Accepts one connection and sends records back on it."""

    def __init__(self, pack: Pack) -> None:
        self.address = ""
        self._pack = pack
        self._ended = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send every record back."""
        while (record := await receive_one(reader)) is not None:
            await send_one(writer, self._pack(record))
        writer.close()
        await writer.wait_closed()
        self._ended.set()

    async def serve(self, ping_address: str) -> None:
        """Serve one connection until the length of 0."""
        await self._ended.wait()


class StreamPing:
    """The connecting end of a ping-pong."""

    address = ""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pack: Pack
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._pack = pack

    async def round_trip(self, record: Any) -> Any:
        """Send the record and receive it back."""
        await send_one(self._writer, self._pack(record))
        return await receive_one(self._reader)


async def send_one(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Send one message."""
    writer.write(LENGTH.pack(len(body)) + body)
    await writer.drain()


async def receive_one(reader: asyncio.StreamReader) -> Any:
    """Receive one record; return None at the end."""
    (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    return unpack(await reader.readexactly(size)) if size else None


@asynccontextmanager
async def open_echo() -> AsyncIterator[Echo]:
    """Listen."""
    echo = StreamEcho(packer())
    server = await asyncio.start_server(echo.handle, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    echo.address = f"{host}:{port}"
    async with server:
        yield echo


@asynccontextmanager
async def open_ping(address: str) -> AsyncIterator[Ping]:
    """Connect; send the length of 0 at the end."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield StreamPing(reader, writer, packer())
        await send_one(writer, b"")
    finally:
        writer.close()
        await writer.wait_closed()


def _parameters(case: Case) -> dict[str, Any]:
    return {"framing": "length, 4 bytes", "drain": "every record", "event_loop": "uvloop"}


def _version() -> str:
    return f"uvloop {metadata.version('uvloop')}"


SYSTEM = System(
    name="stream",
    summary="uvloop stream, one length-prefixed msgpack record at a time with drain",
    variants=("record",),
    version=_version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)
PING_PONG = PingPongSystem("stream", _version, {"event_loop": "uvloop"}, open_echo, open_ping)
