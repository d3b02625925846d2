"""The end of a channel: data, end of data, acknowledgement, end of partition; no other order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.buffer.channel_end import ChannelEnd
from flinknet.connection.subpartition_reader import SubpartitionReader
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import LocalProtocolError, RemoteProtocolError
from flinknet.partition.pipelined_subpartition import PipelinedSubpartition
from flinknet.partition.result_partition import ResultPartition
from flinknet.wire.events import END_OF_PARTITION, encode_end_of_data
from tests.contract.ends import consume
from tests.contract.hosts import Exchange

EVENT = DataType.EVENT_BUFFER
END_OF_DATA = DataType.END_OF_DATA
END = DataType.END_OF_PARTITION


class Task:
    """A task that takes buffers from a gate, and returns their types."""

    def __init__(self, gate: InputGate) -> None:
        self.gate = gate

    async def take(self) -> DataType:
        while (polled := self.gate.poll()) is None:
            await asyncio.sleep(0)
        index, buffer = polled
        data_type = buffer.data_type
        buffer.recycle()
        assert index == 0
        return data_type

    async def take_all(self) -> None:
        """Take buffers until the gate raises; after a clean end this waits for ever."""
        while True:
            await self.take()


def write_data(partition: ResultPartition) -> None:
    builder = partition.request_builder(0)
    assert builder is not None
    builder.append(memoryview(b"\x01"))
    partition.subpartitions[0].seal_open()


def end_data(partition: ResultPartition) -> None:
    partition.broadcast_event(END_OF_DATA, encode_end_of_data(drain=True))


def end_partition(partition: ResultPartition) -> None:
    partition.broadcast_event(END, END_OF_PARTITION)


def force(write: Callable[[ResultPartition], None], partition: ResultPartition) -> None:
    """Write in a state that the producer's table refuses, as a producer without the table would."""
    with pytest.raises(LocalProtocolError, match=r"must not arrive on subpartition 0"):
        write(partition)
    state = ChannelEnd.ACKNOWLEDGED if write is end_partition else ChannelEnd.DATA
    (subpartition,) = partition.subpartitions
    assert isinstance(subpartition, PipelinedSubpartition)
    # Reset the state of both tables on the producer's side, so that the write passes.
    subpartition.end = state
    if isinstance(subpartition._listener, SubpartitionReader):
        subpartition._listener._end = state
    write(partition)


async def test_a_channel_goes_from_data_to_the_end_of_its_partition(exchange: Exchange) -> None:
    """D12, I2: events may follow the end of the data, before and after its acknowledgement."""
    partition, reader = exchange.writer().partition, exchange.reader()
    task = Task(reader.gate.gates[0])
    write_data(partition)
    end_data(partition)
    partition.broadcast_event(EVENT, b"\x90")
    taken = [await task.take() for _ in range(3)]
    with pytest.raises(LocalProtocolError):
        partition.finish()
    assert not partition.all_data_processed.available
    reader.gate.acknowledge(0)
    while not partition.all_data_processed.available:
        await asyncio.sleep(0)
    partition.broadcast_event(EVENT, b"\x90")
    partition.finish()
    taken += [await task.take() for _ in range(2)]
    assert taken[1:] == [END_OF_DATA, EVENT, EVENT, END]
    assert reader.gate.finished
    reader.close()


@pytest.mark.parametrize("write", [write_data, end_data])
async def test_nothing_but_events_follows_the_end_of_the_data(
    exchange: Exchange, write: Callable[[ResultPartition], None]
) -> None:
    """The producer refuses data and a second end of data after the end of the data.

    The consumer refuses them from a producer that sends them nevertheless, also after the
    acknowledgement.
    """
    partition, reader = exchange.writer().partition, exchange.reader()
    task = Task(reader.gate.gates[0])
    end_data(partition)
    assert await task.take() is END_OF_DATA
    reader.gate.acknowledge(0)
    while not partition.all_data_processed.available:
        await asyncio.sleep(0)
    force(write, partition)
    with pytest.raises(
        (LocalProtocolError, RemoteProtocolError), match="must not arrive on .* acknowledged"
    ):
        await task.take_all()
    assert not reader.gate.finished
    reader.close()
    partition.release()


async def test_a_stream_without_the_end_of_its_data_is_not_whole(exchange: Exchange) -> None:
    """A reader gets an error, not an end, if the end of the partition follows the data directly."""
    partition, reader = exchange.writer().partition, exchange.reader()
    task = Task(reader.gate.gates[0])
    write_data(partition)
    assert (await task.take()).is_buffer
    force(end_partition, partition)
    with pytest.raises(
        (LocalProtocolError, RemoteProtocolError), match="must not arrive on .* data has not ended"
    ):
        await consume(reader)
    assert not reader.gate.finished
    reader.close()
    partition.release()


async def test_a_partition_does_not_end_before_its_data_is_acknowledged(
    exchange: Exchange,
) -> None:
    """A partition that ends before its data is acknowledged is refused.

    Data that was taken and not acknowledged may not have been processed.
    """
    partition, reader = exchange.writer().partition, exchange.reader()
    task = Task(reader.gate.gates[0])
    end_data(partition)
    assert await task.take() is END_OF_DATA
    force(end_partition, partition)
    with pytest.raises(
        (LocalProtocolError, RemoteProtocolError),
        match="must not arrive on .* not been acknowledged",
    ):
        await task.take_all()
    assert not reader.gate.finished
    reader.close()
    partition.release()
