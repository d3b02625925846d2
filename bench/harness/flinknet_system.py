"""flinknet as the system under test: a result partition at one end, an input gate at the other.

A family defines both ends of each variant with ``Ends``. The channels of a partition share one TCP
connection, each with its own credit. Every round is a separate partition over the same connection.
The four loops at the top are the only code that runs per record.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import flinknet
from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.certificates import bench_tls
from bench.harness.system import SUBJECT, System
from flinknet import (
    NetworkConfig,
    NetworkEnvironment,
    Partitioner,
    PartitionLocation,
    RecordReader,
    RecordWriter,
)
from flinknet.compiled_modules import IMPLEMENTATION

__all__ = [
    "CONSUME",
    "EMIT",
    "Consume",
    "Emit",
    "Ends",
    "FlinknetConsumer",
    "FlinknetProducer",
    "as_the_variant_says",
    "flinknet_system",
    "network_parameters",
    "version",
]


async def emit_each(writer: RecordWriter, blocks: AsyncIterable[Block]) -> None:
    """Emit one record per awaited call; the variant ``record``."""
    async for block in blocks:
        for record in block:
            await writer.emit(record)


async def emit_blocks(writer: RecordWriter, blocks: AsyncIterable[Block]) -> None:
    """Emit one block per awaited call; the variant ``bulk``."""
    async for block in blocks:
        await writer.emit_many(block)


async def consume_each(reader: RecordReader, weigh: Weigh) -> Tally:
    """Consume one record per step of an asynchronous iterator; the variant ``record``."""
    records = checksum = 0
    async for record in reader:
        records += 1
        checksum += weigh(record)
    return Tally(records, checksum)


async def consume_batches(reader: RecordReader, weigh: Weigh) -> Tally:
    """Consume one buffer per step; the variant ``bulk``.

    Its records are added up like the blocks of any other system.
    """
    records = checksum = 0
    async for batch in reader.batches():
        records += len(batch)
        checksum += sum(map(weigh, batch))
    return Tally(records, checksum)


Emit = Callable[[RecordWriter, AsyncIterable[Block]], Awaitable[None]]
Consume = Callable[[RecordReader, Weigh], Awaitable[Tally]]

EMIT: dict[str, Emit] = {"record": emit_each, "bulk": emit_blocks}
CONSUME: dict[str, Consume] = {"record": consume_each, "bulk": consume_batches}


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of flinknet in a variant.

    Both processes use ``config``, ``secret`` and ``tls``; both ends register ``types``.
    """

    emit: Emit
    consume: Consume
    partitioner: Callable[[], Partitioner]
    subpartitions: int = 1
    config: NetworkConfig | None = None
    types: Sequence[type] = ()
    secret: str | None = None
    tls: bool = False


class FlinknetProducer:
    """Writes each round to a new partition."""

    def __init__(self, environment: NetworkEnvironment, ends: Ends) -> None:
        self._environment = environment
        self._ends = ends
        self._round = 0
        self._records_per_buffer = 0.0

    @property
    def address(self) -> str:
        """The address on which the environment listens."""
        return self._environment.address

    async def produce(self, blocks: AsyncIterable[Block]) -> None:
        """Emit everything, then wait until the consumer has processed all of it."""
        self._round += 1
        async with self._environment.open_writer(
            f"round {self._round}",
            subpartitions=self._ends.subpartitions,
            partitioner=self._ends.partitioner(),
            types=self._ends.types,
        ) as writer:
            await self._ends.emit(writer, blocks)
        self._records_per_buffer = writer.records_out / writer.buffers_opened

    def observations(self) -> Mapping[str, Any]:
        """Return the number of records per buffer in the last round."""
        return {"records_per_buffer": round(self._records_per_buffer, 2)}


class FlinknetConsumer:
    """Reads all subpartitions of each round's partition with one gate."""

    def __init__(self, environment: NetworkEnvironment, ends: Ends, address: str) -> None:
        self._environment = environment
        self._ends = ends
        self._address = address
        self._round = 0

    async def consume(self, weigh: Weigh) -> Tally:
        """Read until the end of the partition."""
        self._round += 1
        locations = [
            PartitionLocation(self._address, f"round {self._round}", subpartition)
            for subpartition in range(self._ends.subpartitions)
        ]
        gate = self._environment.create_input_gate(locations)
        reader = self._environment.create_record_reader(gate, types=self._ends.types)
        try:
            return await self._ends.consume(reader, weigh)
        finally:
            reader.close()


EndsOf = Callable[[Case, str], Ends]
"""Makes the ends of a case in a variant; a module-level function, called in each process."""


def flinknet_system(
    summary: str,
    variants: Iterable[str],
    ends_of: EndsOf,
    parameters: Callable[[Case], dict[str, Any]],
) -> System:
    """Return flinknet with the variants that a family compares."""
    return System(
        name=SUBJECT,
        summary=summary,
        variants=tuple(variants),
        version=version,
        parameters=parameters,
        open_producer=partial(_open_producer, ends_of),
        open_consumer=partial(_open_consumer, ends_of),
    )


@asynccontextmanager
async def _open_producer(
    ends_of: EndsOf, case: Case, variant: str
) -> AsyncIterator[FlinknetProducer]:
    ends = ends_of(case, variant)
    async with _environment(ends) as environment:
        yield FlinknetProducer(environment, ends)


@asynccontextmanager
async def _open_consumer(
    ends_of: EndsOf, case: Case, variant: str, address: str
) -> AsyncIterator[FlinknetConsumer]:
    ends = ends_of(case, variant)
    async with _environment(ends) as environment:
        yield FlinknetConsumer(environment, ends, address)


def _environment(ends: Ends) -> NetworkEnvironment:
    tls = bench_tls() if ends.tls else None
    return NetworkEnvironment(config=ends.config, secret=ends.secret, tls=tls)


def network_parameters(config: NetworkConfig) -> dict[str, Any]:
    """Return the settings that matter for throughput and latency."""
    return {
        "segment_bytes": config.segment_bytes,
        "buffers_per_channel": config.buffers_per_channel,
        "floating_buffers_per_gate": config.floating_buffers_per_gate,
        "buffer_timeout_ms": config.buffer_timeout_ms,
        "event_loop": "uvloop",
    }


def as_the_variant_says(*names: str) -> dict[str, str]:
    """Return the parameters in which variants differ."""
    return dict.fromkeys(names, "as the variant says")


def version() -> str:
    """Return flinknet's version, and whether it runs compiled."""
    return f"{flinknet.__version__} {IMPLEMENTATION}"
