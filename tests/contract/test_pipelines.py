"""Pipelines of several tasks, some of them slow: no record is lost, torn or out of order.

A slow task lets the loop turn many times between two steps. No test uses a clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

import pytest

from flinknet.consumer.input_channel import PartitionLocation
from flinknet.records.partitioner import RebalancePartitioner
from flinknet.records.reader import RecordReader
from flinknet.records.writer import RecordWriter
from tests.contract.hosts import Exchange, Host

SENT = 1_500
"""Records of each sender, several times the capacity of a stage's buffers."""

AT_ONCE = 50
SLOW_TURNS = 100
TURNS = 2_000
"""Loop turns after which everything that can happen has happened."""


async def let_turn(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


class Stage:
    """Writers of one vertex and readers of the next, each with a channel from every writer."""

    def __init__(self, exchange: Exchange, name: str, size: int, *, back: bool = False) -> None:
        source: Host = exchange.consumer if back else exchange.producer
        target: Host = exchange.producer if back else exchange.consumer
        self.writers = [
            exchange.writer(
                f"{name}{number}",
                subpartitions=size,
                partitioner=RebalancePartitioner(),
                back=back,
            )
            for number in range(size)
        ]
        self.readers = [
            target.create_record_reader(
                target.create_input_gate(
                    [
                        PartitionLocation(source.address, f"{name}{number}", index)
                        for number in range(size)
                    ]
                )
            )
            for index in range(size)
        ]
        self.held_back = False

    def _look(self) -> None:
        """Note whether a writer has had to wait for the readers."""
        available = [writer.partition.availability.available for writer in self.writers]
        self.held_back = self.held_back or not all(available)

    async def write(self, writer: RecordWriter, records: list[Any], *, slow: bool) -> None:
        """Write records as a sender does."""
        for start in range(0, len(records), AT_ONCE):
            if slow:
                await let_turn(SLOW_TURNS)
            await writer.emit_many(records[start : start + AT_ONCE])
        await end(writer)

    async def read(self, reader: RecordReader, *, slow: bool) -> list[Any]:
        """Read records as a receiver does."""
        taken: list[Any] = []
        while True:
            if slow:
                await let_turn(SLOW_TURNS)
                self._look()
            batch = await reader.next_batch()
            if batch is None:
                reader.close()
                return taken
            taken += batch


async def end(writer: RecordWriter) -> None:
    await writer.finish()
    writer.close()


async def forward(reader: RecordReader, writer: RecordWriter, own: int) -> None:
    """Forward records, and append the task's own number to each."""
    async for batch in reader.batches():
        await writer.emit_many((*record, own) for record in batch)
    reader.close()
    await end(writer)


def sent_by(number: int) -> list[Any]:
    return [(number, count, "payload" * (count % 20)) for count in range(SENT)]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("forwarders", [False, True], ids=["direct", "forwarded"])
@pytest.mark.parametrize("slow", ["nobody", "sender", "receiver"])
async def test_all_that_was_sent_arrives(
    exchange: Exchange, slow: str, forwarders: bool, size: int
) -> None:
    """V3, by meaning: with and without a forwarder, slow sender, slow receiver, all to all."""
    first = Stage(exchange, "first", size)
    last = first
    tasks: list[Awaitable[Any]] = [
        first.write(writer, sent_by(number), slow=slow == "sender")
        for number, writer in enumerate(first.writers)
    ]
    if forwarders:
        last = Stage(exchange, "last", size, back=True)
        ways = zip(first.readers, last.writers, strict=True)
        tasks += [forward(reader, writer, own) for own, (reader, writer) in enumerate(ways)]
    tasks += [last.read(reader, slow=slow == "receiver") for reader in last.readers]
    received = (await asyncio.gather(*tasks))[-size:]

    if slow == "receiver" and exchange.producer.config.flow_control == "credit":
        assert last.held_back, "the receiver was not slow"
    everything = [record[:3] for taken in received for record in taken]
    assert sorted(everything) == [record for number in range(size) for record in sent_by(number)]
    for taken in received:
        for way in {(record[0], *record[3:]) for record in taken}:
            numbers = [record[1] for record in taken if (record[0], *record[3:]) == way]
            assert numbers == sorted(numbers), "records of one way overtook each other"


async def fork(exchange: Exchange, records: Iterable[Any]) -> None:
    """Write each record to both partitions from one task."""
    writers = [exchange.writer("left"), exchange.writer("right")]
    for record in records:
        for writer in writers:
            await writer.emit(record)
    await asyncio.gather(*map(end, writers))


async def read_all(reader: RecordReader) -> list[Any]:
    taken = [record async for record in reader]
    reader.close()
    return taken


async def test_two_ways_from_one_source_meet_again(exchange: Exchange) -> None:
    """V4: a self-join does not deadlock if its task reads both sides as data arrives."""
    sent = sent_by(0)
    address = exchange.producer.address
    locations = [PartitionLocation(address, side, 0) for side in ("left", "right")]
    joined = exchange.consumer.create_record_reader(exchange.consumer.create_input_gate(locations))
    taken, _ = await asyncio.gather(read_all(joined), fork(exchange, sent))
    assert sorted(taken) == sorted(sent * 2)


async def test_a_side_that_is_read_later_waits_in_its_buffers(exchange: Exchange) -> None:
    """V4: reading one side to its end first works if the other side fits its buffers."""
    sent = sent_by(0)[:20]
    left, right = exchange.reader(name="left"), exchange.reader(name="right")
    forking = asyncio.ensure_future(fork(exchange, sent))
    assert await read_all(left) == sent
    assert await read_all(right) == sent
    await forking


async def test_a_side_that_is_not_read_stops_the_source_of_both(exchange: Exchange) -> None:
    """A21, V4: a task with several writers continues only when all of them can.

    A pipelined exchange stops if the unread side does not fit. Overdraft buffers serve the record
    in progress, not the next one. Flink's planner puts a blocking exchange there. Nothing is lost:
    the source continues when the other side is read, and both sides end.
    """
    sent = sent_by(0)
    left, right = exchange.reader(name="left"), exchange.reader(name="right")
    forking = asyncio.ensure_future(fork(exchange, sent))
    reading = asyncio.ensure_future(read_all(left))
    await let_turn(TURNS)
    assert not reading.done()
    assert await read_all(right) == sent
    assert await reading == sent
    await forking
