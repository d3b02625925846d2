"""The producing process: one partition with a subpartition for each channel."""

from __future__ import annotations

from bench.harness.process import Pipe
from bench.scale.footprint import take_footprint
from bench.scale.setting import PARTITION, WARM_UP, Account, Record, Setting
from bench.scale.stopwatch import Stopwatch
from flinknet import NetworkEnvironment, Partitioner
from flinknet.buffer.buffer import DataType

__all__ = ["produce"]


class ByFirstField(Partitioner):
    """Sends a record to the channel in its first field."""

    def select(self, record: Record) -> int:
        """Return the first field."""
        return record[0]


async def produce(setting: Setting, pipe: Pipe) -> None:
    """Send the address; open the channels at the first message, send the records at the second."""
    async with NetworkEnvironment(config=setting.config) as environment:
        pipe.send(environment.address)
        async with environment.open_writer(WARM_UP) as writer:
            await writer.emit_many(next(setting.blocks()))
        await pipe.receive()
        before = take_footprint()
        partition = environment.create_result_partition(PARTITION, subpartitions=setting.channels)
        # An event ahead of all records, by which the consumer knows that a channel is open.
        partition.broadcast_event(DataType.EVENT_BUFFER, b"")
        writer = environment.create_record_writer(partition, ByFirstField())
        pipe.send(environment.address)
        await pipe.receive()
        idle = carrying = take_footprint()
        pipe.send(None)
        await pipe.receive()
        watch = Stopwatch()
        for block in setting.blocks():
            await writer.emit_many(block)
            if carrying is idle and writer.records_out >= setting.records // 2:
                carrying = watch.take_footprint()
        await writer.finish()
        time = watch.read()
        writer.close()
        records, buffers = writer.records_out, writer.buffers_opened
        pipe.send(Account(True, records, buffers, time, before, idle, carrying))
