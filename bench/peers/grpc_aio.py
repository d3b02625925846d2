"""grpc.aio: one server-streaming call for a round, one message of bytes for each record.

The method has a generic handler without serializers, so no protobuf is involved. The producer
writes with ``await context.write``, which has the backpressure of HTTP/2. The ping-pong is one call
that streams in both directions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.system import System
from bench.peers.codec import Codec, Pack, codec_of, packer, unpack
from bench.peers.pingpong.system import Echo, Ping, PingPongSystem

if TYPE_CHECKING:
    import grpc.aio

__all__ = ["PING_PONG", "SYSTEM"]

SERVICE, METHOD = "bench.Exchange", "Stream"
PATH = f"/{SERVICE}/{METHOD}"
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
"""Options that remove the default limit of 4 MiB per message."""

GRACE_S = 1.0


async def write_each(
    context: grpc.aio.ServicerContext, codec: Codec, blocks: AsyncIterable[Block]
) -> None:
    """Write one message for every record."""
    pack, write = codec.pack, context.write
    async for block in blocks:
        for record in block:
            await write(pack(record))


async def read_each(call: grpc.aio.UnaryStreamCall, codec: Codec, weigh: Weigh) -> Tally:
    """Read one message for every record; the call ends with the round."""
    unpack = codec.unpack
    records = checksum = 0
    async for message in call:
        checksum += weigh(unpack(message))
        records += 1
    return Tally(records, checksum)


class Call(NamedTuple):
    """A call that waits for its round; it ends when ``ended`` is set."""

    context: grpc.aio.ServicerContext
    ended: asyncio.Event


class GrpcProducer:
    """A server; every round is a call by the consumer."""

    def __init__(self, case: Case) -> None:
        self.address = ""
        self._codec = codec_of(case)
        self._calls: asyncio.Queue[Call] = asyncio.Queue()

    async def handle(self, request: bytes, context: grpc.aio.ServicerContext) -> None:
        """Keep the call open until the round is over."""
        call = Call(context, asyncio.Event())
        self._calls.put_nowait(call)
        await call.ended.wait()

    async def produce(self, blocks: AsyncIterable[Block]) -> None:
        """Send a round."""
        call = await self._calls.get()
        await write_each(call.context, self._codec, blocks)
        call.ended.set()


class GrpcConsumer:
    """A channel; every round is a call."""

    def __init__(self, channel: grpc.aio.Channel, case: Case) -> None:
        self._stream = channel.unary_stream(PATH)
        self._codec = codec_of(case)

    async def consume(self, weigh: Weigh) -> Tally:
        """Receive a round."""
        return await read_each(self._stream(b""), self._codec, weigh)


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[GrpcProducer]:
    """Listen."""
    import grpc

    producer = GrpcProducer(case)
    handler = grpc.unary_stream_rpc_method_handler(producer.handle)
    async with _serve(handler) as producer.address:
        yield producer


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[GrpcConsumer]:
    """Connect."""
    import grpc.aio

    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        yield GrpcConsumer(channel, case)


class GrpcEcho:
    """A server with a method that streams in both directions."""

    def __init__(self, pack: Pack) -> None:
        self.address = ""
        self._pack = pack
        self._ended = asyncio.Event()

    async def handle(
        self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> None:
        """Send every record back."""
        async for message in requests:
            await context.write(self._pack(unpack(message)))
        self._ended.set()

    async def serve(self, ping_address: str) -> None:
        """Serve one call to its end."""
        await self._ended.wait()


class GrpcPing:
    """The client of one call."""

    address = ""

    def __init__(self, call: grpc.aio.StreamStreamCall, pack: Pack) -> None:
        self._call = call
        self._pack = pack

    async def round_trip(self, record: Any) -> Any:
        """Write the record and read it back."""
        await self._call.write(self._pack(record))
        return unpack(await self._call.read())


@asynccontextmanager
async def open_echo() -> AsyncIterator[Echo]:
    """Listen."""
    import grpc

    echo = GrpcEcho(packer())
    async with _serve(grpc.stream_stream_rpc_method_handler(echo.handle)) as echo.address:
        yield echo


@asynccontextmanager
async def open_ping(address: str) -> AsyncIterator[Ping]:
    """Make the call; end its writing at the end."""
    import grpc.aio

    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        call = channel.stream_stream(PATH)()
        yield GrpcPing(call, packer())
        await call.done_writing()
        await call.code()


@asynccontextmanager
async def _serve(handler: grpc.RpcMethodHandler) -> AsyncIterator[str]:
    import grpc.aio

    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(GRACE_S)


def _version() -> str:
    return metadata.version("grpcio")


def _parameters(case: Case) -> dict[str, Any]:
    return {"call": "server streaming", "serializer": None, "event_loop": "uvloop"}


SYSTEM = System(
    name="grpc.aio",
    summary="a server-streaming call, one awaited message for each record, no protobuf",
    variants=("record",),
    version=_version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)
PING_PONG = PingPongSystem(
    "grpc.aio", _version, {"call": "streaming both ways"}, open_echo, open_ping
)
