"""Events between records, whatever carries the channel: they come where they were written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import pytest

from flinknet.buffer.buffer import DataType
from flinknet.records.partitioner import BroadcastPartitioner
from flinknet.records.reader import RecordReader
from flinknet.records.writer import RecordWriter
from flinknet.wire.events import Event
from tests.contract.hosts import Exchange

BARRIER = DataType.ALIGNED_CHECKPOINT_BARRIER
ENDS = [DataType.END_OF_DATA, DataType.END_OF_PARTITION]


class Task:
    """Notes what it reads, events and records, in one list for each channel; aligns barriers: a
    channel goes on when its barrier has come on every channel."""

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
        """Every channel ended, as the handler was told."""
        for seen in self.seen.values():
            assert [event.data_type for event in seen[-2:]] == ENDS
            del seen[-2:]


@asynccontextmanager
async def running(task: Task, writer: RecordWriter) -> AsyncIterator[None]:
    """Run the task until the writer, which is written to in the block, has finished."""
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
    """A17: though nobody flushes, and however the records before it are cut into buffers."""
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
    """Row 16: a channel delivers nothing behind its barrier until it has come on the other."""
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
