"""The producing process: a partition, a writer and a task for each channel.

A barrier is an event in line with the records, as an aligned checkpoint barrier is. It carries the
time at which it was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from struct import Struct
from time import monotonic_ns

from bench.harness.case import Block
from bench.harness.process import Clocks, Pipe
from bench.isolation.setting import RECORDS, Sent, Setting
from flinknet import NetworkEnvironment
from flinknet.buffer.buffer import DataType
from flinknet.errors import ConsumerCancelledError

__all__ = ["BARRIER", "BARRIER_INTERVAL_S", "partition_id", "produce"]

BARRIER = Struct(">q")
"""The content of a barrier: nanoseconds of the monotonic clock."""

BARRIER_INTERVAL_S = 0.02


def partition_id(channel: int) -> str:
    """Return the partition's name, by which the consumer requests a channel."""
    return f"channel {channel}"


class ProducedChannel:
    """One producer with its partition."""

    def __init__(self, environment: NetworkEnvironment, number: int) -> None:
        self.partition = environment.create_result_partition(partition_id(number), subpartitions=1)
        self.records = 0
        self._writer = environment.create_record_writer(self.partition)

    async def write(self, block: Block, stop: asyncio.Event) -> None:
        """Write the block repeatedly until told to stop, or until the consumer has gone."""
        try:
            while not stop.is_set():
                await self._writer.emit_many(block)
                self.records += len(block)
            await self._writer.finish()
        except ConsumerCancelledError:
            pass  # the stopped consumer cancels at the end of the run
        finally:
            self._writer.close()


async def produce(setting: Setting, pipe: Pipe) -> None:
    """Send the address, then write from the first message to the last.

    The second message is the number of seconds to measure.
    """
    block = RECORDS.make_block()
    async with NetworkEnvironment(config=setting.config) as environment:
        channels = [ProducedChannel(environment, number) for number in range(setting.channels)]
        others = channels[: setting.others]
        pipe.send(environment.address)
        await pipe.receive()
        stop = asyncio.Event()
        writing = [asyncio.create_task(channel.write(block, stop)) for channel in channels]
        barriers_ns: list[int] = []
        sending = asyncio.create_task(_send_barriers(others, barriers_ns))
        seconds: float = await pipe.receive()
        begun = Clocks.read()
        await asyncio.sleep(seconds)
        pipe.send(Clocks.read() - begun)
        await pipe.receive()
        sending.cancel()
        stop.set()
        await asyncio.gather(*writing)
        pipe.send(Sent([channel.records for channel in others], barriers_ns))


async def _send_barriers(channels: Sequence[ProducedChannel], sent_ns: list[int]) -> None:
    while True:
        now_ns = monotonic_ns()
        sent_ns.append(now_ns)
        for channel in channels:
            channel.partition.broadcast_event(DataType.EVENT_BUFFER, BARRIER.pack(now_ns))
        await asyncio.sleep(BARRIER_INTERVAL_S)
