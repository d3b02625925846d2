"""The consuming process: a gate and a task for each channel.

The tasks poll their gates themselves, because a record reader does not pass events on. Every record
is compared with the expected one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic_ns

import msgpack

from bench.harness.case import Block
from bench.harness.process import Clocks, Pipe
from bench.isolation.producer import BARRIER, partition_id
from bench.isolation.setting import RECORDS, Received, Setting, Window
from flinknet import NetworkEnvironment, PartitionLocation
from flinknet.buffer.buffer import Buffer, DataType

__all__ = ["consume"]

FILL_NS = 300_000_000
"""Time from a consumer's stop until all queues behind it are full, with a margin."""

REST_NS = 500_000_000
"""Time without any arrival after which no more is expected."""

LOOK_S = 0.02


class ConsumedChannel:
    """One consumer; once ``stopped``, it never polls again until it is released."""

    def __init__(
        self, environment: NetworkEnvironment, address: str, number: int, block: Block
    ) -> None:
        location = PartitionLocation(address, partition_id(number), 0)
        self.records = 0
        self.in_order = True
        self.barriers_ns: list[tuple[int, int]] = []
        self.stopped = False
        self._wait = environment.wait
        self._gate = environment.create_input_gate([location], name=location.partition_id)
        self._unpacker = msgpack.Unpacker(use_list=False)
        self._block_records = len(block)
        self._expected = [*block, *block]

    @property
    def progress(self) -> int:
        """A number that changes with every received record or barrier."""
        return self.records + len(self.barriers_ns)

    def has_come(self, since_ns: int) -> bool:
        """Return whether a barrier that was sent since then has arrived."""
        return bool(self.barriers_ns) and self.barriers_ns[-1][0] >= since_ns

    async def read(self) -> None:
        """Read to the end of the partition, or until stopped."""
        gate = self._gate
        while not self.stopped:
            polled = gate.poll()
            if polled is not None:
                self._take(polled[1])
                await asyncio.sleep(0)
            elif gate.finished:
                return
            else:
                await self._wait(gate.availability)

    def release(self) -> None:
        """Cancel the unread rest and return every buffer."""
        self._gate.release()

    def _take(self, buffer: Buffer) -> None:
        if buffer.data_type.is_buffer:
            self._compare(buffer.view())
        elif buffer.data_type is DataType.EVENT_BUFFER:
            (sent_ns,) = BARRIER.unpack(buffer.view())
            self.barriers_ns.append((sent_ns, monotonic_ns()))
        elif buffer.data_type is DataType.END_OF_DATA:
            self._gate.acknowledge(0)
        buffer.recycle()

    def _compare(self, data: memoryview | bytes) -> None:
        self._unpacker.feed(data)
        if isinstance(data, memoryview):
            data.release()
        records = list(self._unpacker)
        position = self.records % self._block_records
        if records != self._expected[position : position + len(records)]:
            self.in_order = False
        self.records += len(records)


async def consume(setting: Setting, pipe: Pipe) -> None:
    """Receive the address, then read to the end of the partition.

    The next two messages are the seconds to warm up and, once all is settled, to measure.
    """
    address = await pipe.receive()
    block = RECORDS.make_block()
    async with NetworkEnvironment(config=setting.config) as environment:
        channels = [
            ConsumedChannel(environment, address, number, block)
            for number in range(setting.channels)
        ]
        reading = [asyncio.create_task(channel.read()) for channel in channels]
        others = channels[: setting.others]
        await asyncio.sleep(await pipe.receive())
        if setting.one_more == "stopped":
            channels[-1].stopped = True
        await _everything_through(others, monotonic_ns() + FILL_NS)
        pipe.send(None)
        pipe.send(await _measure(others, await pipe.receive()))
        if setting.one_more == "stopped":
            # The stopped consumer leaves at last, so that its producer can end.
            channels[-1].release()
        await asyncio.gather(*reading)
        for channel in channels:
            channel.release()
        pipe.send(
            Received(
                [channel.records for channel in others],
                all(channel.in_order for channel in channels),
                [times for channel in others for times in channel.barriers_ns],
            )
        )


async def _measure(channels: Sequence[ConsumedChannel], seconds: float) -> Window:
    begin_ns, begun = monotonic_ns(), Clocks.read()
    before = sum(channel.records for channel in channels)
    await asyncio.sleep(seconds)
    records = sum(channel.records for channel in channels) - before
    time, end_ns = Clocks.read() - begun, monotonic_ns()
    await _everything_through(channels, end_ns)
    return Window(records, time, begin_ns, end_ns, monotonic_ns())


async def _everything_through(channels: Sequence[ConsumedChannel], sent_ns: int) -> None:
    """Wait until each channel has received a barrier sent at ``sent_ns`` or later.

    Everything sent before that barrier has then arrived, too. Return as well if nothing has arrived
    on any channel for ``REST_NS``.
    """
    progress, moved_ns = -1, monotonic_ns()
    while not all(channel.has_come(sent_ns) for channel in channels):
        if progress != (progress := sum(channel.progress for channel in channels)):
            moved_ns = monotonic_ns()
        elif monotonic_ns() - moved_ns > REST_NS:
            return
        await asyncio.sleep(LOOK_S)
