"""flinknet broadcasting every record to a number of remote channels, a variant for each number.

The consumer reads all channels with one gate, adds up each channel separately, and requires equal
sums. The records of the checking round, which is the first one, count their serialisations.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from bench.harness.case import Block, Case, Tally, Weigh
from bench.harness.flinknet_system import (
    EMIT,
    Ends,
    FlinknetProducer,
    flinknet_system,
    network_parameters,
)
from flinknet import (
    BroadcastPartitioner,
    NetworkConfig,
    NetworkEnvironment,
    RecordReader,
    RecordWriter,
)
from flinknet.partition.result_partition import ResultPartition

__all__ = ["CHANNELS", "SYSTEM", "CountedRecord"]

CHANNELS = {"1 channel": 1, **{f"{channels} channels": channels for channels in (2, 4, 8)}}


class _Record(NamedTuple):
    record: Mapping[str, Any]


class CountedRecord(_Record):
    """A record that counts how often it is serialised.

    Serialising a named tuple iterates over its elements once.
    """

    serialised = 0

    def __iter__(self) -> Iterator[Any]:
        """Count the serialisation and return the elements."""
        CountedRecord.serialised += 1
        return super().__iter__()


class BroadcastProducer(FlinknetProducer):
    """Counts serialisations in its first round, and bytes in the last one."""

    _counted = 0
    _written: ResultPartition

    def __init__(self, environment: NetworkEnvironment, ends: Ends) -> None:
        super().__init__(environment, replace(ends, emit=self._emit_blocks))

    async def _emit_blocks(self, writer: RecordWriter, blocks: AsyncIterable[Block]) -> None:
        self._written = writer.partition
        await EMIT["bulk"](writer, blocks if self._counted else self._count(blocks))

    async def _count(self, blocks: AsyncIterable[Block]) -> AsyncIterator[Block]:
        async for block in blocks:
            self._counted += len(block)
            yield [CountedRecord(record) for record in block]

    def observations(self) -> Mapping[str, Any]:
        """Return how often a record was serialised, and how often its bytes were sent."""
        written = self._written.statistics()
        bytes_out = sum(part.bytes_out for part in written.subpartitions)
        return {
            "serialised_per_record": CountedRecord.serialised / self._counted,
            "bytes_out_per_byte_produced": round(bytes_out / written.bytes_produced, 3),
        }


async def consume_alike(channels: int, reader: RecordReader, weigh: Weigh) -> Tally:
    """Add up each channel, and return the tally that all of them share.

    Raises RuntimeError if the channels differ.
    """
    records, checksums = [0] * channels, [0] * channels
    async for batch in reader.batches():
        records[batch.channel] += len(batch)
        checksums[batch.channel] += sum(map(weigh, map(_uncounted, batch)))
    tallies = set(map(Tally, records, checksums))
    if len(tallies) > 1:
        raise RuntimeError(f"the channels of a broadcast differ: {tallies}")
    return tallies.pop()


def _uncounted(record: Any) -> Any:
    return record.record if type(record) is CountedRecord else record


def _ends_of(case: Case, variant: str) -> Ends:
    channels = CHANNELS[variant]
    return Ends(
        EMIT["bulk"],
        partial(consume_alike, channels),
        BroadcastPartitioner,
        channels,
        types=[CountedRecord],
    )


@asynccontextmanager
async def _open_producer(case: Case, variant: str) -> AsyncIterator[BroadcastProducer]:
    async with NetworkEnvironment() as environment:
        yield BroadcastProducer(environment, _ends_of(case, variant))


def _parameters(case: Case) -> dict[str, Any]:
    return {"partitioner": BroadcastPartitioner.__name__, **network_parameters(NetworkConfig())}


SYSTEM = replace(
    flinknet_system(
        "every record to each of some channels over one connection",
        CHANNELS,
        _ends_of,
        _parameters,
    ),
    open_producer=_open_producer,
)
