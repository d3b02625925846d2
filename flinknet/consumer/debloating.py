"""Debloating: a gate tells its producers up to which size to fill their buffers.

Theory of operation (Flink's BufferDebloater, BufferSizeEMA and ThroughputCalculator; FLIP-183).
What is on its way to a gate delays everything behind it, most of all a checkpoint barrier. The
reader's shell says when it waits for input, and a timer calls ``GateDebloating.recalculate``: the
throughput comes from the time in which the reader worked and from what the channels delivered, the
size from the throughput, and every channel that goes on announces it.

*Throughput*. The gate counts bytes anyway; the calculator keeps the time in which they were taken.
A *window* lasts from one ``calculate`` to the next and has idle time (the task waits for input) and
busy time (everything else, also when the task is held back by what it writes to). Idleness that is
going on when a window ends goes on in the next one. The throughput is bytes per busy second; a
window without any busy time says nothing, so the last value stays, and neither does any window
before the first byte.

*Size*. So that what is on its way takes no longer than ``target_ms`` to consume, the bytes in all
buffers on their way should be throughput x target, and one buffer should hold that divided by the
buffers in use. The size follows this with an exponential moving average of weight
2 / (samples + 1); a single value counts for at most twice the present average, so that the size
grows no faster than it shrinks. It stays between ``segment_bytes_min`` and the segment size, where
it begins. The average keeps its fraction, and the size is the nearest whole byte, as in Flink since
FLINK-36555. Flink's average was an integer before: it lost a fraction with every value, and could
not grow where a step was less than a byte. Producers are told only of a change of at least
``threshold_percent``, or when a bound is reached. Nothing frees memory: buffers are filled less.

Time comes in as ``now``, in seconds of a clock that never goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flinknet.config import BufferDebloatConfig
from flinknet.consumer.input_channel import InputChannel

__all__ = [
    "BufferDebloater",
    "BufferDebloaterStatistics",
    "GateDebloating",
    "ThroughputCalculator",
]


class GateDebloating:
    """Sizes the buffers of the channels in ``channels``, whichever they are at the time."""

    def __init__(
        self, channels: Sequence[InputChannel], config: BufferDebloatConfig, segment_bytes: int
    ) -> None:
        self._channels = channels
        self._throughput = ThroughputCalculator()
        self._debloater = BufferDebloater(config, segment_bytes) if config.enabled else None

    def begin_wait(self, now: float) -> None:
        """The reader waits for input."""
        self._throughput.pause(now)

    def end_wait(self, now: float) -> None:
        """The reader begins, or goes on, to work."""
        self._throughput.resume(now)

    @property
    def buffers_in_use(self) -> int:
        """Data buffers on their way to the reader, in all channels."""
        return sum(channel.buffers_in_use for channel in self._channels)

    def recalculate(self, now: float) -> None:
        """Calculate the buffer size anew and announce it if it has changed enough; to be called
        periodically if ``debloat.enabled``."""
        if self._debloater is None:
            return
        bytes_in = sum(channel.bytes_in for channel in self._channels)
        throughput = self._throughput.calculate(bytes_in, now)
        if throughput is None:
            return
        size_bytes = self._debloater.recalculate(throughput, self.buffers_in_use)
        if size_bytes is not None:
            self._announce(size_bytes)

    def _announce(self, size_bytes: int) -> None:
        for channel in self._channels:
            if not (channel.finished or channel.released):
                channel.announce_buffer_size(size_bytes)

    def statistics(self) -> BufferDebloaterStatistics | None:
        """As those of the debloater; None if debloating is not enabled."""
        return self._debloater.statistics() if self._debloater is not None else None

    def check_invariants(self) -> None:
        """Raise AssertionError if a size is out of bounds."""
        if self._debloater is not None:
            self._debloater.check_invariants()


class ThroughputCalculator:
    """Bytes per second of busy time; None until there were both."""

    __slots__ = ("_busy_s", "_busy_since", "_bytes_seen", "throughput")

    def __init__(self) -> None:
        self.throughput: float | None = None
        self._busy_s = 0.0
        self._busy_since: float | None = None
        self._bytes_seen = 0

    def resume(self, now: float) -> None:
        """The task works from now on; harmless while it does."""
        if self._busy_since is None:
            self._busy_since = now

    def pause(self, now: float) -> None:
        """The task waits for input from now on; harmless while it does."""
        if self._busy_since is not None:
            self._busy_s += now - self._busy_since
            self._busy_since = None

    def calculate(self, bytes_in: int, now: float) -> float | None:
        """End the window, with all bytes that the gate has delivered since it was made; return the
        throughput."""
        if self._busy_since is not None:
            self._busy_s += now - self._busy_since
            self._busy_since = now
        if self._busy_s > 0 and bytes_in:
            self.throughput = (bytes_in - self._bytes_seen) / self._busy_s
        self._busy_s = 0.0
        self._bytes_seen = bytes_in
        return self.throughput


class BufferDebloaterStatistics(NamedTuple):
    """Present values; ``buffer_bytes`` is what producers were last told (Flink's
    debloatedBufferSize), ``estimated_ms`` how long what is on its way will take to consume (Flink's
    estimatedTimeToConsumeBuffersMs)."""

    buffer_bytes: int
    estimated_ms: float


class BufferDebloater:
    """Sizes of one gate's buffers; buffers of ``segment_bytes`` at first."""

    __slots__ = ("_average_bytes", "_config", "_estimated_ms", "_segment_bytes", "buffer_bytes")

    def __init__(self, config: BufferDebloatConfig, segment_bytes: int) -> None:
        self.buffer_bytes = segment_bytes
        self._config = config
        self._segment_bytes = segment_bytes
        self._average_bytes = float(segment_bytes)
        self._estimated_ms = 0.0

    def recalculate(self, throughput: float, buffers_in_use: int) -> int | None:
        """Follow a throughput (bytes/s) with that many buffers on their way; return the size to
        announce, None if the present one is near enough."""
        buffers = max(1, buffers_in_use)
        instant = throughput * self._config.target_ms / 1000 / buffers
        average = self._average_bytes
        weight = 2 / (self._config.samples + 1)
        average += weight * (min(instant, 2 * average) - average)
        average = max(self._config.segment_bytes_min, min(average, self._segment_bytes))
        self._average_bytes = average
        size = int(average + 0.5)
        self._estimated_ms = size * buffers * 1000 / max(1.0, throughput)
        if not self._worth_telling(size):
            return None
        self.buffer_bytes = size
        return size

    def _worth_telling(self, size: int) -> bool:
        if size in (self._config.segment_bytes_min, self._segment_bytes):
            return size != self.buffer_bytes
        least = int(self.buffer_bytes * self._config.threshold_percent / 100)
        return abs(size - self.buffer_bytes) >= max(1, least)

    def statistics(self) -> BufferDebloaterStatistics:
        """Say what size was last announced, and how long what is on its way will take."""
        return BufferDebloaterStatistics(self.buffer_bytes, self._estimated_ms)

    def check_invariants(self) -> None:
        """Raise AssertionError if a size is out of bounds."""
        low, high = self._config.segment_bytes_min, self._segment_bytes
        assert low <= self._average_bytes <= high, "the average size is out of bounds"
        assert low <= self.buffer_bytes <= high, "the announced size is out of bounds"
