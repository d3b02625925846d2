"""websockets: one binary message for each record, without compression, on uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata
from typing import TYPE_CHECKING, Any

from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.system import System
from bench.peers.codec import END, Codec, Pack, codec_of, packer, unpack
from bench.peers.pingpong.system import Echo, Ping, PingPongSystem

if TYPE_CHECKING:
    from websockets.asyncio.connection import Connection

__all__ = ["PING_PONG", "SYSTEM"]

OPTIONS: dict[str, Any] = {"compression": None, "max_size": None}
"""Options without compression, which is on by default and would dominate the work."""


async def send_each(connection: Connection, codec: Codec, blocks: AsyncIterable[Block]) -> None:
    """Send one message for every record."""
    pack, send = codec.pack, connection.send
    async for block in blocks:
        for record in block:
            await send(pack(record))
    await send(END)


async def receive_each(connection: Connection, codec: Codec, weigh: Weigh) -> Tally:
    """Receive one message for every record."""
    unpack, receive = codec.unpack, connection.recv
    records = checksum = 0
    while message := await receive(decode=False):
        checksum += weigh(unpack(message))
        records += 1
    return Tally(records, checksum)


class WebsocketsProducer:
    """A server with one connection."""

    def __init__(self, case: Case) -> None:
        self.address = ""
        self._codec = codec_of(case)
        self._connected: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    async def handle(self, connection: Connection) -> None:
        """Keep the connection open until the consumer closes it."""
        self._connected.set_result(connection)
        await connection.wait_closed()

    async def produce(self, blocks: AsyncIterable[Block]) -> None:
        """Send a round."""
        await send_each(await self._connected, self._codec, blocks)


class WebsocketsConsumer:
    """The connecting end."""

    def __init__(self, connection: Connection, case: Case) -> None:
        self._connection = connection
        self._codec = codec_of(case)

    async def consume(self, weigh: Weigh) -> Tally:
        """Receive a round."""
        return await receive_each(self._connection, self._codec, weigh)


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[WebsocketsProducer]:
    """Listen."""
    from websockets.asyncio.server import serve

    producer = WebsocketsProducer(case)
    async with serve(producer.handle, "127.0.0.1", 0, **OPTIONS) as server:
        producer.address = _address(server)
        yield producer


@asynccontextmanager
async def open_consumer(
    case: Case, variant: str, address: str
) -> AsyncIterator[WebsocketsConsumer]:
    """Connect."""
    from websockets.asyncio.client import connect

    async with connect(address, **OPTIONS) as connection:
        yield WebsocketsConsumer(connection, case)


class WebsocketsEcho:
    """A server that sends records back on one connection."""

    def __init__(self, pack: Pack) -> None:
        self.address = ""
        self._pack = pack
        self._ended = asyncio.Event()

    async def handle(self, connection: Connection) -> None:
        """Send every record back."""
        async for message in connection:
            await connection.send(self._pack(unpack(message)))
        self._ended.set()

    async def serve(self, ping_address: str) -> None:
        """Serve one connection until it is closed."""
        await self._ended.wait()


class WebsocketsPing:
    """The connecting end of a ping-pong."""

    address = ""

    def __init__(self, connection: Connection, pack: Pack) -> None:
        self._connection = connection
        self._pack = pack

    async def round_trip(self, record: Any) -> Any:
        """Send the record and receive it back."""
        await self._connection.send(self._pack(record))
        return unpack(await self._connection.recv(decode=False))


@asynccontextmanager
async def open_echo() -> AsyncIterator[Echo]:
    """Listen."""
    from websockets.asyncio.server import serve

    echo = WebsocketsEcho(packer())
    async with serve(echo.handle, "127.0.0.1", 0, **OPTIONS) as server:
        echo.address = _address(server)
        yield echo


@asynccontextmanager
async def open_ping(address: str) -> AsyncIterator[Ping]:
    """Connect."""
    from websockets.asyncio.client import connect

    async with connect(address, **OPTIONS) as connection:
        yield WebsocketsPing(connection, packer())


def _address(server: Any) -> str:
    host, port = next(iter(server.sockets)).getsockname()
    return f"ws://{host}:{port}"


def _version() -> str:
    return metadata.version("websockets")


def _parameters(case: Case) -> dict[str, Any]:
    return {"compression": None, "event_loop": "uvloop"}


SYSTEM = System(
    name="websockets",
    summary="one awaited binary message for each record, no compression",
    variants=("record",),
    version=_version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)
PING_PONG = PingPongSystem("websockets", _version, {"compression": None}, open_echo, open_ping)
