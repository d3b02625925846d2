"""Events between records arrive at the place where they were written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import pytest

from flinknet.buffer.buffer import DataType
from flinknet.config import WireLimits
from flinknet.records.partitioner import BroadcastPartitioner
from flinknet.records.reader import RecordReader
from flinknet.records.writer import RecordWriter
from flinknet.wire.events import Event, Watermark, decode_if_valid
from tests.contract.hosts import Exchange, open_exchange

BARRIER = DataType.ALIGNED_CHECKPOINT_BARRIER
ENDS = [DataType.END_OF_DATA, DataType.END_OF_PARTITION]


class Task:
    """A task that notes events and records in one list for each channel, and aligns barriers.

    A channel resumes when the barrier has come on every channel.
    """

    def __init__(self) -> None:
        self.reader: RecordReader
        self.seen: dict[int, list[Any]] = {}
        self.aligned: list[int] = []
        self.at_alignment: list[list[int]] = []

    def on_event(self, channel: int, event: Event) -> None:
        self.seen.setdefault(channel, []).append(event)
        if event.data_type.is_blocking_upstream:
            self.aligned.append(channel)
            if len(self.aligned) == len(self.reader.gate.channels):
                self.at_alignment.append([len(seen) for seen in self.seen.values()])
                for each in self.aligned:
                    self.reader.gate.channels[each].resume_consumption()
                self.aligned = []

    async def run(self) -> None:
        async for batch in self.reader.batches():
            self.seen.setdefault(batch.channel, []).extend(batch)
        self.reader.close()

    def take_ends(self) -> None:
        """Check that every channel ended with the two end events, and remove them."""
        for seen in self.seen.values():
            assert [event.data_type for event in seen[-2:]] == ENDS
            del seen[-2:]


@asynccontextmanager
async def running(task: Task, writer: RecordWriter) -> AsyncIterator[None]:
    """Run the task until the writer, which the block uses, has finished."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(task.run())
        yield
        await writer.finish()
        writer.close()


def numbered(data_type: DataType, number: int) -> Event:
    return Event(data_type, msgpack.packb(["number", number]))


@pytest.mark.parametrize("record", ["short", "x" * 5_000], ids=["short", "over five buffers"])
async def test_an_event_comes_between_the_records_that_it_was_written_between(
    exchange: Exchange, record: str
) -> None:
    """A17: an event keeps its place without a flush, however full the buffers before it are."""
    task = Task()
    writer = exchange.writer(buffer_timeout_ms=-1)
    task.reader = exchange.reader(event_handler=task)
    written: list[Any] = []
    async with running(task, writer):
        for number in range(5):
            records = [(number, index, record) for index in range(number * 10)]
            event = numbered(DataType.EVENT_BUFFER, number)
            for each in records:
                await writer.emit(each)
            await writer.broadcast_event(event)
            written += [*records, event]
            while task.seen.get(0) != written:
                await asyncio.sleep(0)
    task.take_ends()
    assert task.seen == {0: written}


async def test_barriers_align_channels_that_their_handler_resumes(exchange: Exchange) -> None:
    """Row 16: a channel delivers nothing behind its barrier until the other channel has its own."""
    task = Task()
    writer = exchange.writer(
        subpartitions=2, partitioner=BroadcastPartitioner(), buffer_timeout_ms="adaptive"
    )
    task.reader = exchange.reader(0, 1, event_handler=task)
    written: list[Any] = []
    positions = []
    async with running(task, writer):
        for number in range(5):
            records = [(number, index) for index in range(number * 100)]
            await writer.emit_many(records)
            for subpartition in range(2):
                await writer.emit_event(numbered(BARRIER, number), subpartition)
            written += [*records, numbered(BARRIER, number)]
            positions.append([len(written)] * 2)
    task.take_ends()
    assert task.at_alignment == positions
    assert task.seen == {0: written, 1: written}


@pytest.mark.parametrize("events_max", [1, 2, 30])
async def test_a_writer_waits_for_a_reader_that_is_held_up(kind: str, events_max: int) -> None:
    """The writer waits, for every kind of event, and no event is lost.

    Of watermarks that wait, only the last is sent.
    """
    wire = WireLimits(events_per_channel_max=events_max)
    async with open_exchange(kind, wire=wire) as exchange:
        writer = exchange.writer(buffer_timeout_ms=0.0)
        task = Task()
        task.reader = exchange.reader(event_handler=task)
        written: list[Any] = []
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(write_events(writer, written))
            for _ in range(1_000):  # the reader is held up meanwhile
                await asyncio.sleep(0)
            assert not writing.done()
            tasks.create_task(task.run())
            await writing
            await writer.finish()
            writer.close()
    task.take_ends()
    seen = task.seen[0]
    moments = [said.timestamp_ms for said in map(watermark_in, seen) if said is not None]
    assert [one for one in seen if watermark_in(one) is None] == written
    assert moments == sorted(set(moments))
    assert moments[-1] == 399


async def write_events(writer: RecordWriter, written: list[Any]) -> None:
    """Write custom events, each followed by two watermarks, and a few records and barriers."""
    for number in range(200):
        said = [numbered(DataType.EVENT_BUFFER, number)]
        if number % 70 == 0:
            said.append(numbered(BARRIER, number))
        for event in said:
            await writer.broadcast_event(event)
            written.append(event)
        for moment in (2 * number, 2 * number + 1):
            await writer.broadcast_event(Watermark(moment).event())
        if number % 50 == 0:
            await writer.emit(number)
            written.append(number)


def watermark_in(seen: Any) -> Watermark | None:
    said = decode_if_valid(seen) if isinstance(seen, Event) else None
    return said if isinstance(said, Watermark) else None
