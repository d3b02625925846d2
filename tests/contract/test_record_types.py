"""A record arrives equal and of the same type, for every kind of record, writer and channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from flinknet import (
    BroadcastPartitioner,
    ForwardPartitioner,
    NetworkConfig,
    NetworkEnvironment,
    Partitioner,
    RecordReader,
    RecordWriter,
)
from flinknet.errors import ConsumerCancelledError, SerializationError
from tests.contract.ends import consume
from tests.unit.records.serialization.record_values import TYPES, VALUES, Reading, arrives, same

CONFIG = NetworkConfig(network_memory_bytes=4 << 20, segment_bytes=512)

Write = Callable[[RecordWriter, list[Any]], Coroutine[Any, Any, None]]


async def each(writer: RecordWriter, records: list[Any]) -> None:
    for record in records:
        await writer.emit(record)


async def many(writer: RecordWriter, records: list[Any]) -> None:
    await writer.emit_many([*range(20), *records, *range(20)])


async def to_all(writer: RecordWriter, records: list[Any]) -> None:
    for record in records:
        await writer.broadcast_emit(record)


WRITES = {"each": each, "many": many, "to all": to_all}

FILLINGS = {"small": b"", "over buffers": b"x" * 700, "large": b"x" * 20_000}


@pytest.fixture(params=["one process", "two"])
async def environments(
    request: pytest.FixtureRequest,
) -> AsyncIterator[tuple[NetworkEnvironment, NetworkEnvironment]]:
    """Yield the environments of a producer and its consumer, in one process or connected."""
    async with NetworkEnvironment(config=CONFIG) as first:
        if request.param == "one process":
            yield first, first
        else:
            async with NetworkEnvironment(config=CONFIG) as second:
                yield first, second


async def exchange(
    environments: tuple[NetworkEnvironment, NetworkEnvironment],
    write: Write,
    records: list[Any],
    partitioner: Partitioner,
) -> list[Any]:
    producer, consumer = environments

    async def consume_all() -> list[Any]:
        async with consumer.open_reader(producer.address, "records", types=TYPES) as reader:
            return await consume(reader)

    consuming = asyncio.create_task(consume_all())
    async with producer.open_writer("records", partitioner=partitioner, types=TYPES) as writer:
        await write(writer, records)
    return await consuming


@pytest.mark.parametrize("filling", FILLINGS.values(), ids=FILLINGS)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("partitioner", [ForwardPartitioner, BroadcastPartitioner])
async def test_every_value_arrives_unchanged(
    environments: tuple[NetworkEnvironment, NetworkEnvironment],
    partitioner: Callable[[], Partitioner],
    write: Write,
    filling: bytes,
) -> None:
    """A2, A5: in blocks and one by one; small, over several buffers, and beside large records."""
    records = [(value, filling) if filling else value for value in VALUES]
    came = await exchange(environments, write, records, partitioner())
    came = came[20:-20] if write is many else came
    assert len(came) == len(records)
    for sent, received in zip(records, came, strict=True):
        assert same(received, arrives(sent))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_an_invalid_record_is_refused_before_any_byte_is_written(
    environments: tuple[NetworkEnvironment, NetworkEnvironment], write: Write
) -> None:
    class Unknown:
        pass

    async def some(writer: RecordWriter, records: list[Any]) -> None:
        with pytest.raises(SerializationError, match="Unknown has no form on the wire"):
            await write(writer, [*records, (Unknown(), b"x" * 900)])
        await writer.emit("after")

    came = await exchange(environments, some, [Reading("a", 1.5)], ForwardPartitioner())
    assert [record for record in came if type(record) is not int] == [Reading("a", 1.5), "after"]


async def test_a_reader_that_has_registered_nothing_says_so() -> None:
    async with NetworkEnvironment(config=CONFIG) as environment:

        async def consume_one() -> None:
            reader: RecordReader
            async with environment.open_reader(environment.address, "records") as reader:
                with pytest.raises(SerializationError, match="no class is registered here under"):
                    await anext(reader)

        consuming = asyncio.create_task(consume_one())
        with pytest.raises(ConsumerCancelledError):
            async with environment.open_writer("records", types=TYPES) as writer:
                await writer.emit(Reading("a", 1.5))
        await consuming
