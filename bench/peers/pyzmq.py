"""pyzmq, blocking: PUSH to PULL over tcp, its fastest way.

``record`` is one message for every record. ``bulk`` is one message for every block, the usual way
to batch: one msgpack array, or a multipart message of unpacked payloads. An empty message ends a
round. Messages wait in bounded queues at either end. ZeroMQ's own thread writes them and shares the
CPU of its process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.system import System
from bench.peers.codec import END, PAYLOADS, Codec, Pack, codec_of, packer, unpack
from bench.peers.pingpong.system import Echo, Ping, PingPongSystem
from bench.peers.zmq_socket import (
    address_of,
    bound,
    connected,
    high_water_mark,
    is_large,
    version,
)

if TYPE_CHECKING:
    from zmq.sugar.socket import Socket

__all__ = ["PING_PONG", "SYSTEM"]

LARGE_BYTES_MIN = 1 << 16
"""Size from which on pyzmq recommends not to copy messages (``zmq.COPY_THRESHOLD``)."""


def send_records(push: Socket, codec: Codec, copy: bool, blocks: Iterable[Block]) -> None:
    """Send one message for every record."""
    send, pack = push.send, codec.pack
    for block in blocks:
        for record in block:
            send(pack(record), copy=copy)
    send(END)


def receive_records(pull: Socket, codec: Codec, copy: bool, weigh: Weigh) -> Tally:
    """Receive one message for every record."""
    receive: Callable[[], Any] = pull.recv if copy else lambda: pull.recv(copy=False).buffer
    unpack = codec.unpack if copy else memoryview
    records = checksum = 0
    while message := receive():
        checksum += weigh(unpack(message))
        records += 1
    return Tally(records, checksum)


def send_blocks(push: Socket, codec: Codec, payloads: bool, blocks: Iterable[Block]) -> None:
    """Send one message for every block."""
    for block in blocks:
        if payloads:
            push.send_multipart(block)
        else:
            push.send(codec.pack(block))
    push.send(END)


def receive_blocks(pull: Socket, payloads: bool, weigh: Weigh) -> Tally:
    """Receive one message for every block."""
    records = checksum = 0
    while (frames := pull.recv_multipart()) != [END]:
        block = frames if payloads else unpack(frames[0])
        records += len(block)
        checksum += sum(map(weigh, block))
    return Tally(records, checksum)


class PyzmqProducer:
    """A bound PUSH socket."""

    def __init__(self, push: Socket, case: Case, variant: str) -> None:
        self.address = address_of(push)
        self._push = push
        self._codec = codec_of(case)
        self._bulk = variant == "bulk"
        self._payloads = case.name in PAYLOADS
        self._copy = not is_large(case)

    async def produce(self, blocks: Iterable[Block]) -> None:
        """Send a round; this blocks the event loop, which has nothing else to do."""
        if self._bulk:
            send_blocks(self._push, self._codec, self._payloads, blocks)
        else:
            send_records(self._push, self._codec, self._copy, blocks)


class PyzmqConsumer:
    """A connected PULL socket."""

    def __init__(self, pull: Socket, case: Case, variant: str) -> None:
        self._pull = pull
        self._codec = codec_of(case)
        self._bulk = variant == "bulk"
        self._payloads = case.name in PAYLOADS
        self._copy = not is_large(case)

    async def consume(self, weigh: Weigh) -> Tally:
        """Receive a round; this blocks the event loop, which has nothing else to do."""
        if self._bulk:
            return receive_blocks(self._pull, self._payloads, weigh)
        return receive_records(self._pull, self._codec, self._copy, weigh)


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[PyzmqProducer]:
    """Bind."""
    from zmq.sugar.context import Context

    with bound(Context(), "PUSH", high_water_mark(case)) as push:
        yield PyzmqProducer(push, case, variant)


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[PyzmqConsumer]:
    """Connect."""
    from zmq.sugar.context import Context

    with connected(Context(), "PULL", address, high_water_mark(case)) as pull:
        yield PyzmqConsumer(pull, case, variant)


class PyzmqEcho:
    """A bound PAIR socket that sends records back."""

    def __init__(self, pair: Socket, pack: Pack) -> None:
        self.address = address_of(pair)
        self._pair = pair
        self._pack = pack

    async def serve(self, ping_address: str) -> None:
        """Serve until the empty message."""
        while message := self._pair.recv():
            self._pair.send(self._pack(unpack(message)))


class PyzmqPing:
    """A connected PAIR socket."""

    address = ""

    def __init__(self, pair: Socket, pack: Pack) -> None:
        self._pair = pair
        self._pack = pack

    async def round_trip(self, record: Any) -> Any:
        """Send the record and receive it back."""
        self._pair.send(self._pack(record))
        return unpack(self._pair.recv())


@asynccontextmanager
async def open_echo() -> AsyncIterator[Echo]:
    """Bind."""
    from zmq.sugar.context import Context

    with bound(Context(), "PAIR") as pair:
        yield PyzmqEcho(pair, packer())


@asynccontextmanager
async def open_ping(address: str) -> AsyncIterator[Ping]:
    """Connect; send the empty message at the end."""
    from zmq.sugar.context import Context

    with connected(Context(), "PAIR", address) as pair:
        yield PyzmqPing(pair, packer())
        pair.send(END)


def _parameters(case: Case) -> dict[str, Any]:
    return {
        "sockets": "PUSH, PULL",
        "high_water_mark": high_water_mark(case),
        "copy": not is_large(case),
        "bulk": "multipart" if case.name in PAYLOADS else "msgpack array of a block",
    }


SYSTEM = System(
    name="pyzmq",
    summary="PUSH to PULL over tcp, blocking; a message for each record, or each block",
    variants=("record", "bulk"),
    version=version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)
PING_PONG = PingPongSystem("pyzmq", version, {"sockets": "PAIR, PAIR"}, open_echo, open_ping)
