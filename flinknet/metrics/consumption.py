"""Estimated time for a task to consume its buffered input, also without buffer debloating.

The data on its way to a channel's reader consists of the bytes that have arrived and of the bytes
that wait at the producer. A local channel's reader polls the producer's queue, which counts its
bytes. A remote producer reports a number of buffers, which are assumed to be as large as earlier
ones.

The estimated time is the number of these bytes divided by the task's throughput: the bytes per
second in which it does not wait for input, over the last minute (Flink's throughput). Both figures
come from existing counters, so the estimate costs nothing between two readings.

Channels are read in turn. When the last buffer of a channel is read, each other channel has
therefore been read up to the same amount. A barrier behind that buffer waits for all of this.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from flinknet.consumer.input_channel import InputChannelStatistics

__all__ = ["BufferedSizes", "buffered_bytes", "bytes_per_busy_s", "times_to_consume_ms"]


def buffered_bytes(channel: InputChannelStatistics) -> int:
    """Return the number of bytes on their way to the reader of a channel."""
    if channel.kind != "remote":
        return channel.queued_bytes
    arrived = channel.buffers_in + channel.queued_buffers
    mean = (channel.bytes_in + channel.queued_bytes) / arrived if arrived else 0.0
    return channel.queued_bytes + round(channel.backlog * mean)


def bytes_per_busy_s(bytes_per_s: float, idle_share: float) -> float | None:
    """Return the bytes that a task consumes per second in which it does not wait for input.

    Returns None if it has consumed nothing, or only waited.
    """
    busy_share = 1.0 - idle_share
    return bytes_per_s / busy_share if bytes_per_s > 0 and busy_share > 0 else None


class BufferedSizes:
    """The sizes in bytes of any number of a task's inputs.

    Sizes are kept in sorted runs, each at least twice as long as the next. A new run is merged with
    the shorter runs before it. This keeps the number of runs low, and each call short.
    """

    __slots__ = ("_runs", "_sums")

    def __init__(self) -> None:
        self._runs: list[list[int]] = []
        self._sums: list[list[int]] = []

    def add(self, sizes: Sequence[int]) -> None:
        """Add more inputs."""
        run = sorted(sizes)
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = sorted(self._runs.pop() + run)
        self._runs.append(run)
        self._sums.clear()

    def bytes_until(self, size: int) -> int:
        """Return the bytes consumed across all inputs before an input of ``size`` drains.

        Each other input contributes ``size`` bytes, or its whole size if that is less.
        """
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
    """Return the time in which each of a task's inputs is consumed up to its present end.

    The inputs are read in turn, at ``throughput`` bytes per second together. Times are None if the
    throughput is unknown.
    """
    if throughput is None:
        return [None] * len(buffered)
    sizes = BufferedSizes()
    sizes.add(buffered)
    return [1000 * sizes.bytes_until(size) / throughput for size in buffered]
