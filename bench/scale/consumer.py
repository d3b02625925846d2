"""The consuming process: one gate with all channels.

Every record is compared with the expected one.
"""

from __future__ import annotations

from bench.harness.process import Pipe
from bench.scale.footprint import take_footprint
from bench.scale.setting import PARTITION, WARM_UP, Account, Setting
from bench.scale.stopwatch import Stopwatch
from flinknet import NetworkEnvironment, PartitionLocation, RecordBatch
from flinknet.consumer.input_gate import InputGate

__all__ = ["consume"]


class ChannelCheck:
    """Compares the records of each channel with the expected ones."""

    def __init__(self, setting: Setting) -> None:
        self.records = self.batches = 0
        self.in_order = True
        self._setting = setting
        self._arrived = [0] * setting.channels

    def take(self, batch: RecordBatch) -> None:
        """Check a batch."""
        channel = batch.channel
        first = self._arrived[channel]
        following = first + len(batch)
        if batch.records != tuple((channel, number) for number in range(first, following)):
            self.in_order = False
        self._arrived[channel] = following
        self.records += len(batch)
        self.batches += 1

    @property
    def complete(self) -> bool:
        """Whether every channel has received all of its records."""
        expected = list(map(self._setting.records_of, range(self._setting.channels)))
        return self._arrived == expected


async def consume(setting: Setting, pipe: Pipe) -> None:
    """Receive the address and connect, then open the channels and receive the records.

    The second message orders to open, the third to receive.
    """
    address = await pipe.receive()
    async with NetworkEnvironment(config=setting.config) as environment:
        async with environment.open_reader(address, WARM_UP) as reader:
            async for _ in reader.batches():
                pass
        pipe.send(None)
        await pipe.receive()
        before = take_footprint()
        gate = environment.create_input_gate(
            [PartitionLocation(address, PARTITION, channel) for channel in range(setting.channels)]
        )
        reader = environment.create_record_reader(gate)
        await _opened(environment, gate)
        idle = carrying = take_footprint()
        pipe.send(None)
        await pipe.receive()
        watch = Stopwatch()
        check = ChannelCheck(setting)
        async for batch in reader.batches():
            check.take(batch)
            if carrying is idle and check.records >= setting.records // 2:
                carrying = watch.take_footprint()
        time = watch.read()
        reader.close()
        in_order = check.in_order and check.complete
        pipe.send(Account(in_order, check.records, check.batches, time, before, idle, carrying))


async def _opened(environment: NetworkEnvironment, gate: InputGate) -> None:
    """Wait until every channel has received the event that precedes all records."""
    missing = len(gate.channels)
    while missing:
        polled = gate.poll()
        if polled is None:
            await environment.wait(gate.availability)
        else:
            polled[1].recycle()
            missing -= 1
