"""Writers and readers as tasks of an event loop, in one worker: no sockets, no clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from flinknet.buffer.availability import Availability, WaitReason
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import ConsumerCancelledError, LocalProtocolError, ProducerFailedError
from flinknet.partition.registry import PartitionRegistry
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.partitioner import HashPartitioner
from flinknet.records.reader import RecordReader
from flinknet.records.writer import RecordWriter
from tests.unit.arrangements import (
    HERE,
    Flusher,
    assert_everything_returned,
    connect_local,
    locations,
    make_config,
)
from tests.unit.records.columns.cutting import make_memory, make_unpacker

SEGMENT_BYTES = 256


async def wait(availability: Availability, reason: WaitReason) -> None:
    """Suspend as the shell does."""
    future = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    availability.subscribe(wake)
    try:
        await future
    finally:
        availability.unsubscribe(wake)


class Worker:
    """A worker without its shell: memory, registry, and its open partitions and gates."""

    def __init__(self, segments: int = 64) -> None:
        self.pool = NetworkBufferPool(segments, SEGMENT_BYTES)
        self.config = make_config(segment_bytes=SEGMENT_BYTES, network_memory_bytes=1 << 20)
        self.registry = PartitionRegistry(10.0)

    def writer(self, name: str, subpartitions: int = 1) -> RecordWriter:
        partition = ResultPartition(name, subpartitions, self.pool, self.config)
        self.registry.register(partition)
        return RecordWriter(
            partition,
            HashPartitioner(lambda record: record[0]) if subpartitions > 1 else None,
            wait=wait,
            flusher=Flusher(),
            buffer_timeout_ms=0,
            record_bytes_max=1 << 20,
            record_elements_max=1 << 16,
        )

    def reader(self, *names: str, subpartition: int = 0) -> RecordReader:
        wanted = [
            location._replace(partition_id=name, subpartition=subpartition)
            for location, name in zip(locations(*[HERE] * len(names)), names, strict=True)
        ]
        gate = InputGate("gate", wanted, HERE, self.pool, self.config)
        gate.setup(lambda: connect_local(gate, self.registry))
        return RecordReader(gate, wait=wait, unpacker=make_unpacker(), memory=make_memory())


@pytest.fixture
def worker() -> Iterator[Worker]:
    """Yield a worker; check at the end that every buffer was returned to it."""
    made = Worker()
    yield made
    assert_everything_returned(made.pool)


async def read_all(reader: RecordReader) -> list[Any]:
    try:
        return [record async for record in reader]
    finally:
        reader.close()


async def write_all(writer: RecordWriter, records: list[Any]) -> None:
    for record in records:
        await writer.emit(record)
    await writer.finish()
    writer.close()


async def test_producers_and_consumers_side_by_side(worker: Worker) -> None:
    """H1, C13: two producers, three consumers and more data than memory; each key in order."""
    sent = [[(number % 50, source, number) for number in range(3_000)] for source in range(2)]
    readers = [worker.reader("p0", "p1", subpartition=index) for index in range(3)]
    async with asyncio.TaskGroup() as group:
        reading = [group.create_task(read_all(reader)) for reader in readers]
        for source, records in enumerate(sent):
            group.create_task(write_all(worker.writer(f"p{source}", 3), records))
    received = [task.result() for task in reading]
    assert sorted(record for part in received for record in part) == sorted(sent[0] + sent[1])
    for part in received:
        for source in range(2):
            numbers = [number for _, of, number in part if of == source]
            assert numbers == sorted(numbers)
    keys = [{key for key, _, _ in part} for part in received]
    assert sum(map(len, keys)) == len(set().union(*keys)), "a key has two owners"


async def test_a_slow_consumer_holds_its_producer_back(worker: Worker) -> None:
    """Invariant I6, row 10: the producer stops where its pool ends, and goes on with each buffer
    read."""
    writer, reader = worker.writer("p0"), worker.reader("p0")
    payload = "x" * 100
    writing = asyncio.create_task(write_all(writer, [payload] * 1_000))
    batch = await reader.next_batch()
    read = 0
    while batch is not None:
        pool = writer.partition.statistics().pool
        assert pool.in_use <= pool.maximum + 5
        assert writer.records_out - read <= (pool.maximum + 5 + 1) * SEGMENT_BYTES // 100
        read += len(batch)
        batch = await reader.next_batch()
    await writing
    assert read == 1_000
    reader.close()


async def test_two_tasks_share_a_writer(worker: Worker) -> None:
    """Long records of both do not mix, and neither task starves."""
    writer, reader = worker.writer("p0"), worker.reader("p0")

    async def emit(task: str) -> None:
        for number in range(30):
            await writer.emit((task, number, task * (37 * number)))

    reading = asyncio.create_task(read_all(reader))
    async with asyncio.TaskGroup() as group:
        group.create_task(emit("a"))
        group.create_task(emit("b"))
    await writer.finish()
    received = await reading
    for task in "ab":
        expected = [(task, number, task * (37 * number)) for number in range(30)]
        assert [record for record in received if record[0] == task] == expected
    order = "".join(record[0] for record in received)
    assert "a" * 20 not in order
    assert "b" * 20 not in order


async def test_a_cancelled_task_leaves_its_writer_usable(worker: Worker) -> None:
    writer, reader = worker.writer("p0"), worker.reader("p0")
    emitted = 0

    async def emit_for_ever() -> None:
        nonlocal emitted
        while True:
            await writer.emit((emitted, "x" * 50))
            emitted += 1

    emitting = asyncio.create_task(emit_for_ever())
    while writer.partition.availability.waiting == 0:
        await asyncio.sleep(0)
    emitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await emitting
    assert writer.partition.availability.waiting == 0
    reading = asyncio.create_task(read_all(reader))
    await write_all(writer, ["last"])
    received = await reading
    assert received == [*((number, "x" * 50) for number in range(emitted)), "last"]
    assert writer.records_out == emitted + 1


async def test_a_record_torn_by_a_cancellation_fails_its_consumer(worker: Worker) -> None:
    writer, reader = worker.writer("p0"), worker.reader("p0")
    emitting = asyncio.create_task(writer.emit("x" * 100_000))
    while writer.partition.availability.waiting == 0:
        await asyncio.sleep(0)
    emitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await emitting
    with pytest.raises(LocalProtocolError, match="cut off") as refused:
        await writer.finish()
    writer.fail(refused.value)
    with pytest.raises(ProducerFailedError, match="cut off"):
        await read_all(reader)


async def test_a_failed_producer_fails_its_consumer_that_waits(worker: Worker) -> None:
    writer, reader = worker.writer("p0"), worker.reader("p0")
    reading = asyncio.create_task(read_all(reader))
    await writer.emit("data")
    writer.fail(ZeroDivisionError("first cause"))
    with pytest.raises(ProducerFailedError, match="ZeroDivisionError: first cause"):
        await reading


async def test_a_consumer_that_leaves_stops_its_producer(worker: Worker) -> None:
    """C21."""
    writer, reader = worker.writer("p0"), worker.reader("p0")
    writing = asyncio.create_task(write_all(writer, ["x" * 100] * 10_000))
    async for record in reader:
        assert record == "x" * 100
        break
    reader.close()
    with pytest.raises(ConsumerCancelledError):
        await writing
    writer.close()
