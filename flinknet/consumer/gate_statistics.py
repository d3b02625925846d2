"""Statistics of an input gate: its own counts, and those of its pool and its channels."""

from __future__ import annotations

from typing import NamedTuple

from flinknet.buffer.local_pool import LocalBufferPoolStatistics
from flinknet.buffer.queue_lengths import QueueLengths
from flinknet.consumer.debloating import BufferDebloaterStatistics
from flinknet.consumer.end_of_data import EndOfData
from flinknet.consumer.input_channel import InputChannelStatistics

__all__ = ["InputGateStatistics"]


class InputGateStatistics(NamedTuple):
    """Current state of a gate, its floating pool and its channels."""

    name: str
    channels_queued: int
    channels_finished: int
    finished: bool
    released: bool
    floating_pool: LocalBufferPoolStatistics
    channels: tuple[InputChannelStatistics, ...]
    end_of_data: EndOfData
    debloating: BufferDebloaterStatistics | None

    @property
    def queue_lengths(self) -> QueueLengths:
        """Buffers queued; the total is Flink's inputQueueLength."""
        return QueueLengths.of([channel.queued_buffers for channel in self.channels])

    @property
    def queued_bytes(self) -> int:
        """Bytes queued in remote channels (inputQueueSize)."""
        return sum(channel.queued_bytes for channel in self._of_kind("remote"))

    @property
    def floating_buffers_in_use(self) -> int:
        """Floating buffers that hold data, without free ones in the channels."""
        free = sum(channel.floating_free for channel in self.channels)
        return max(0, self.floating_pool.in_use - free)

    @property
    def exclusive_buffers_in_use(self) -> int:
        """Exclusive buffers that hold data."""
        return self._exclusive_buffers - sum(channel.exclusive_free for channel in self.channels)

    @property
    def floating_buffers_usage(self) -> float:
        """Fraction of the floating buffers that holds data (inputFloatingBuffersUsage)."""
        return _part(self.floating_buffers_in_use, self.floating_pool.size)

    @property
    def exclusive_buffers_usage(self) -> float:
        """Fraction of the exclusive buffers that holds data (inputExclusiveBuffersUsage)."""
        return _part(self.exclusive_buffers_in_use, self._exclusive_buffers)

    @property
    def pool_usage(self) -> float:
        """Fraction of the gate's buffers that holds data (inPoolUsage).

        Local channels have no buffers in the gate.
        """
        in_use = self.floating_buffers_in_use + self.exclusive_buffers_in_use
        return _part(in_use, self.floating_pool.size + self._exclusive_buffers)

    @property
    def buffers_in_local(self) -> int:
        """Buffers polled from producers in this worker (numBuffersInLocal)."""
        return sum(channel.buffers_in for channel in self._of_kind("local"))

    @property
    def buffers_in_remote(self) -> int:
        """Buffers polled from producers in other workers (numBuffersInRemote)."""
        return sum(channel.buffers_in for channel in self._of_kind("remote"))

    @property
    def bytes_in_local(self) -> int:
        """Bytes polled from producers in this worker (numBytesInLocal)."""
        return sum(channel.bytes_in for channel in self._of_kind("local"))

    @property
    def bytes_in_remote(self) -> int:
        """Bytes polled from producers in other workers (numBytesInRemote)."""
        return sum(channel.bytes_in for channel in self._of_kind("remote"))

    @property
    def _exclusive_buffers(self) -> int:
        return sum(channel.exclusive_total for channel in self.channels)

    def _of_kind(self, kind: str) -> list[InputChannelStatistics]:
        return [channel for channel in self.channels if channel.kind == kind]


def _part(in_use: int, total: int) -> float:
    return in_use / total if total else 0.0
