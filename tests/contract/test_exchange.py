"""The contract of every kind of channel."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from flinknet.config import BufferTimeout
from flinknet.errors import (
    ClosedResourceError,
    ConsumerCancelledError,
    LocalProtocolError,
    PartitionNotFoundError,
    PartitionRequestTimeoutError,
    ProducerFailedError,
    SerializationError,
)
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.records.partitioner import (
    BroadcastPartitioner,
    HashPartitioner,
    RebalancePartitioner,
)
from tests.contract.ends import consume, produce
from tests.contract.hosts import WHERE_BUFFERS_ARE_ALL, WITH_CREDIT, Exchange, open_exchange

TURNS = 200
"""Loop turns after which everything that can happen has happened."""


async def let_things_happen() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


RECORDS = [(number, f"record {number}", number / 3) for number in range(2_000)]


async def test_records_arrive_once_and_in_order(exchange: Exchange) -> None:
    """H1, I1: records span hundreds of buffers, and the reader ends with the partition."""
    taken, _ = await asyncio.gather(consume(exchange.reader()), produce(exchange.writer(), RECORDS))
    assert taken == RECORDS


async def test_records_of_any_size_span_buffers(exchange: Exchange) -> None:
    """A1, A2: records are empty, smaller than, as large as and many times as large as a buffer."""
    sizes = [0, 1, 1000, 1021, 1022, 1023, 1024, 1025, 5000, 0, 300_000, 1, 2048, 40]
    records = [bytes([index]) * size for index, size in enumerate(sizes)]
    taken, _ = await asyncio.gather(consume(exchange.reader()), produce(exchange.writer(), records))
    assert taken == records


async def test_bulk_forms_carry_the_same_records(exchange: Exchange) -> None:
    """Records written with ``emit_many`` can be read in batches, one for each buffer."""
    writer, reader = exchange.writer(), exchange.reader()

    async def read() -> list[Any]:
        taken: list[Any] = []
        async for batch in reader.batches():
            assert (batch.channel, len(batch)) == (0, len(list(batch)))
            taken += batch
        reader.close()
        return taken

    async def write() -> None:
        await writer.emit_many(RECORDS)
        await writer.finish()
        writer.close()

    taken, _ = await asyncio.gather(read(), write())
    assert taken == RECORDS


@pytest.mark.parametrize("kind", WHERE_BUFFERS_ARE_ALL)
async def test_a_reader_that_does_not_read_stops_the_writer(exchange: Exchange) -> None:
    """D4: the writer stops when the buffers of both sides are full, and continues without loss."""
    writer, reader = exchange.writer(), exchange.reader()
    producing = asyncio.ensure_future(produce(writer, RECORDS * 5))
    await let_things_happen()
    stopped_at = writer.records_out
    await let_things_happen()
    assert writer.records_out == stopped_at < 2 * len(RECORDS)
    assert not writer.partition.availability.available
    taken, _ = await asyncio.gather(consume(reader), producing)
    assert taken == RECORDS * 5


async def test_finish_waits_until_everything_has_been_processed(exchange: Exchange) -> None:
    """D12: a batch is processed when the reader asks for the next one."""
    writer, reader = exchange.writer(), exchange.reader()
    await writer.emit("only")
    finishing = asyncio.ensure_future(writer.finish())
    batch = await reader.next_batch()
    assert batch is not None
    assert list(batch) == ["only"]
    await let_things_happen()
    assert not finishing.done()
    assert await reader.next_batch() is None
    await finishing
    reader.close()
    writer.close()


async def test_nothing_can_be_written_after_finish(exchange: Exchange) -> None:
    """D1."""
    writer = exchange.writer()
    await asyncio.gather(consume(exchange.reader()), produce(writer, [1]))
    with pytest.raises(LocalProtocolError):
        await writer.emit("x" * 2000)


async def test_without_a_timeout_only_full_buffers_leave(exchange: Exchange) -> None:
    """V5: a small record stays in its buffer until the writer finishes."""
    writer, reader = exchange.writer(buffer_timeout_ms=-1), exchange.reader()
    reading = asyncio.ensure_future(reader.next_batch())
    await writer.emit("small")
    await let_things_happen()
    assert not reading.done()
    finishing = asyncio.ensure_future(writer.finish())
    batch = await reading
    assert batch is not None
    assert list(batch) == ["small"]
    assert await reader.next_batch() is None
    await finishing
    reader.close()


@pytest.mark.parametrize("timeout", [0, 1, "adaptive"])
async def test_with_a_timeout_a_small_record_leaves_by_itself(
    exchange: Exchange, timeout: BufferTimeout
) -> None:
    """C5: each small record leaves without a flush, a full buffer or an end."""
    writer, reader = exchange.writer(buffer_timeout_ms=timeout), exchange.reader()
    for number in range(3):
        await writer.emit(number)
        batch = await reader.next_batch()
        assert batch is not None
        assert list(batch) == [number]
    reader.close()
    writer.close()


async def test_an_explicit_flush_sends_the_written_records(exchange: Exchange) -> None:
    writer, reader = exchange.writer(buffer_timeout_ms=60_000), exchange.reader()
    await writer.emit_many([1, 2, 3])
    writer.flush()
    batch = await reader.next_batch()
    assert batch is not None
    assert list(batch) == [1, 2, 3]
    reader.close()
    writer.close()


async def test_a_consumer_waits_for_a_partition_that_is_not_there_yet(
    exchange: Exchange,
) -> None:
    """D17, E13."""
    consuming = asyncio.ensure_future(consume(exchange.reader()))
    await let_things_happen()
    assert not consuming.done()
    await produce(exchange.writer(), [1, 2])
    assert await consuming == [1, 2]


async def test_a_partition_that_never_comes_is_an_error() -> None:
    """E9: the error names the partition and suggests a cause; the environment's timer raises it."""
    for kind in ("local", "tcp"):
        async with open_exchange(kind, rendezvous_timeout_ms=500.0) as exchange:
            reader = exchange.reader(name="nowhere")
            with pytest.raises(PartitionRequestTimeoutError, match="is the producer running"):
                await reader.next_batch()
            reader.close()


async def test_a_subpartition_that_does_not_exist_is_an_error(exchange: Exchange) -> None:
    writer, reader = (
        exchange.writer(subpartitions=2, partitioner=RebalancePartitioner()),
        (exchange.reader(2)),
    )
    with pytest.raises(PartitionNotFoundError, match="no subpartition 2"):
        await reader.next_batch()
    reader.close()
    writer.close()


async def test_the_producers_failure_reaches_the_consumer(exchange: Exchange) -> None:
    """C15, G14: the consumer gets the first cause, ahead of queued data."""
    writer, reader = exchange.writer(), exchange.reader()
    await writer.emit("x" * 3000)
    await let_things_happen()
    writer.fail(ZeroDivisionError("the map function divided by zero"))
    with pytest.raises(ProducerFailedError, match="ZeroDivisionError: the map function divided"):
        await consume(reader)
    reader.close()


class WithoutTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("half of a character: \ud83d"), r"ValueError: half of a character: \\ud83d"),
        (ValueError("\x1b[2Jcleared"), r"ValueError: \\x1b\[2Jcleared"),
        (WithoutTextError(), "WithoutTextError: <WithoutTextError without a text"),
        (ValueError("x" * 10_000_000), "ValueError: xxxx"),
    ],
    ids=["surrogate", "escape sequence", "no text", "megabytes"],
)
async def test_a_failure_of_any_text_reaches_the_consumer(
    exchange: Exchange, error: Exception, text: str
) -> None:
    """The consumer gets the failure also if its text cannot be encoded, or is very long."""
    writer, reader = exchange.writer(), exchange.reader()
    await writer.emit("x" * 3000)
    await let_things_happen()
    writer.fail(error)
    with pytest.raises(ProducerFailedError, match=text) as raised:
        await consume(reader)
    assert len(str(raised.value)) < 20_000
    reader.close()


async def test_a_writer_closed_before_the_end_does_not_leave_its_consumer_waiting(
    exchange: Exchange,
) -> None:
    writer, reader = exchange.writer(), exchange.reader()
    await writer.emit("x" * 3000)
    assert await reader.next_batch() is not None
    writer.close()
    with pytest.raises(ProducerFailedError, match="partition p was closed before its end"):
        await consume(reader)
    reader.close()


async def test_a_consumer_that_goes_away_stops_its_producer(exchange: Exchange) -> None:
    """C21: a producer gets an error when its only consumer has gone away."""
    writer, reader = exchange.writer(), exchange.reader()
    await writer.emit("x" * 3000)
    assert await reader.next_batch() is not None
    reader.close()
    with pytest.raises(ConsumerCancelledError, match="every consumer"):
        await writer.emit_many("x" * 500 for _ in count())
    with pytest.raises(ClosedResourceError):
        await reader.next_batch()
    writer.close()


async def test_one_of_two_consumers_goes_away(exchange: Exchange) -> None:
    """If one of two consumers goes away, the other one gets all of its records."""
    writer = exchange.writer(subpartitions=2, partitioner=RebalancePartitioner())
    leaving, staying = exchange.reader(0), exchange.reader(1)
    producing = asyncio.ensure_future(produce(writer, RECORDS))
    assert await leaving.next_batch() is not None
    leaving.close()
    assert await consume(staying) == RECORDS[1::2]
    await producing


async def test_a_record_that_cannot_be_serialised_is_refused_alone(exchange: Exchange) -> None:
    writer = exchange.writer()
    reading = asyncio.ensure_future(consume(exchange.reader()))
    await writer.emit(1)
    with pytest.raises(SerializationError, match="type complex"):
        await writer.emit(1j)
    await writer.emit(2)
    await writer.finish()
    assert await reading == [1, 2]


async def test_many_channels_into_one_gate(exchange: Exchange) -> None:
    """H1: every record arrives, and the records of each key arrive in order."""
    channels = 20
    writer = exchange.writer(
        subpartitions=channels, partitioner=HashPartitioner(key=lambda record: record[0] % 50)
    )
    taken, _ = await asyncio.gather(
        consume(exchange.reader(*range(channels))), produce(writer, RECORDS)
    )
    assert sorted(taken) == RECORDS
    for key in range(50):
        mine = [record for record in taken if record[0] % 50 == key]
        assert mine == sorted(mine)


@pytest.mark.parametrize("kind", WITH_CREDIT)
async def test_a_stopped_channel_does_not_stop_another(exchange: Exchange) -> None:
    """A partition that is not read does not stop another one between the same workers."""
    stopped, flowing = exchange.writer("stopped"), exchange.writer("flowing")
    idle = exchange.reader(name="stopped")
    blocked = asyncio.ensure_future(produce(stopped, RECORDS))
    taken, _ = await asyncio.gather(
        consume(exchange.reader(name="flowing")), produce(flowing, RECORDS)
    )
    assert taken == RECORDS
    assert not blocked.done()
    assert await consume(idle) == RECORDS
    await blocked


async def test_a_broadcast_reaches_every_channel(exchange: Exchange) -> None:
    """A18, A20: a record is serialised once, into buffers that all channels share."""
    writer = exchange.writer(subpartitions=3, partitioner=BroadcastPartitioner())
    *taken, _ = await asyncio.gather(
        *(consume(exchange.reader(index)) for index in range(3)), produce(writer, RECORDS)
    )
    assert taken == [RECORDS] * 3
    assert writer.records_out == len(RECORDS)


async def test_both_directions_at_once(exchange: Exchange) -> None:
    """F13: both directions of an exchange share one connection."""
    there, back = exchange.writer("there"), exchange.writer("back", back=True)
    results = await asyncio.gather(
        consume(exchange.reader(name="there")),
        consume(exchange.reader(name="back", back=True)),
        produce(there, RECORDS),
        produce(back, RECORDS[::-1]),
    )
    assert results[:2] == [RECORDS, RECORDS[::-1]]
    if isinstance(exchange.producer, NetworkEnvironment):
        expected = 0 if exchange.kind == "local" else 1
        assert exchange.producer.statistics().peers.established == expected


async def test_a_cancelled_read_loses_nothing(exchange: Exchange) -> None:
    writer, reader = exchange.writer(), exchange.reader()
    reading = asyncio.ensure_future(reader.next_batch())
    await let_things_happen()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    taken, _ = await asyncio.gather(consume(reader), produce(writer, RECORDS))
    assert taken == RECORDS


@pytest.mark.parametrize("kind", WHERE_BUFFERS_ARE_ALL)
async def test_a_cancelled_emit_wrote_the_record_or_did_not(exchange: Exchange) -> None:
    """After a cancelled emit, earlier records are whole, and the count of records out is right."""
    writer, reader = exchange.writer(), exchange.reader()
    records = RECORDS * 5
    producing = asyncio.ensure_future(writer.emit_many(records))
    await let_things_happen()
    producing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await producing
    written = writer.records_out
    taken, _ = await asyncio.gather(consume(reader), produce(writer, ["after"]))
    assert taken == [*records[:written], "after"]
