"""The busiest input channels of a worker, selected while all channels are read.

Channels arrive task by task and gate by gate, in parts (``turns.py``). The channels with the most
waiting buffers, here and at their producers, are kept; among equals, the first ones. The time to
consume a channel depends on the contents of the task's other channels and on the task's throughput.
Both are known only when the whole task has been read, so rows are made at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush, heapreplace
from typing import NamedTuple

from flinknet.consumer.input_channel import InputChannelStatistics
from flinknet.metrics.consumption import BufferedSizes, buffered_bytes
from flinknet.metrics.turns import Reading, Turns

__all__ = ["BusiestChannels", "ChannelRow"]


class ChannelRow(NamedTuple):
    """One input channel, its gate, and the data on its way to its reader."""

    gate: str
    channel: InputChannelStatistics
    buffered_bytes: int
    time_to_consume_ms: float | None
    """Time until this data is consumed; None if it is unknown.

    The task reads data from its other channels in the meantime; the time includes this.
    """


class _TaskInput:
    """Bytes in the channels of one task, and the bytes that it consumes per busy second."""

    def __init__(self) -> None:
        self.sizes = BufferedSizes()
        self.throughput: float | None = None


class _Candidate(NamedTuple):
    """A kept channel; candidates are ordered by the first two fields, which are unique."""

    waiting: int
    earliness: int
    gate: str
    channel: InputChannelStatistics
    buffered_bytes: int
    task: _TaskInput

    def row(self) -> ChannelRow:
        time_ms = None
        if self.task.throughput is not None:
            bytes_read = self.task.sizes.bytes_until(self.buffered_bytes)
            time_ms = 1000 * bytes_read / self.task.throughput
        return ChannelRow(self.gate, self.channel, self.buffered_bytes, time_ms)


class BusiestChannels:
    """Selects the busiest channels, at most ``channels_max``."""

    def __init__(self, channels_max: int) -> None:
        self._channels_max = channels_max
        self._kept: list[_Candidate] = []
        self._seen = 0
        self._task = _TaskInput()

    def note(self, gate: str, channels: Sequence[InputChannelStatistics]) -> None:
        """Consider channels of the current task."""
        sizes = list(map(buffered_bytes, channels))
        self._task.sizes.add(sizes)
        kept = self._kept
        for channel, size in zip(channels, sizes, strict=True):
            waiting = channel.queued_buffers + channel.backlog
            if len(kept) < self._channels_max:
                # The place is negative, so that the earlier of equal channels is kept.
                heappush(kept, _Candidate(waiting, -self._seen, gate, channel, size, self._task))
            elif kept and waiting > kept[0].waiting:
                heapreplace(kept, _Candidate(waiting, -self._seen, gate, channel, size, self._task))
            self._seen += 1

    def end_task(self, throughput: float | None) -> None:
        """End the current task; later channels belong to another one.

        ``throughput`` is the number of bytes per busy second that the task consumes from all its
        channels.
        """
        self._task.throughput = throughput
        self._task = _TaskInput()

    def reading(self, turns: Turns) -> Reading[tuple[ChannelRow, ...]]:
        """Make the rows, the busiest channel first."""
        rows: list[ChannelRow] = []
        for part in turns.parts(sorted(self._kept, reverse=True)):
            rows += [candidate.row() for candidate in part]
            yield
        return tuple(rows)
