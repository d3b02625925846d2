"""The channels of a worker in which most waits, picked while all of them are read.

Theory of operation. Channels come task after task, gate after gate, in parts (``turns.py``). Those
with most buffers waiting for them, here and at their producers, stay; of as many the first. How
long a channel takes depends on what the other channels of its task hold, and on how fast that is
read, which are known when the task has been read: rows are made at the end.
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
    """One input channel, whose it is, and what is on its way to its reader."""

    gate: str
    channel: InputChannelStatistics
    buffered_bytes: int
    time_to_consume_ms: float | None
    """How long that will take, with what the task reads of its other channels meanwhile; None if
    that is not known."""


class _TaskInput:
    """What the channels of one task hold, and how many bytes per busy second it takes of them."""

    def __init__(self) -> None:
        self.sizes = BufferedSizes()
        self.throughput: float | None = None


class _Candidate(NamedTuple):
    """Ordered by the first two, which no other one has."""

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
    """Keeps at most ``channels_max`` of those that it is told of."""

    def __init__(self, channels_max: int) -> None:
        self._channels_max = channels_max
        self._kept: list[_Candidate] = []
        self._seen = 0
        self._task = _TaskInput()

    def note(self, gate: str, channels: Sequence[InputChannelStatistics]) -> None:
        """Take channels of the task that is read now."""
        sizes = list(map(buffered_bytes, channels))
        self._task.sizes.add(sizes)
        kept = self._kept
        for channel, size in zip(channels, sizes, strict=True):
            waiting = channel.queued_buffers + channel.backlog
            if len(kept) < self._channels_max:
                heappush(kept, _Candidate(waiting, -self._seen, gate, channel, size, self._task))
            elif kept and waiting > kept[0].waiting:
                heapreplace(kept, _Candidate(waiting, -self._seen, gate, channel, size, self._task))
            self._seen += 1

    def end_task(self, throughput: float | None) -> None:
        """What comes from now on is of another task; this one takes so many bytes per busy second
        from its channels together."""
        self._task.throughput = throughput
        self._task = _TaskInput()

    def reading(self, turns: Turns) -> Reading[tuple[ChannelRow, ...]]:
        """Make the rows, the busiest first."""
        rows: list[ChannelRow] = []
        for part in turns.parts(sorted(self._kept, reverse=True)):
            rows += [candidate.row() for candidate in part]
            yield
        return tuple(rows)
