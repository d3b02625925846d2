"""A broadcast's records are counted as they are serialized, and each channel is checked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from operator import itemgetter

import msgpack
import pytest

from bench.broadcast.family import further_channel
from bench.broadcast.system import CountedRecord, consume_alike
from bench.exchange.cases import orders
from bench.harness.case import Tally
from bench.harness.row import Row, median_row
from flinknet import CustomPartitioner, NetworkEnvironment, PartitionLocation
from flinknet.records.serialization.packer import RecordPacker


def test_a_record_counts_each_time_it_is_serialised_and_stays_what_it_is() -> None:
    record = orders.make_block()[0]
    counted, before = CountedRecord(record), CountedRecord.serialised
    packed = {RecordPacker([CountedRecord]).pack(counted) for _ in range(3)}
    assert CountedRecord.serialised - before == 3
    (extension,) = map(msgpack.unpackb, packed)
    assert msgpack.unpackb(extension.data) == [0, record]


async def consume_two_channels(records: Sequence[tuple[int, int]]) -> Tally:
    """Send each record to the channel that its first field names; the second channel is weighed."""
    async with NetworkEnvironment() as environment:
        locations = [PartitionLocation(environment.address, "p", channel) for channel in range(2)]
        reader = environment.create_record_reader(environment.create_input_gate(locations))
        consuming = asyncio.create_task(consume_alike(2, reader, itemgetter(1)))
        by_first = CustomPartitioner(lambda first, _: first, itemgetter(0))
        async with environment.open_writer("p", subpartitions=2, partitioner=by_first) as writer:
            await writer.emit_many(records)
        try:
            return await consuming
        finally:
            reader.close()


async def test_channels_that_carry_the_same_have_one_tally() -> None:
    assert await consume_two_channels([(0, 5), (1, 6), (1, 5), (0, 6)]) == Tally(2, 11)


@pytest.mark.parametrize("records", [[(0, 5), (1, 6)], [(0, 5), (1, 5), (1, 0)]])
async def test_channels_that_differ_are_refused(records: Sequence[tuple[int, int]]) -> None:
    with pytest.raises(RuntimeError, match="the channels of a broadcast differ"):
        await consume_two_channels(records)


def row(channels: str, producer: float, consumer: float) -> Row:
    return median_row(
        "broadcast",
        "dict",
        ("flinknet", channels, "1"),
        [1.0],
        [1.0],
        8.0,
        verified=True,
        parameters={
            "producer_cpu_s_per_million_records": producer,
            "consumer_cpu_s_per_million_records": consumer,
        },
    )


def test_a_further_channel_is_measured_by_the_first() -> None:
    rows = [row("1 channel", 2.0, 4.0), row("2 channels", 2.5, 8.0), row("8 channels", 5.5, 32.0)]
    shares = partial(map, lambda side: [further_channel(rows, one, side) for one in rows])
    assert list(shares(["producer", "consumer"])) == [[None, 0.25, 0.25], [None, 1.0, 1.0]]
