"""Records far longer than a buffer: readers reassemble them on disk."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flinknet.net.network_environment import NetworkEnvironment
from flinknet.records.partitioner import BroadcastPartitioner
from tests.contract.hosts import WITH_CREDIT, open_exchange

KIB = 1024
SPILLING = {"record_spill_bytes": 100 * KIB, "reassembly_memory_bytes": 100 * KIB}
RECORDS: list[Any] = [
    1,
    "x" * 150 * KIB,
    (2, b"y" * 90 * KIB, {"three": [4.0]}),
    "between",
    [number * 70_000 for number in range(40_000)],
    None,
]
ARRIVING = [tuple(record) if isinstance(record, list) else record for record in RECORDS]
ARRIVING[2] = (2, b"y" * 90 * KIB, {"three": (4.0,)})


@pytest.mark.parametrize("kind", WITH_CREDIT)
async def test_long_records_among_short_ones(kind: str) -> None:
    """A2, A5, A6: several readers at once get records below and above the spill threshold."""
    async with open_exchange(kind, **SPILLING) as exchange:
        writer = exchange.writer(subpartitions=3, partitioner=BroadcastPartitioner())
        readers = [exchange.reader(index) for index in range(3)]

        async def consume(number: int) -> list[Any]:
            return [record async for record in readers[number]]

        async def produce() -> None:
            await writer.emit_many(RECORDS)
            await writer.finish()

        *taken, _ = await asyncio.gather(*map(consume, range(3)), produce())
        assert taken == [ARRIVING] * 3
        for reader in readers:
            reader.close()
        if isinstance(exchange.consumer, NetworkEnvironment):
            counts = exchange.consumer.statistics().reassembly
            assert (counts.records, counts.memory_bytes, counts.spilled_records) == (0, 0, 0)
            assert counts.records_spilled_before >= 6


@pytest.mark.parametrize("kind", ["local", "tcp"])
async def test_a_partial_record_is_freed_with_its_reader(kind: str) -> None:
    """A closed reader releases the memory and disk of a partial record.

    All readers of a worker share one account.
    """
    async with open_exchange(kind, **SPILLING) as exchange:
        consumer = exchange.consumer
        assert isinstance(consumer, NetworkEnvironment)
        writers = [exchange.writer(name) for name in "ab"]
        readers = [exchange.reader(name=name) for name in "ab"]
        emitting = [asyncio.create_task(writer.emit("x" * 4096 * KIB)) for writer in writers]

        async def read_part(reader: Any) -> None:
            for _ in range(80):
                assert len(await reader.next_batch()) == 0

        await asyncio.gather(*map(read_part, readers))
        counts = consumer.statistics().reassembly
        assert counts.records == 2
        assert counts.spilled_records >= 1
        assert counts.memory_bytes + counts.spilled_bytes == 2 * 80 * KIB
        assert counts.memory_bytes <= counts.memory_bytes_max
        for reader in readers:
            reader.close()
        counts = consumer.statistics().reassembly
        assert (counts.records, counts.memory_bytes, counts.spilled_records) == (0, 0, 0)
        for emit in emitting:
            emit.cancel()
        await asyncio.gather(*emitting, return_exceptions=True)
        for writer in writers:
            writer.close()
