"""Adaptive rebalance, with a writer to consumers of different speed."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgpack
import pytest

from flinknet.config import NetworkConfig
from flinknet.consumer.input_channel import PartitionLocation
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.records.partitioner import (
    AdaptiveRebalancePartitioner,
    Partitioner,
    RebalancePartitioner,
)
from flinknet.records.writer import RecordWriter
from tests.unit.arrangements import (
    Flusher,
    content_of,
    make_partition,
    pipelined,
    run,
    view_of,
    wait,
)

CONSUMERS = 4
SLOW = 2
RECORDS = 4_000


class Arranged:
    """A writer and four consumers that poll when the test says so."""

    def __init__(self, partitioner: Partitioner) -> None:
        self.partition, _ = make_partition(
            CONSUMERS, segments=200, floating_buffers_per_gate=180, buffers_per_subpartition_max=100
        )
        self.writer = RecordWriter(
            self.partition,
            partitioner,
            wait=wait,
            flusher=Flusher(),
            buffer_timeout_ms=0,
            record_bytes_max=1 << 20,
            record_elements_max=1 << 16,
        )
        self._views = [view_of(self.partition, index) for index in range(CONSUMERS)]
        self._streams = [msgpack.Unpacker() for _ in range(CONSUMERS)]

    def take(self, index: int, *, buffers: int) -> list[Any]:
        taken: list[Any] = []
        for _ in range(buffers):
            polled = self._views[index].poll()
            if polled is None:
                break
            self._streams[index].feed(content_of(polled.buffer))
            taken.extend(self._streams[index])
            polled.buffer.recycle()
        return taken


@pytest.mark.parametrize("many", [True, False])
def test_a_slow_consumer_gets_little(many: bool) -> None:
    """Row 55: it takes one buffer in 50 turns, the others take all.

    No record is lost or held up.
    """
    arranged = Arranged(AdaptiveRebalancePartitioner())
    received: Counter[int] = Counter()
    for turn in range(RECORDS // 10):
        burst = range(turn * 10, turn * 10 + 10)
        if many:
            run(arranged.writer.emit_many(burst))
        else:
            for record in burst:
                run(arranged.writer.emit(record))
        for index in range(CONSUMERS):
            if index != SLOW or turn % 50 == 0:
                received[index] += len(arranged.take(index, buffers=1 if index == SLOW else 10))
    assert received[SLOW] < RECORDS / 100
    arranged.writer.flush()
    for index in range(CONSUMERS):
        received[index] += len(arranged.take(index, buffers=1_000))
    assert sum(received.values()) == RECORDS
    healthy = [received[index] for index in range(CONSUMERS) if index != SLOW]
    assert received[SLOW] < RECORDS / 20
    assert max(healthy) - min(healthy) < RECORDS / 20


def test_small_buffers_do_not_hide_that_a_consumer_is_slow() -> None:
    """Row 55: debloating has made the slow consumer's buffers very small.

    A full quota of them has fewer bytes than the one buffer that is being filled for each of the
    others. The writer never waits.
    """
    quota = 10
    partition, _ = make_partition(
        CONSUMERS,
        segment_bytes=4096,
        segments=200,
        floating_buffers_per_gate=180,
        buffers_per_subpartition_max=quota,
    )
    pipelined(partition, SLOW).notify_new_buffer_size(64)
    writer = RecordWriter(
        partition,
        AdaptiveRebalancePartitioner(),
        wait=wait,
        flusher=Flusher(),
        buffer_timeout_ms=-1,
        record_bytes_max=1 << 20,
        record_elements_max=1 << 16,
    )
    views = [view_of(partition, index) for index in range(CONSUMERS)]
    for _ in range(200):
        run(writer.emit_many(["x" * 30] * 100))
        for index in range(CONSUMERS):
            while index != SLOW and (polled := views[index].poll()):
                polled.buffer.recycle()
    counts = partition.statistics().subpartitions
    slow = counts[SLOW]
    assert (slow.buffers_out, slow.queued_bytes <= quota * 64) == (0, True)
    assert all(part.bytes_out > 50 * slow.queued_bytes for part in counts if part is not slow)


def test_turns_alone_would_give_it_as_much_as_the_others() -> None:
    """This is the contrast to the adaptive choice: plain turns stop the writer, or give it its
    quarter."""
    arranged = Arranged(RebalancePartitioner())
    run(arranged.writer.emit_many(range(400)))
    arranged.writer.flush()
    received = [len(arranged.take(index, buffers=1_000)) for index in range(CONSUMERS)]
    assert received == [100] * CONSUMERS


def test_a_burst_into_open_buffers_is_spread() -> None:
    """Bytes count as soon as they are written, not when their buffer is full."""
    arranged = Arranged(AdaptiveRebalancePartitioner())
    run(arranged.writer.emit_many(["x" * 5] * 8 + ["y" * 20] + ["z" * 5] * 6))
    queued = [part.queued_bytes for part in arranged.partition.statistics().subpartitions]
    assert queued == [12 + 21, 12 + 12, 12 + 12, 12 + 12]


async def test_a_consumer_in_another_worker_that_does_not_read_is_avoided() -> None:
    """Once its credit is used up, its records queue at the producer, which sees the queue."""
    config = NetworkConfig(segment_bytes=1024, network_memory_bytes=1024 * 512)
    counts = [0] * CONSUMERS
    async with (
        NetworkEnvironment(worker_id="producer", config=config) as producer,
        NetworkEnvironment(worker_id="consumer", config=config) as consumer,
    ):
        partition = producer.create_result_partition("numbers", subpartitions=CONSUMERS)
        writer = producer.create_record_writer(partition, AdaptiveRebalancePartitioner())
        emitted = asyncio.Event()

        async def consume(index: int) -> None:
            location = PartitionLocation(producer.address, "numbers", index)
            reader = consumer.create_record_reader(consumer.create_input_gate([location]))
            if index == SLOW:
                await emitted.wait()
            async for batch in reader.batches():
                counts[index] += len(batch)
            reader.close()

        async with asyncio.TaskGroup() as group:
            for index in range(CONSUMERS):
                group.create_task(consume(index))
            for number in range(20):
                await writer.emit_many([(number, "x" * 90)] * 1_000)
            emitted.set()
            await writer.finish()
            writer.close()
    assert sum(counts) == 20_000
    quota = config.buffers_per_channel + config.floating_buffers_per_gate
    quota += config.buffers_per_subpartition_max
    records_per_buffer = 1024 // 95
    assert counts[SLOW] <= (quota + 1) * records_per_buffer
