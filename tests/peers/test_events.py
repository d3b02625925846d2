"""Events between flinknet and peers that were written from the specification, over a socket."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from flinknet import NetworkEnvironment
from flinknet.buffer.buffer import DataType
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.records.reader import RecordReader
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
from tests.peers.programs import CONFIG, Foreigner, Language, consumer, producer

MOMENT = 1_700_000_000_000
TIMEOUT = CheckpointOptions(aligned_timeout_ms=30_000)


def barrier(number: int, alignment: int, timeout: int = 0, kind: int = 0) -> dict[str, Any]:
    numbers = {"checkpoint": number, "moment": MOMENT, "kind": kind, "alignment": alignment}
    return {"event": "CheckpointBarrier", **numbers, "time-out": timeout}


SAID: list[tuple[dict[str, Any], DecodedEvent]] = [
    ({"event": "EndOfChannelState"}, EndOfChannelState()),
    ({"event": "Watermark", "moment": -1}, Watermark(-1)),
    ({"event": "Watermark", "moment": MOMENT}, Watermark(MOMENT)),
    (barrier(1, 0), CheckpointBarrier(1, MOMENT)),
    (barrier(2, 0, 30_000), CheckpointBarrier(2, MOMENT, TIMEOUT)),
    (
        barrier(3, 1),
        CheckpointBarrier(3, MOMENT, CheckpointOptions(alignment=Alignment.UNALIGNED)),
    ),
    (
        barrier(4, 3),
        CheckpointBarrier(4, MOMENT, CheckpointOptions(alignment=Alignment.AT_LEAST_ONCE)),
    ),
    ({"event": "CancelCheckpointMarker", "checkpoint": 5}, CancelCheckpointMarker(5)),
    ({"event": "WatermarkStatus", "status": 1}, WatermarkStatus(idle=True)),
    ({"event": "WatermarkStatus", "status": 0}, WatermarkStatus(idle=False)),
    (
        {"event": "LatencyMarker", "moment": MOMENT, "operator": "map \u03c0", "subtask": 3},
        LatencyMarker(MOMENT, "map \u03c0", 3),
    ),
    (
        barrier(6, 0, kind=2),
        CheckpointBarrier(6, MOMENT, CheckpointOptions(CheckpointKind.SAVEPOINT_SUSPEND)),
    ),
]
"""Events, each as the peers print it and as flinknet decodes it."""

RECORDS = [[number, "x" * 100] for number in range(20)]


class Task:
    """A task that notes records and events in order, and resumes blocked channels."""

    def __init__(self) -> None:
        self.reader: RecordReader
        self.seen: list[Any] = []

    def on_event(self, channel: int, event: Event) -> None:
        self.seen.append(decode_event(event))
        if event.data_type.is_blocking_upstream:
            self.reader.gate.channels[channel].resume_consumption()


@pytest.mark.parametrize("buffers_per_channel", [0, 2])
async def test_a_foreign_producer_sends_events(
    language: Language, buffers_per_channel: int
) -> None:
    """Events arrive in order, a barrier that can time out after its announcement.

    A blocked channel continues when it is resumed.
    """
    records: list[Any] = []
    expected: list[Any] = []
    for foreign, ours in SAID:
        records += [*RECORDS, foreign]
        expected += RECORDS
        if isinstance(ours, CheckpointBarrier) and ours.options.is_timeoutable:
            expected.append(EventAnnouncement(ours))
        expected.append(ours)
    expected += [EndOfData(drain=True), EndOfPartition()]
    config = replace(CONFIG, buffers_per_channel=buffers_per_channel)
    async with producer(language, {"p": [records]}, buffer_bytes=300) as (peer, address):
        async with NetworkEnvironment(config=config) as environment:
            task = Task()
            gate = environment.create_input_gate([PartitionLocation(address, "p", 0)])
            task.reader = environment.create_record_reader(gate, event_handler=task)
            async for batch in task.reader.batches():
                task.seen += map(list, batch.records)
            task.reader.close()
        assert await peer.end() == "complete"
    ahead = [said for said in task.seen if isinstance(said, EventAnnouncement)]
    assert len(ahead) == 1
    assert task.seen.index(ahead[0]) <= expected.index(ahead[0])
    unaligned = SAID[5][1]
    assert task.seen.index(unaligned) <= expected.index(unaligned)
    overtaking = (ahead[0], unaligned)
    assert [said for said in task.seen if said not in overtaking] == [
        said for said in expected if said not in overtaking
    ]


async def all_of(foreigner: Foreigner) -> list[Any]:
    found, end = await foreigner.records()
    assert end == "complete"
    return found[0]


@pytest.mark.parametrize("credit", [0, 2])
async def test_a_foreign_consumer_receives_events_and_resumes(
    language: Language, environment: NetworkEnvironment, credit: int
) -> None:
    """An event with priority arrives in its place or earlier, every other one in its place."""
    async with consumer(language, environment.address, "p", credit=credit, events=1) as foreigner:
        async with environment.open_writer("p", buffer_timeout_ms=-1) as writer:
            expected: list[Any] = []
            for foreign, ours in SAID:
                for record in RECORDS:
                    await writer.emit(record)
                await writer.broadcast_event(ours.event())
                expected += [*RECORDS, foreign]
        seen = await all_of(foreigner)
    unaligned = SAID[5][0]
    assert seen.index(unaligned) <= expected.index(unaligned)
    seen.remove(unaligned)
    expected.remove(unaligned)
    assert seen == expected


async def test_a_foreign_consumer_skips_what_it_does_not_know(
    language: Language, environment: NetworkEnvironment
) -> None:
    """A consumer skips unknown kinds of events, which a later version may add."""
    async with consumer(language, environment.address, "p", events=1) as foreigner:
        async with environment.open_writer("p") as writer:
            for data_type in (DataType.EVENT_BUFFER, DataType.PRIORITIZED_EVENT_BUFFER):
                await writer.broadcast_event(Event(data_type, b"\x92\x7f\xc0"))
            await writer.emit(1)
        assert await all_of(foreigner) == [1]


async def test_a_barrier_whose_time_is_over_comes_unaligned(
    language: Language, environment: NetworkEnvironment
) -> None:
    """A barrier that has timed out arrives before the data, and nothing waits to be resumed."""
    sent = CheckpointBarrier(2, MOMENT, TIMEOUT)
    stored: list[Any] = []
    writer_opened = environment.open_writer("p", buffer_timeout_ms=-1)
    async with writer_opened as writer:
        for record in RECORDS:
            await writer.emit(record)
        writer.partition.broadcast_barrier(sent, stored.append)
        writer.partition.time_out_barrier(2)
        (overtaken,) = stored
        for buffer in overtaken[0]:
            buffer.recycle()
        async with (
            consumer(language, environment.address, "p", events=1) as foreigner,
            asyncio.TaskGroup() as group,
        ):
            reading = group.create_task(all_of(foreigner))
            await writer.finish()
    assert await reading == [barrier(2, 1), *RECORDS]
