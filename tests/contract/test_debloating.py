"""Buffer debloating over every kind of channel, with a clock that the test drives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from flinknet.config import BufferDebloatConfig
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.records.writer import RecordWriter
from tests.contract.hosts import Exchange, open_exchange
from tests.unit.net.stranger import until

SEGMENT_BYTES = 1024
SMALLEST_BYTES = 64
BUFFERS_BEHIND = 4
BUFFERS_PER_CHANNEL = 16
"""Enough that the reader announces new credit before fewer than ``BUFFERS_BEHIND`` are left."""

BUFFERS_MAX = 200
"""More buffers than any change of size takes."""


@pytest.fixture
async def exchange(kind: str) -> AsyncIterator[Exchange]:
    debloat = BufferDebloatConfig(
        enabled=True, period_ms=1e9, samples=3, segment_bytes_min=SMALLEST_BYTES
    )
    async with open_exchange(
        kind,
        segment_bytes=SEGMENT_BYTES,
        buffers_per_channel=BUFFERS_PER_CHANNEL,
        debloat=debloat,
    ) as opened:
        yield opened


async def write_for_ever(writer: RecordWriter) -> None:
    """Write records of one byte, so that every buffer size can be filled exactly."""
    while True:
        await writer.emit_many(range(128))


class Consumer:
    """A consumer that takes buffers one by one, and advances its clock with each."""

    def __init__(self, gate: InputGate) -> None:
        self.gate = gate
        self.now = 0.0
        gate.debloating.end_wait(self.now)

    async def take(self, seconds: float) -> int:
        """Take a data buffer when others wait behind it, advance the clock, and return the size."""
        channel = self.gate.channels[0]
        await until(lambda: channel.statistics().queued_buffers >= BUFFERS_BEHIND)
        polled = self.gate.poll()
        assert polled is not None
        buffer = polled[1]
        size = buffer.size
        buffer.recycle()
        self.now += seconds
        self.gate.debloating.recalculate(self.now)
        return size

    async def take_until(self, size: int, *, seconds: float) -> None:
        """Take buffers until one has a size."""
        for _ in range(BUFFERS_MAX):
            if await self.take(seconds) == size:
                return
        pytest.fail(f"no buffer had {size} bytes")


async def test_buffers_shrink_for_a_slow_consumer_and_fill_up_for_a_fast_one(
    exchange: Exchange,
) -> None:
    """Census 1.8, D9, E6, F11: the data in flight is as much as is consumed in a second."""
    writer = exchange.writer(buffer_timeout_ms=-1)
    location = PartitionLocation(exchange.producer.address, "p", 0)
    consumer = Consumer(exchange.consumer.create_input_gate([location]))
    writing = asyncio.create_task(write_for_ever(writer))
    try:
        assert await consumer.take(seconds=1.0) == SEGMENT_BYTES
        await consumer.take_until(SMALLEST_BYTES, seconds=1.0)
        await consumer.take_until(SEGMENT_BYTES, seconds=1e-6)
    finally:
        writing.cancel()
        await asyncio.wait([writing])
        consumer.gate.release()
        writer.close()
