"""Order of barriers and other events: overtaking, blocking, and delivery without credit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flinknet.buffer.buffer import Buffer
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.partition.result_partition import ResultPartition
from flinknet.partition.timeoutable_barrier import OvertakenData
from flinknet.wire.events import (
    Alignment,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointKind,
    CheckpointOptions,
    DecodedEvent,
    EndOfChannelState,
    EndOfData,
    EndOfPartition,
    Event,
    EventAnnouncement,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
    decode_event,
)
from tests.contract.hosts import WITH_CREDIT, Exchange


def barrier(alignment: Alignment, timeout_ms: int | None = None) -> CheckpointBarrier:
    """Return the barrier of checkpoint 1."""
    options = CheckpointOptions(CheckpointKind.CHECKPOINT, alignment, timeout_ms)
    return CheckpointBarrier(1, 1_700_000_000_000, options)


TIMEOUTABLE = barrier(Alignment.ALIGNED, 30_000)
UNALIGNED = barrier(Alignment.UNALIGNED)
IN_ORDER: list[DecodedEvent] = [
    EndOfChannelState(),
    barrier(Alignment.ALIGNED),
    TIMEOUTABLE,
    barrier(Alignment.FORCED_ALIGNED),
    barrier(Alignment.AT_LEAST_ONCE),
    CheckpointBarrier(2, 0, CheckpointOptions(CheckpointKind.SAVEPOINT)),
    CancelCheckpointMarker(1),
    Watermark(5),
    WatermarkStatus(idle=True),
    LatencyMarker(5, "map", 0),
]


class Channel:
    """A partition with one subpartition, and the gate that reads it."""

    def __init__(self, exchange: Exchange) -> None:
        self.partition: ResultPartition = exchange.producer.create_result_partition(
            "p", subpartitions=1
        )
        location = PartitionLocation(exchange.producer.address, "p", 0)
        self.gate: InputGate = exchange.consumer.create_input_gate([location])

    def write(self, number: int) -> None:
        """Write one buffer that contains a number."""
        builder = self.partition.request_builder(0)
        assert builder is not None
        assert builder.append(memoryview(bytes([number]))) == 1
        self.partition.subpartitions[0].seal_open()

    def send(self, said: DecodedEvent) -> None:
        self.partition.broadcast_event(*said.event())

    async def take(self) -> Any:
        """Return the next number, or the next event decoded."""
        while (polled := self.gate.poll()) is None:
            await asyncio.sleep(0)
        _, buffer = polled
        return said_by(buffer)

    def resume(self) -> None:
        self.gate.channels[0].resume_consumption()

    async def end(self) -> list[Any]:
        """End the channel from both sides, and return the numbers that were still in it."""
        left = []
        self.partition.notify_end_of_data()
        while not isinstance(said := await self.take(), EndOfData):
            left.append(said)
        self.gate.acknowledge(0)
        while not self.partition.all_data_processed.available:
            await asyncio.sleep(0)
        self.partition.finish()
        assert await self.take() == EndOfPartition()
        self.gate.release()
        return left


def said_by(buffer: Buffer) -> Any:
    """Return the number or the decoded event in a buffer, and recycle the buffer."""
    view = buffer.view()
    content = bytes(view)
    if isinstance(view, memoryview):
        view.release()
    data_type = buffer.data_type
    buffer.recycle()
    return content[0] if data_type.is_buffer else decode_event(Event(data_type, content))


async def turns(number: int = 200) -> None:
    """Turn the loop until everything on its way has arrived."""
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("said", IN_ORDER, ids=lambda said: str(said.event().body.hex()))
async def test_an_event_keeps_its_place_and_may_block(
    exchange: Exchange, said: DecodedEvent
) -> None:
    """Row 16: an event arrives in order, and a blocking one stops the channel until it is resumed.

    A barrier that can time out is announced earlier.
    """
    channel = Channel(exchange)
    for number in (1, 2):
        channel.write(number)
    channel.send(said)
    channel.write(3)
    channel.partition.flush_all()
    seen = []
    while (taken := await channel.take()) != said:
        seen.append(taken)
    if said.event().data_type.is_blocking_upstream:
        await turns()
        assert channel.gate.poll() is None
        channel.resume()
    assert [each for each in seen if isinstance(each, int)] == [1, 2]
    announced = [EventAnnouncement(TIMEOUTABLE)] if said is TIMEOUTABLE else []
    assert [each for each in seen if not isinstance(each, int)] == announced
    assert await channel.end() == [3]


async def test_an_unaligned_barrier_overtakes_waiting_data(exchange: Exchange) -> None:
    """Row 17: an unaligned barrier is polled first, and hands out the data that it overtook."""
    channel = Channel(exchange)
    for number in range(8):
        channel.write(number)
    channel.partition.flush_all()
    first = await channel.take()
    overtaken: list[OvertakenData | None] = []
    channel.partition.broadcast_barrier(UNALIGNED, overtaken.append)
    stored: list[int] = []
    while not channel.gate.priority_availability.available:
        await asyncio.sleep(0)
    assert await channel.take() == UNALIGNED
    assert channel.gate.channels[0].start_persisting(
        1, lambda buffer: stored.append(said_by(buffer))
    )
    assert overtaken[0] is not None
    stored += [said_by(buffer) for buffer in overtaken[0][0]]
    assert [first, *stored] == list(range(8))
    assert await channel.end() == stored


@pytest.mark.parametrize("kind", WITH_CREDIT)
async def test_events_come_though_there_is_no_credit(exchange: Exchange) -> None:
    """Row 30: a barrier arrives although the reader takes nothing and data waits for buffers.

    Without credit this does not hold, because the connection stops.
    """
    channel = Channel(exchange)
    written = 0
    still = 0
    while still < 200:
        if channel.partition.availability.available:
            channel.write(written % 256)
            written += 1
            still = 0
        channel.partition.flush_all()
        await asyncio.sleep(0)
        still += 1
    channel.send(UNALIGNED)
    while not channel.gate.priority_availability.available:
        await asyncio.sleep(0)
    assert await channel.take() == UNALIGNED
    assert await channel.end() == [number % 256 for number in range(written)]


def by_the_producer(channel: Channel) -> None:
    channel.partition.time_out_barrier(1)


def by_the_consumer(channel: Channel) -> None:
    channel.gate.channels[0].convert_to_priority_event(1)


WAYS: dict[str, list[Callable[[Channel], None]]] = {
    "nobody": [],
    "the producer": [by_the_producer],
    "the consumer": [by_the_consumer],
    "both": [by_the_consumer, by_the_producer],
}


@pytest.mark.parametrize("who", WAYS)
@pytest.mark.parametrize("taken_before", [0, 1, 3, 6])
async def test_a_barrier_that_times_out_splits_the_data(
    exchange: Exchange, who: str, taken_before: int
) -> None:
    """Rows 18, 58 to 60: no record before the barrier is missing or counted twice.

    Processed records, stored input and stored output together are everything before the barrier.
    """
    channel = Channel(exchange)
    for number in range(6):
        channel.write(number)
    overtaken: list[OvertakenData | None] = []
    channel.partition.broadcast_barrier(TIMEOUTABLE, overtaken.append)
    for number in range(6, 9):
        channel.write(number)
    channel.partition.flush_all()
    processed: list[int] = []
    announced = False
    while not announced or len(processed) < taken_before:
        said = await channel.take()
        if isinstance(said, int):
            processed.append(said)
        else:
            assert said == EventAnnouncement(TIMEOUTABLE)
            announced = True
    for time_out in WAYS[who]:
        time_out(channel)
    while isinstance(said := await channel.take(), int):
        processed.append(said)
    assert said in (TIMEOUTABLE, UNALIGNED)
    stored: list[int] = []
    assert channel.gate.channels[0].start_persisting(
        1, lambda buffer: stored.append(said_by(buffer))
    )
    assert len(overtaken) == 1
    assert overtaken[0] is not None
    output = [said_by(buffer) for buffer in overtaken[0][0]]
    assert [*processed, *stored, *output] == list(range(6))
    if said == TIMEOUTABLE:
        assert processed == list(range(6))
        channel.resume()
    assert who != "both" or len(processed) == 6 or said == UNALIGNED
    processed += await channel.end()
    assert processed == list(range(9))
    assert stored == [number for number in range(6) if number in stored], "nothing behind it"
