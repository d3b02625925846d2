"""The processes of a run: the producer, and a consumer for each of its two channels.

Each process counts its records and adds up one byte of every record. It reads both values and the
clocks at the begin and at the end of the measured time.
"""

from __future__ import annotations

import asyncio
from itertools import cycle

from bench.adaptive.setting import RECORDS, SLOW, SLOW_RECORD_S, Setting, Span, Window
from bench.harness.case import Tally
from bench.harness.process import Clocks, Pipe
from flinknet import NetworkEnvironment, PartitionLocation, RecordReader, RecordWriter

__all__ = ["consume", "produce"]

PARTITION = "records"


class Producer:
    """Writes record by record until told to stop."""

    def __init__(self) -> None:
        self.records = 0
        self.checksum = 0
        self.stopped = False

    async def write(self, writer: RecordWriter) -> None:
        """Write until stopped."""
        emit, weigh = writer.emit, RECORDS.weigh
        for record in cycle(RECORDS.make_block()):
            if self.stopped:
                break
            await emit(record)
            self.records += 1
            self.checksum += weigh(record)


class Consumer:
    """Reads to the end of the partition."""

    def __init__(self) -> None:
        self.records = 0
        self.checksum = 0

    async def read(self, reader: RecordReader) -> None:
        """Read as fast as possible."""
        weigh = RECORDS.weigh
        async for batch in reader.batches():
            for record in batch:
                self.records += 1
                self.checksum += weigh(record)

    async def read_slowly(self, reader: RecordReader) -> None:
        """Sleep for each record, which leaves the processor to the other processes."""
        async for record in reader:
            await asyncio.sleep(SLOW_RECORD_S)
            self.records += 1
            self.checksum += RECORDS.weigh(record)


async def produce(setting: Setting, pipe: Pipe) -> None:
    """Send the address, then write from the parent's first message to its last."""
    async with NetworkEnvironment(config=setting.config) as environment:
        pipe.send(environment.address)
        span: Span = await pipe.receive()
        producer = Producer()
        async with environment.open_writer(
            PARTITION, subpartitions=2, partitioner=setting.make_partitioner()
        ) as writer:
            writing = asyncio.create_task(producer.write(writer))
            pipe.send(await _measure(producer, span))
            await pipe.receive()
            producer.stopped = True
            await writing
        pipe.send(Tally(producer.records, producer.checksum))


async def consume(setting: Setting, channel: int, pipe: Pipe) -> None:
    """Receive the address, then read a channel to the end of the partition."""
    address = await pipe.receive()
    span: Span = await pipe.receive()
    async with NetworkEnvironment(config=setting.config) as environment:
        gate = environment.create_input_gate([PartitionLocation(address, PARTITION, channel)])
        reader = environment.create_record_reader(gate)
        consumer = Consumer()
        read = consumer.read_slowly if channel == SLOW else consumer.read
        reading = asyncio.create_task(read(reader))
        pipe.send(await _measure(consumer, span))
        await reading
        reader.close()
        pipe.send(Tally(consumer.records, consumer.checksum))


async def _measure(side: Producer | Consumer, span: Span) -> Window:
    await asyncio.sleep(span.wait_s)
    records, begun = side.records, Clocks.read()
    await asyncio.sleep(span.seconds)
    return Window(side.records - records, Clocks.read() - begun)
