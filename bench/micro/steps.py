"""The parts of the path of a record, each as a workload that uses the real objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, cycle, islice
from operator import index, itemgetter
from typing import Any, NamedTuple

import msgpack

from bench.exchange.cases import CASES, orders
from bench.harness.case import Block, Case
from bench.micro.buffers import make_buffers_in, make_buffers_out
from bench.micro.copies import COPIES
from bench.micro.record_types import RECORD_TYPES
from bench.micro.state import STATE
from bench.micro.workers import Sink, Worker, finish, make_writer, run_together
from bench.micro.workload import Step, Workload
from flinknet import (
    ForwardPartitioner,
    HashPartitioner,
    NetworkConfig,
    Partitioner,
    RebalancePartitioner,
    RecordReader,
    RecordWriter,
)
from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.segment import ARRAY_HEADER_BYTES
from flinknet.partition.result_partition import ResultPartition
from flinknet.records.serialization.serializer import RecordDeserializer, RecordUnpacker
from flinknet.records.serialization.spanning_record import ReassemblyMemory

__all__ = ["STEPS", "find_workload"]

CONFIG = NetworkConfig(network_memory_bytes=4 << 20)
"""Defaults, except the memory, which is allocated anew for each run."""

SUBPARTITIONS = 4
CHUNK_RECORDS = 1024
"""Maximum number of records of one ``emit_many``."""

EmitAll = Callable[[RecordWriter, Block], Any]


async def emit_each(writer: RecordWriter, records: Block) -> None:
    """Await ``emit`` for every record."""
    for record in records:
        await writer.emit(record)


async def emit_many(writer: RecordWriter, records: Block) -> None:
    """Await ``emit_many`` for every chunk."""
    for start in range(0, len(records), CHUNK_RECORDS):
        await writer.emit_many(records[start : start + CHUNK_RECORDS])


def make_emit(emit: EmitAll, case: Case, operations: int) -> Workload:
    """Return a workload that writes records into the buffers of four subpartitions.

    The buffers are consumed whenever the writer waits.
    """
    records = _take(case.make_block(), operations)
    worker = Worker("127.0.0.1:1", CONFIG)
    partition = worker.make_partition(SUBPARTITIONS)
    sink = Sink(partition)
    writer = make_writer(partition, _partitioner(case), CONFIG)
    if case.key is not None:
        _choose_all(writer.partitioner, records)

    def run() -> None:
        finish(emit(writer, records), sink)

    def verify() -> bool:
        partition.flush_all()
        sink.drain()
        expected = sum(len(msgpack.packb(record)) for record in records)
        return (writer.records_out, sink.bytes_taken) == (operations, expected)

    return Workload(operations, run, verify)


def make_deserialise(case: Case, operations: int) -> Workload:
    """Return a workload that deserialises buffers as a writer has filled them."""
    records = _take(case.make_block(), operations)
    buffers = list(_written(records))
    unpacker = RecordUnpacker.of(CONFIG)
    deserializer = RecordDeserializer(unpacker, ReassemblyMemory.of(CONFIG))

    def deserialise() -> Iterator[tuple[Any, ...]]:
        for data, continued, unfinished, whole, clear_end in buffers:
            yield deserializer.spanning_record(data, continued, unfinished, clear_end)
            start, end = ARRAY_HEADER_BYTES + continued, len(data) - unfinished
            if whole:
                yield unpacker.whole_records(data, start, end, whole)

    def run() -> None:
        for _ in deserialise():
            pass

    def verify() -> bool:
        return [*chain.from_iterable(deserialise())] == records

    return Workload(operations, run, verify, operations / len(buffers))


def make_whole(case: Case, operations: int) -> Workload:
    """Return a workload of the whole path: writer, both ends of a connection, reader."""
    records = _take(case.make_block(), operations)
    producer, consumer = Worker("127.0.0.1:1", CONFIG), Worker("127.0.0.1:2", CONFIG)
    writer = make_writer(producer.make_partition(), ForwardPartitioner(), CONFIG)
    reader = consumer.make_reader(consumer.make_gate(producer.address))
    weighed: list[int] = []

    async def write() -> None:
        await emit_many(writer, records)
        await writer.finish()

    def run() -> None:
        run_together([write(), _read(reader, case, weighed)], producer, consumer)

    def verify() -> bool:
        return (reader.records_in, sum(weighed)) == (operations, sum(map(case.weigh, records)))

    return Workload(operations, run, verify)


async def _read(reader: RecordReader, case: Case, weighed: list[int]) -> None:
    weighed += [sum(map(case.weigh, batch)) async for batch in reader.batches()]


def make_select(route: Route, operations: int) -> Workload:
    """Return a workload that selects the channel of every record."""
    records = route.make_records(operations)
    partitioner = route.make_partitioner()
    partitioner.setup(route.channels)
    if not route.new_keys:
        _choose_all(partitioner, records)
    chosen: list[int] = []

    def run() -> None:
        chosen[:] = map(partitioner.select, records)

    def verify() -> bool:
        return len(chosen) == operations and set(chosen) == set(range(route.channels))

    return Workload(operations, run, verify)


class Route(NamedTuple):
    """The routing of records to channels; with ``new_keys``, no key has been seen before."""

    make_partitioner: Callable[[], Partitioner]
    channels: int
    make_records: Callable[[int], list[Any]]
    new_keys: bool = False


def _choose_all(partitioner: Partitioner, records: Block) -> None:
    """Show every key to a partitioner, because a job's partitioner has soon seen all keys."""
    for record in records:
        partitioner.select(record)


def _orders(count: int) -> list[Any]:
    return _take(orders.CASE.make_block(), count)


def _numbers(count: int) -> list[Any]:
    return list(range(count))


def _of_cases(make: Callable[[Case, int], Workload]) -> dict[str, Callable[[int], Workload]]:
    return {case.name: partial(make, case) for case in CASES}


SIZES = {"64 B": 64, "32 KiB": 32 << 10}
ROUTES = {
    "forward": Route(ForwardPartitioner, 1, _orders),
    "rebalance": Route(RebalancePartitioner, SUBPARTITIONS, _orders),
    "hash": Route(partial(HashPartitioner, itemgetter("customer")), SUBPARTITIONS, _orders),
    "hash, new keys": Route(partial(HashPartitioner, index), SUBPARTITIONS, _numbers, True),
}
STEPS: tuple[Step, ...] = (
    Step(
        "emit",
        "await emit(record): pack, choose a channel, append; and a consumer that takes buffers",
        "record",
        _of_cases(partial(make_emit, emit_each)),
    ),
    Step(
        "emit-many",
        f"the same with await emit_many, {CHUNK_RECORDS:,} records at a time",
        "record",
        _of_cases(partial(make_emit, emit_many)),
    ),
    Step(
        "deserialise",
        "the records of a buffer, as a writer has filled it",
        "record",
        _of_cases(make_deserialise),
    ),
    Step(
        "record-types",
        "records packed in blocks and unpacked, by what they are; beside pickle and msgspec",
        "record",
        RECORD_TYPES,
    ),
    Step(
        "buffer-out",
        "a buffer at the producer: open, append, seal, poll, header, recycle, credit",
        "buffer",
        {name: partial(make_buffers_out, size) for name, size in SIZES.items()},
    ),
    Step(
        "buffer-in",
        "a buffer at the consumer: decode, copy, queue, poll the gate, recycle, credit",
        "buffer",
        {name: partial(make_buffers_in, size) for name, size in SIZES.items()},
    ),
    Step(
        "whole",
        "emit_many, both ends of a connection, and batches: everything but the socket",
        "record",
        _of_cases(make_whole),
    ),
    Step(
        "select",
        f"the channel of a record, one of {SUBPARTITIONS} but for forward",
        "record",
        {name: partial(make_select, route) for name, route in ROUTES.items()},
    ),
    Step(
        "state",
        "the value of a key read and updated: in memory, and in RocksDB, among those in use or not",
        "record",
        STATE,
    ),
    Step(
        "copies",
        "a record that a function gives away: looked at, copied, and with object reuse neither",
        "record",
        COPIES,
    ),
)


def _take(block: Block, count: int) -> list[Any]:
    return list(islice(cycle(block), count))


def _partitioner(case: Case) -> Partitioner:
    return HashPartitioner(case.key) if case.key is not None else RebalancePartitioner()


def _written(records: Block) -> list[tuple[memoryview, int, int, int, bool]]:
    """Return copies of the buffers that a writer fills, with the arguments of a deserializer."""
    partition = Worker("127.0.0.1:1", CONFIG).make_partition()
    sink = CopyingSink(partition)
    finish(emit_each(make_writer(partition, ForwardPartitioner(), CONFIG), records), sink)
    partition.flush_all()
    sink.drain()
    return sink.copies


class CopyingSink(Sink):
    """A sink that keeps copies of the buffers."""

    def __init__(self, partition: ResultPartition) -> None:
        super().__init__(partition)
        self.copies: list[tuple[memoryview, int, int, int, bool]] = []

    def take(self, buffer: Buffer) -> None:
        """Copy the buffer and recycle it."""
        clear_end = buffer.data_type is DataType.DATA_BUFFER_WITH_CLEAR_END
        with buffer.view_with_room() as content:
            copy = memoryview(bytearray(content))
        self.copies.append((copy, buffer.continued, buffer.unfinished, buffer.records, clear_end))
        super().take(buffer)


def find_workload(step: str, variant: str) -> Callable[[int], Workload]:
    """Return the function that makes the workload of a variant of a step."""
    return next(each for each in STEPS if each.name == step).variants[variant]
