"""Dask's tcp comm, which transfers data between its workers, with Dask's own serialization.

``record`` is one awaited write for each record, ``bulk`` one for each block, and ``columnar`` one
for each Arrow record batch. A payload of 32 KiB or more is sent as its own frame, as Dask sends
large bytes. None ends a round.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata
from typing import TYPE_CHECKING, Any

from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.system import System
from bench.peers.pingpong.system import Echo, Ping, PingPongSystem

if TYPE_CHECKING:
    from distributed.comm.tcp import TCP

__all__ = ["PING_PONG", "SYSTEM"]

LISTEN = "tcp://127.0.0.1:0"
OUT_OF_BAND = ("bytes-32k", "bytes-1m", "columnar")


async def send_records(comm: TCP, blocks: AsyncIterable[Block]) -> None:
    """Write one message for every record."""
    write = comm.write
    async for block in blocks:
        for record in block:
            await write(record)
        await drain(comm)
    await write(None)


async def send_frames(comm: TCP, blocks: AsyncIterable[Block]) -> None:
    """Write one message for every record, which Dask serializes by its type."""
    from distributed.protocol import to_serialize

    async for block in blocks:
        for record in block:
            await comm.write([to_serialize(record)])
        await drain(comm)
    await comm.write(None)


async def send_blocks(comm: TCP, blocks: AsyncIterable[Block]) -> None:
    """Write one message for every block."""
    async for block in blocks:
        await comm.write(block)
        await drain(comm)
    await comm.write(None)


async def drain(comm: TCP) -> None:
    """Wait until the kernel has accepted everything written.

    ``write`` returns earlier than that. Without waiting after every block, the producer would fill
    its memory.
    """
    await comm.stream.write(b"")


async def receive_records(comm: TCP, weigh: Weigh) -> Tally:
    """Read one record at a time."""
    read = comm.read
    records = checksum = 0
    while (record := await read()) is not None:
        checksum += weigh(record)
        records += 1
    return Tally(records, checksum)


async def receive_blocks(comm: TCP, weigh: Weigh) -> Tally:
    """Read a block, or a list of one record, at a time."""
    records = checksum = 0
    while (block := await comm.read()) is not None:
        checksum += sum(map(weigh, block))
        records += len(block)
    return Tally(records, checksum)


class DaskProducer:
    """A listener with one comm."""

    def __init__(self, case: Case, variant: str) -> None:
        self.address = ""
        self._connected: asyncio.Future[TCP] = asyncio.get_running_loop().create_future()
        self._send = send_records if variant == "record" else send_blocks
        if case.name in OUT_OF_BAND:
            self._send = send_frames

    async def handle(self, comm: TCP) -> None:
        """Accept the comm."""
        self._connected.set_result(comm)

    async def produce(self, blocks: AsyncIterable[Block]) -> None:
        """Send a round."""
        await self._send(await self._connected, blocks)

    async def close(self) -> None:
        """Close the comm, if there is one."""
        if self._connected.done():
            await self._connected.result().close()


class DaskConsumer:
    """The connecting end of a comm."""

    def __init__(self, comm: TCP, case: Case, variant: str) -> None:
        self._comm = comm
        one_by_one = variant == "record" and case.name not in OUT_OF_BAND
        self._receive = receive_records if one_by_one else receive_blocks

    async def consume(self, weigh: Weigh) -> Tally:
        """Receive a round."""
        return await self._receive(self._comm, weigh)


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[DaskProducer]:
    """Listen."""
    from distributed.comm import listen

    producer = DaskProducer(case, variant)
    async with listen(LISTEN, producer.handle) as listener:
        producer.address = listener.contact_address
        try:
            yield producer
        finally:
            await producer.close()


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[DaskConsumer]:
    """Connect."""
    from distributed.comm import connect

    comm = await connect(address)
    try:
        yield DaskConsumer(comm, case, variant)
    finally:
        await comm.close()


class DaskEcho:
    """A listener that sends records back on one comm."""

    def __init__(self) -> None:
        self.address = ""
        self._ended = asyncio.Event()

    async def handle(self, comm: TCP) -> None:
        """Send every record back."""
        while (record := await comm.read()) is not None:
            await comm.write(record)
        await comm.close()
        self._ended.set()

    async def serve(self, ping_address: str) -> None:
        """Serve one comm until it sends None."""
        await self._ended.wait()


class DaskPing:
    """The connecting end of a ping-pong over one comm."""

    address = ""

    def __init__(self, comm: TCP) -> None:
        self._comm = comm

    async def round_trip(self, record: Any) -> Any:
        """Write the record and read it back."""
        await self._comm.write(record)
        return await self._comm.read()


@asynccontextmanager
async def open_echo() -> AsyncIterator[Echo]:
    """Listen."""
    from distributed.comm import listen

    echo = DaskEcho()
    async with listen(LISTEN, echo.handle) as listener:
        echo.address = listener.contact_address
        yield echo


@asynccontextmanager
async def open_ping(address: str) -> AsyncIterator[Ping]:
    """Connect; send None at the end."""
    from distributed.comm import connect

    comm = await connect(address)
    try:
        yield DaskPing(comm)
        await comm.write(None)
    finally:
        await comm.close()


def _version() -> str:
    return f"distributed {metadata.version('distributed')}"


def _parameters(case: Case) -> dict[str, Any]:
    return {
        "drain": "every block",
        "frames": "a record's own" if case.name in OUT_OF_BAND else "msgpack",
        "event_loop": "uvloop",
    }


SYSTEM = System(
    name="dask",
    summary="distributed's tcp comm, a message for each record, or each block",
    variants=("record", "bulk"),
    version=_version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)
PING_PONG = PingPongSystem("dask", _version, {"event_loop": "uvloop"}, open_echo, open_ping)
