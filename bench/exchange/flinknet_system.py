"""flinknet as the system under test: one result partition, one input gate, every default kept.

The producer's partition has four subpartitions; the consumer reads all four with one gate, so four
logical channels share one TCP connection, each with its own credit. Every round is a partition of
its own over the same connection. The four loops at the top are all that happens per record.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import flinknet
from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.system import System
from flinknet import (
    HashPartitioner,
    NetworkConfig,
    NetworkEnvironment,
    Partitioner,
    PartitionLocation,
    RebalancePartitioner,
    RecordReader,
    RecordWriter,
)

__all__ = [
    "SUBPARTITIONS",
    "SYSTEM",
    "Consume",
    "Emit",
    "FlinknetConsumer",
    "FlinknetProducer",
    "consume_batches",
    "emit_blocks",
    "network_parameters",
    "open_consumer",
    "open_producer",
    "parameters",
    "version",
]

SUBPARTITIONS = 4


async def emit_each(writer: RecordWriter, blocks: AsyncIterable[Block]) -> None:
    """Variant ``record``: one awaited emit for every record."""
    async for block in blocks:
        for record in block:
            await writer.emit(record)


async def emit_blocks(writer: RecordWriter, blocks: AsyncIterable[Block]) -> None:
    """Variant ``bulk``: one awaited emit_many for every block."""
    async for block in blocks:
        await writer.emit_many(block)


async def consume_each(reader: RecordReader, weigh: Weigh) -> Tally:
    """Variant ``record``: one step of an asynchronous iterator for every record."""
    records = checksum = 0
    async for record in reader:
        records += 1
        checksum += weigh(record)
    return Tally(records, checksum)


async def consume_batches(reader: RecordReader, weigh: Weigh) -> Tally:
    """Variant ``bulk``: one step for every buffer, and a plain loop over its records."""
    records = checksum = 0
    async for batch in reader.batches():
        for record in batch:
            records += 1
            checksum += weigh(record)
    return Tally(records, checksum)


Emit = Callable[[RecordWriter, AsyncIterable[Block]], Awaitable[None]]
Consume = Callable[[RecordReader, Weigh], Awaitable[Tally]]

EMIT: dict[str, Emit] = {"record": emit_each, "bulk": emit_blocks}
CONSUME: dict[str, Consume] = {"record": consume_each, "bulk": consume_batches}


class FlinknetProducer:
    """Writes each round to a partition of its own."""

    def __init__(
        self,
        environment: NetworkEnvironment,
        emit: Emit,
        partitioner: Callable[[], Partitioner],
        subpartitions: int = SUBPARTITIONS,
        types: Sequence[type] = (),
    ) -> None:
        self._environment = environment
        self._types = types
        self._emit = emit
        self._partitioner = partitioner
        self._subpartitions = subpartitions
        self._round = 0

    @property
    def address(self) -> str:
        """Where the environment listens."""
        return self._environment.address

    async def produce(self, blocks: AsyncIterable[Block]) -> None:
        """Emit everything; leaving the block waits until the consumer has processed all of it."""
        self._round += 1
        async with self._environment.open_writer(
            f"round {self._round}",
            subpartitions=self._subpartitions,
            partitioner=self._partitioner(),
            types=self._types,
        ) as writer:
            await self._emit(writer, blocks)


class FlinknetConsumer:
    """Reads all subpartitions of each round's partition with one gate."""

    def __init__(
        self,
        environment: NetworkEnvironment,
        consume: Consume,
        address: str,
        subpartitions: int = SUBPARTITIONS,
        types: Sequence[type] = (),
    ) -> None:
        self._environment = environment
        self._types = types
        self._consume = consume
        self._address = address
        self._subpartitions = subpartitions
        self._round = 0

    async def consume(self, weigh: Weigh) -> Tally:
        """Read until the end of the partition."""
        self._round += 1
        locations = [
            PartitionLocation(self._address, f"round {self._round}", subpartition)
            for subpartition in range(self._subpartitions)
        ]
        gate = self._environment.create_input_gate(locations)
        reader = self._environment.create_record_reader(gate, types=self._types)
        try:
            return await self._consume(reader, weigh)
        finally:
            reader.close()


@asynccontextmanager
async def open_producer(
    case: Case, variant: str, config: NetworkConfig | None = None
) -> AsyncIterator[FlinknetProducer]:
    """Open an environment to produce in."""
    async with NetworkEnvironment(config=config) as environment:
        yield FlinknetProducer(environment, EMIT[variant], partial(_partitioner, case))


@asynccontextmanager
async def open_consumer(
    case: Case, variant: str, address: str, config: NetworkConfig | None = None
) -> AsyncIterator[FlinknetConsumer]:
    """Open an environment to consume in."""
    async with NetworkEnvironment(config=config) as environment:
        yield FlinknetConsumer(environment, CONSUME[variant], address)


def network_parameters(config: NetworkConfig) -> dict[str, Any]:
    """Return the settings that matter for throughput and latency."""
    return {
        "segment_bytes": config.segment_bytes,
        "buffers_per_channel": config.buffers_per_channel,
        "floating_buffers_per_gate": config.floating_buffers_per_gate,
        "buffer_timeout_ms": config.buffer_timeout_ms,
        "event_loop": "uvloop",
    }


def _partitioner(case: Case) -> Partitioner:
    return HashPartitioner(case.key) if case.key is not None else RebalancePartitioner()


def parameters(case: Case) -> dict[str, Any]:
    """Return what matters for a fair reading."""
    return {
        "subpartitions": SUBPARTITIONS,
        "partitioner": type(_partitioner(case)).__name__,
        "credit": "on",
        **network_parameters(NetworkConfig()),
    }


def version() -> str:
    """Return flinknet's version."""
    return flinknet.__version__


SYSTEM = System(
    name="flinknet",
    summary="four channels with credit over one connection",
    variants=("record", "bulk"),
    version=version,
    parameters=parameters,
    open_producer=open_producer,
    open_consumer=open_consumer,
)
