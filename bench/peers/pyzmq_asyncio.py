"""pyzmq's asyncio sockets: ``pyzmq`` with ``record``, but awaited, on uvloop."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.system import System
from bench.peers.codec import END, Codec, Pack, codec_of, packer, unpack
from bench.peers.pingpong.system import Echo, Ping, PingPongSystem
from bench.peers.zmq_socket import address_of, bound, connected, high_water_mark, version

if TYPE_CHECKING:
    from zmq.asyncio import Socket

__all__ = ["PING_PONG", "SYSTEM"]


async def send_each(push: Socket, codec: Codec, blocks: AsyncIterable[Block]) -> None:
    """Send one message for every record."""
    pack = codec.pack
    async for block in blocks:
        for record in block:
            await push.send(pack(record))
    await push.send(END)


async def receive_each(pull: Socket, codec: Codec, weigh: Weigh) -> Tally:
    """Receive one message for every record."""
    unpack = codec.unpack
    records = checksum = 0
    while message := await pull.recv():
        checksum += weigh(unpack(message))
        records += 1
    return Tally(records, checksum)


class PyzmqAsyncioProducer:
    """A bound PUSH socket."""

    def __init__(self, push: Socket, case: Case) -> None:
        self.address = address_of(push)
        self._push = push
        self._codec = codec_of(case)

    async def produce(self, blocks: AsyncIterable[Block]) -> None:
        """Send a round."""
        await send_each(self._push, self._codec, blocks)


class PyzmqAsyncioConsumer:
    """A connected PULL socket."""

    def __init__(self, pull: Socket, case: Case) -> None:
        self._pull = pull
        self._codec = codec_of(case)

    async def consume(self, weigh: Weigh) -> Tally:
        """Receive a round."""
        return await receive_each(self._pull, self._codec, weigh)


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[PyzmqAsyncioProducer]:
    """Bind."""
    from zmq.asyncio import Context

    with bound(Context(), "PUSH", high_water_mark(case)) as push:
        yield PyzmqAsyncioProducer(push, case)


@asynccontextmanager
async def open_consumer(
    case: Case, variant: str, address: str
) -> AsyncIterator[PyzmqAsyncioConsumer]:
    """Connect."""
    from zmq.asyncio import Context

    with connected(Context(), "PULL", address, high_water_mark(case)) as pull:
        yield PyzmqAsyncioConsumer(pull, case)


class PyzmqAsyncioEcho:
    """A bound PAIR socket that sends records back."""

    def __init__(self, pair: Socket, pack: Pack) -> None:
        self.address = address_of(pair)
        self._pair = pair
        self._pack = pack

    async def serve(self, ping_address: str) -> None:
        """Serve until the empty message."""
        while message := await self._pair.recv():
            await self._pair.send(self._pack(unpack(message)))


class PyzmqAsyncioPing:
    """A connected PAIR socket."""

    address = ""

    def __init__(self, pair: Socket, pack: Pack) -> None:
        self._pair = pair
        self._pack = pack

    async def round_trip(self, record: Any) -> Any:
        """Send the record and receive it back."""
        await self._pair.send(self._pack(record))
        return unpack(await self._pair.recv())


@asynccontextmanager
async def open_echo() -> AsyncIterator[Echo]:
    """Bind."""
    from zmq.asyncio import Context

    with bound(Context(), "PAIR") as pair:
        yield PyzmqAsyncioEcho(pair, packer())


@asynccontextmanager
async def open_ping(address: str) -> AsyncIterator[Ping]:
    """Connect; send the empty message at the end."""
    from zmq.asyncio import Context

    with connected(Context(), "PAIR", address) as pair:
        yield PyzmqAsyncioPing(pair, packer())
        await pair.send(END)


def _parameters(case: Case) -> dict[str, Any]:
    return {
        "sockets": "PUSH, PULL",
        "high_water_mark": high_water_mark(case),
        "event_loop": "uvloop",
    }


SYSTEM = System(
    name="pyzmq-asyncio",
    summary="zmq.asyncio, PUSH to PULL over tcp, one awaited message for each record",
    variants=("record",),
    version=version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)
PING_PONG = PingPongSystem(
    "pyzmq-asyncio", version, {"sockets": "PAIR, PAIR"}, open_echo, open_ping
)
