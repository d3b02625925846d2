"""flinknet as it stands beside the peers: one subpartition, one channel, every default kept.

``record`` and ``bulk`` have the loops of the family ``exchange``. ``columnar`` sends every record
batch as Arrow's own bytes. The ping-pong has a partition at either end and no buffer timeout, so
every record is sent at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.errors import BenchError
from bench.exchange.flinknet_system import (
    CONSUME,
    EMIT,
    FlinknetConsumer,
    FlinknetProducer,
    network_parameters,
    version,
)
from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.system import System
from bench.peers.cases import COLUMNAR
from bench.peers.pingpong.system import Echo, Pack, Ping, PingPongSystem
from flinknet import (
    ForwardPartitioner,
    NetworkConfig,
    NetworkEnvironment,
    RecordReader,
    RecordWriter,
)

__all__ = ["PING_PONG", "SYSTEM"]


async def emit_batches(writer: RecordWriter, blocks: AsyncIterable[Block]) -> None:
    """Variant ``columnar``: one awaited emit for every record batch, as Arrow's IPC message."""
    async for block in blocks:
        for batch in block:
            await writer.emit(batch.serialize().to_pybytes())


async def consume_batches(reader: RecordReader, weigh: Weigh) -> Tally:
    """Variant ``columnar``: the columns are views of the bytes that arrive."""
    import pyarrow as pa

    schema = COLUMNAR.make_block()[0].schema
    records = checksum = 0
    async for message in reader:
        checksum += weigh(pa.ipc.read_record_batch(pa.py_buffer(message), schema))
        records += 1
    return Tally(records, checksum)


@asynccontextmanager
async def open_producer(case: Case, variant: str) -> AsyncIterator[FlinknetProducer]:
    """Open an environment to produce in."""
    emit = emit_batches if variant == "columnar" else EMIT[variant]
    async with NetworkEnvironment() as environment:
        yield FlinknetProducer(environment, emit, ForwardPartitioner, subpartitions=1)


@asynccontextmanager
async def open_consumer(case: Case, variant: str, address: str) -> AsyncIterator[FlinknetConsumer]:
    """Open an environment to consume in."""
    consume = consume_batches if variant == "columnar" else CONSUME[variant]
    async with NetworkEnvironment() as environment:
        yield FlinknetConsumer(environment, consume, address, subpartitions=1)


class FlinknetEcho:
    """Reads the partition of the other end and writes to its own."""

    def __init__(self, environment: NetworkEnvironment) -> None:
        self.address = environment.address
        self._environment = environment

    async def serve(self, ping_address: str) -> None:
        """Serve until the end of the other end's partition."""
        async with (
            self._environment.open_writer("pong", buffer_timeout_ms=0) as writer,
            self._environment.open_reader(ping_address, "ping") as reader,
        ):
            async for record in reader:
                await writer.emit(record)


class FlinknetPing:
    """A writer, and a reader of what comes back."""

    def __init__(self, address: str, writer: RecordWriter, returned: AsyncIterator[Any]) -> None:
        self.address = address
        self._writer = writer
        self._returned = returned

    async def round_trip(self, record: Any) -> Any:
        """Emit and read."""
        await self._writer.emit(record)
        return await anext(self._returned)


@asynccontextmanager
async def open_echo(pack: Pack) -> AsyncIterator[Echo]:
    """Open an environment."""
    async with NetworkEnvironment() as environment:
        yield FlinknetEcho(environment)


@asynccontextmanager
async def open_ping(pack: Pack, address: str) -> AsyncIterator[Ping]:
    """Open an environment; at the end, end the partition here and read the other one's end."""
    async with (
        NetworkEnvironment() as environment,
        environment.open_reader(address, "pong") as reader,
    ):
        returned = aiter(reader)
        async with environment.open_writer("ping", buffer_timeout_ms=0) as writer:
            yield FlinknetPing(environment.address, writer, returned)
        async for record in returned:
            raise BenchError(f"{record} has come back once too often")


def _parameters(case: Case) -> dict[str, Any]:
    return {
        "subpartitions": 1,
        "partitioner": "ForwardPartitioner",
        "credit": "on",
        **network_parameters(NetworkConfig()),
    }


SYSTEM = System(
    name="flinknet",
    summary="one channel with credit",
    variants=("record", "bulk"),
    version=version,
    parameters=_parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)
PING_PONG = PingPongSystem(
    "flinknet",
    version,
    {**network_parameters(NetworkConfig()), "credit": "on", "buffer_timeout_ms": 0},
    open_echo,
    open_ping,
)
