"""flinknet as it is compared with the peers: one subpartition, one channel.

``record`` and ``bulk`` have the loops of the family ``exchange``; ``columnar`` emits and reads
Arrow record batches. All settings are defaults, except in ``bulk-132k`` and ``columnar-132k``. A
program with records as long as a default buffer or longer would choose buffers of 132 KiB, which
hold four records of 32 KiB or a batch of 128 KiB. The ping-pong has a partition at either end and
no buffer timeout, so every record is sent at once. ``busy-poll`` is the setting of that name.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from bench.errors import BenchError
from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.flinknet_system import (
    CONSUME,
    EMIT,
    Consume,
    Emit,
    Ends,
    flinknet_system,
    network_parameters,
    version,
)
from bench.peers.columns import ColumnBlock, tally_of
from bench.peers.pingpong.system import BUSY_POLL, Echo, Ping, PingPongSystem
from flinknet import (
    ForwardPartitioner,
    NetworkConfig,
    NetworkEnvironment,
    RecordReader,
    RecordWriter,
)

__all__ = [
    "LARGE_BUFFERS",
    "PING_PONGS",
    "SYSTEM",
    "consume_columns",
    "emit_columns",
    "ends_of",
    "parameters",
]

BUSY_POLL_US = 200.0
"""Longer than a round trip, so that neither end sleeps while the record is at the other."""

LARGE_BUFFERS = "-132k"
KIB = 1024


async def emit_columns(
    columns: ColumnBlock, writer: RecordWriter, blocks: AsyncIterable[Block]
) -> None:
    """Emit one record batch per awaited call."""
    async for block in blocks:
        for batch in columns.of(block):
            await writer.emit(batch)


async def consume_columns(case: Case, reader: RecordReader, weigh: Weigh) -> Tally:
    """Consume one buffer per step, and in it each record batch that ends there."""
    records = checksum = 0
    async for batch in reader.batches():
        for columns in batch:
            tally = tally_of(case, columns, weigh)
            records += tally.records
            checksum += tally.checksum
    return Tally(records, checksum)


def ends_of(case: Case, variant: str) -> Ends:
    """Return the ends for a variant: one channel."""
    form = variant.removesuffix(LARGE_BUFFERS)
    if form == "columnar":
        emit: Emit = partial(emit_columns, ColumnBlock(case))
        consume: Consume = partial(consume_columns, case)
    else:
        emit, consume = EMIT[form], CONSUME[form]
    return Ends(emit, consume, ForwardPartitioner, config=config_of(variant))


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
    """A writer, and a reader of the returned records."""

    def __init__(self, address: str, writer: RecordWriter, returned: AsyncIterator[Any]) -> None:
        self.address = address
        self._writer = writer
        self._returned = returned

    async def round_trip(self, record: Any) -> Any:
        """Emit the record and read it back."""
        await self._writer.emit(record)
        return await anext(self._returned)


@asynccontextmanager
async def open_echo(config: NetworkConfig) -> AsyncIterator[Echo]:
    """Open an environment."""
    async with NetworkEnvironment(config=config) as environment:
        yield FlinknetEcho(environment)


@asynccontextmanager
async def open_ping(config: NetworkConfig, address: str) -> AsyncIterator[Ping]:
    """Open an environment; at the end, end the partition here and read the end of the other."""
    async with (
        NetworkEnvironment(config=config) as environment,
        environment.open_reader(address, "pong") as reader,
    ):
        returned = aiter(reader)
        async with environment.open_writer("ping", buffer_timeout_ms=0) as writer:
            yield FlinknetPing(environment.address, writer, returned)
        async for record in returned:
            raise BenchError(f"{record} has come back once too often")


def config_of(variant: str) -> NetworkConfig:
    """Return the settings of a variant."""
    if variant.endswith(LARGE_BUFFERS):
        return NetworkConfig(segment_bytes=132 * KIB)
    return NetworkConfig()


def parameters(variant: str, case: Case) -> dict[str, Any]:
    """Return the settings that matter for a fair comparison."""
    return {
        "subpartitions": 1,
        "partitioner": "ForwardPartitioner",
        "credit": "on",
        **network_parameters(config_of(variant)),
    }


SYSTEM = flinknet_system(
    "one channel with credit", ("record", "bulk"), ends_of, partial(parameters, "record")
)
PING_PONGS = tuple(
    PingPongSystem(
        "flinknet",
        version,
        {
            **network_parameters(config),
            "credit": "on",
            "buffer_timeout_ms": 0,
            "busy_poll_us": config.busy_poll_us,
        },
        partial(open_echo, config),
        partial(open_ping, config),
        variant,
    )
    for variant, config in (
        ("record", NetworkConfig()),
        (BUSY_POLL, NetworkConfig(busy_poll_us=BUSY_POLL_US)),
    )
)
