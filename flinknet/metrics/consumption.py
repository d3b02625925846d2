"""How long a task will take for what its inputs hold, without buffer debloating, too.

Theory of operation. What is on its way to a channel's reader are the bytes that have arrived, and
those that wait at the producer. A local channel's reader polls the producer's queue, which counts
its bytes; a remote producer says how many buffers it has, which are taken to be as large as those
that came before. The time is those bytes over the bytes that the task takes in each second in which
it does not wait for input: Flink's throughput, over the last minute. Both come from accounts that
are kept anyway, so that this costs nothing between two readings.

Channels are read in turn. So by the time that a channel's last buffer is read, each other one has
been read, too, up to as much: that is how long a barrier behind it waits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from flinknet.consumer.input_channel import InputChannelStatistics

__all__ = ["BufferedSizes", "buffered_bytes", "bytes_per_busy_s", "times_to_consume_ms"]


def buffered_bytes(channel: InputChannelStatistics) -> int:
    """Bytes on their way to the reader of a channel."""
    if channel.kind != "remote":
        return channel.queued_bytes
    arrived = channel.buffers_in + channel.queued_buffers
    mean = (channel.bytes_in + channel.queued_bytes) / arrived if arrived else 0.0
    return channel.queued_bytes + round(channel.backlog * mean)


def bytes_per_busy_s(bytes_per_s: float, idle_share: float) -> float | None:
    """What a task takes per second in which it does not wait for input; None while nothing was
    taken, or it only waited."""
    busy_share = 1.0 - idle_share
    return bytes_per_s / busy_share if bytes_per_s > 0 and busy_share > 0 else None


class BufferedSizes:
    """What each of a task's inputs holds, in bytes, however many there are.

    They are kept in sorted runs, each at least twice as long as the next one: one that is added is
    merged with those that it reaches, so that there are never many, and no call takes long.
    """

    __slots__ = ("_runs", "_sums")

    def __init__(self) -> None:
        self._runs: list[list[int]] = []
        self._sums: list[list[int]] = []

    def add(self, sizes: Sequence[int]) -> None:
        """There are these inputs, too."""
        run = sorted(sizes)
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = sorted(self._runs.pop() + run)
        self._runs.append(run)
        self._sums.clear()

    def bytes_until(self, size: int) -> int:
        """How much is read of all of them until one with so many bytes has been read: as much of
        each other one, or all that it holds."""
        if not self._sums:
            self._sums = [list(accumulate(run, initial=0)) for run in self._runs]
        total = 0
        for run, sums in zip(self._runs, self._sums, strict=True):
            smaller = bisect_right(run, size)
            total += sums[smaller] + size * (len(run) - smaller)
        return total


def times_to_consume_ms(
    buffered: Sequence[int], throughput: float | None
) -> Sequence[float | None]:
    """How long it takes until each of a task's inputs has been read up to what it holds now, if
    they are read in turn at so many bytes per second together; None if that is not known."""
    if throughput is None:
        return [None] * len(buffered)
    sizes = BufferedSizes()
    sizes.add(buffered)
    return [1000 * sizes.bytes_until(size) / throughput for size in buffered]
