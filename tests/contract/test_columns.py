"""Arrow record batches of any length, among other records and partitioned by key."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinknet.errors import SerializationError
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.records.columns.partitioner import ColumnHashPartitioner
from flinknet.records.partitioner import BroadcastPartitioner, HashPartitioner, RebalancePartitioner
from flinknet.records.serialization.extension_types import ARROW_BATCH, WRITERS
from tests.contract.ends import consume, produce
from tests.contract.hosts import KINDS, Exchange, open_exchange
from tests.unit.records.columns.arrow_batches import bare_batch, batch_of, stream_of

KIB = 1024


def numbered(first: int, rows: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + rows)
    return pa.record_batch({"number": numbers, "key": numbers * 7919 % 101, "half": numbers / 2})


ROWS = [0, 1, 3, 40, 500, 5_000, 20, 1_000, 0, 30]
BATCHES = [numbered(10_000 * number, rows) for number, rows in enumerate(ROWS)]
"""Batches shorter than a buffer, and far longer."""

MIXED: list[Any] = [
    1,
    BATCHES[3],
    "text",
    batch_of("dictionary", "strings"),
    BATCHES[5],
    b"y" * 30_000,
    ("inside", BATCHES[4]),
    *range(100),
    batch_of(),
]


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "many"])
async def test_batches_arrive_among_other_records(exchange: Exchange, many: bool) -> None:
    """Batches of several schemas arrive unchanged among other records."""
    taken, _ = await asyncio.gather(
        consume(exchange.reader()), produce(exchange.writer(), MIXED, many=many)
    )
    assert taken == MIXED
    assert [type(record) for record in taken] == [type(record) for record in MIXED]


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "many"])
async def test_rows_are_exchanged_by_key(exchange: Exchange, many: bool) -> None:
    """Each row arrives once, at the consumer of its key, in the order of its producer."""
    writers = [
        exchange.writer(name, subpartitions=3, partitioner=ColumnHashPartitioner("key"))
        for name in "ab"
    ]
    readers = [[exchange.reader(index, name=name) for index in range(3)] for name in "ab"]
    *taken, _, _ = await asyncio.gather(
        *(consume(reader) for row in readers for reader in row),
        *(produce(writer, BATCHES, many=many) for writer in writers),
    )
    of_records = HashPartitioner(lambda row: row["key"])
    of_records.setup(3)
    rows = [row for batch in BATCHES for row in batch.to_pylist()]
    for number, batches in enumerate(taken):
        came = [row for batch in batches for row in batch.to_pylist()]
        assert came == [row for row in rows if of_records.select(row) == number % 3]


async def test_batches_are_broadcast_and_balanced(exchange: Exchange) -> None:
    to_all = exchange.writer("all", subpartitions=2, partitioner=BroadcastPartitioner())
    in_turn = exchange.writer("turn", subpartitions=2, partitioner=RebalancePartitioner())
    readers = [exchange.reader(index, name=name) for name in ("all", "turn") for index in (0, 1)]
    *taken, _, _ = await asyncio.gather(
        *map(consume, readers), produce(to_all, MIXED), produce(in_turn, BATCHES)
    )
    assert taken == [MIXED, MIXED, BATCHES[::2], BATCHES[1::2]]


@pytest.mark.parametrize("kind", KINDS)
async def test_long_batches_are_put_together_on_disk(kind: str) -> None:
    """Long batches on two channels at once are reassembled on disk, and everything is released.

    Each batch spans hundreds of buffers.
    """
    spilling = {"record_spill_bytes": 100 * KIB, "reassembly_memory_bytes": 100 * KIB}
    batches = [numbered(0, 30_000), numbered(5, 10), numbered(7, 25_000)]
    async with open_exchange(kind, **spilling) as exchange:
        writer = exchange.writer(subpartitions=2, partitioner=ColumnHashPartitioner("number"))
        readers = [exchange.reader(index) for index in range(2)]
        producing = asyncio.ensure_future(produce(writer, batches))
        taken = await asyncio.gather(*map(consume, readers))
        await producing
        rows = [sum(batch.num_rows for batch in came) for came in taken]
        assert sum(rows) == 55_010
        assert min(rows) > 20_000
        for came in taken:
            for batch in came:
                batch.validate(full=True)
            long = [batch["half"].to_numpy() * 2 == batch["number"].to_numpy() for batch in came]
            assert all(each.all() for each in long)
        if isinstance(exchange.consumer, NetworkEnvironment):
            counts = exchange.consumer.statistics().reassembly
            assert (counts.records, counts.memory_bytes, counts.spilled_records) == (0, 0, 0)
            assert counts.records_spilled_before == 4


async def test_a_batch_that_cannot_be_cut_stops_neither_writer_nor_readers(
    exchange: Exchange,
) -> None:
    """A writer that refuses a batch continues, and the readers get no part of the batch."""
    writer = exchange.writer(subpartitions=2, partitioner=ColumnHashPartitioner("key"))
    readers = [exchange.reader(index) for index in range(2)]

    async def write() -> None:
        long = b"x" * exchange.producer.config.record_bytes_max
        for refused in (
            5,
            pa.record_batch({"a": [1]}),
            pa.record_batch({"key": [{"a": 1}]}),
            pa.record_batch({"key": [0, 1, 2, 3], "long": [b"", b"", b"", long]}),
        ):
            await writer.emit(BATCHES[3])
            with pytest.raises(SerializationError):
                await writer.emit(refused)
        await writer.finish()
        writer.close()

    writing = asyncio.ensure_future(write())
    taken = await asyncio.gather(*map(consume, readers))
    await writing
    assert sum(batch.num_rows for came in taken for batch in came) == 4 * BATCHES[3].num_rows


@dataclass
class NoBatch:
    """A value that the writer sends under the type of an Arrow batch."""

    content: bytes


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"no batch", "it does not begin with a schema"),
        (stream_of(bare_batch("nulls", 1 << 20)), "its 1048576 rows have 2097152 entries"),
    ],
    ids=["no batch", "a million rows"],
)
async def test_the_error_of_an_invalid_batch_names_its_channel(
    exchange: Exchange, content: bytes, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error for a malformed batch names the channel and the fault."""
    monkeypatch.setitem(WRITERS, NoBatch, lambda value, _: (ARROW_BATCH, value.content))
    writer, reader = exchange.writer(), exchange.reader()
    await writer.emit(NoBatch(content))
    writer.flush()
    with pytest.raises(SerializationError) as refused:
        await reader.next_batch()
    says = str(refused.value)
    assert "channel 0 (p[0] at" in says
    assert f"it cannot be read as an Arrow record batch: {wrong}" in says
    reader.close()
    writer.close()
