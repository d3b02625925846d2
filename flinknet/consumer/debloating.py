"""Debloating: a gate limits the buffer size of its producers.

This covers Flink's BufferDebloater, BufferSizeEMA and ThroughputCalculator (FLIP-183). Data on its
way to a gate delays everything behind it, most of all a checkpoint barrier. The reader's shell
reports when it waits for input. A timer calls ``GateDebloating.recalculate``. The throughput
follows from the reader's busy time and the bytes that the channels delivered, and the size follows
from the throughput. Every unfinished channel announces the size.

*Throughput*. A *window* lasts from one ``calculate`` to the next. It has idle time (the task waits
for input) and busy time (all other time, including the time that the task waits for its output).
Idleness at the end of a window continues in the next one. The throughput is bytes per busy second.

*Size*. Data on its way should take at most ``target_ms`` to consume. All buffers on their way
should therefore hold throughput x target bytes, and one buffer that number divided by the buffers
in use. The size follows this value with an exponential moving average, between
``segment_bytes_min`` and the segment size, where it begins. No memory is freed: buffers are filled
less.

Time is passed in as ``now``, in seconds of a clock that never goes back.
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
    """Sizes the buffers of the channels that ``channels`` holds at the time."""

    def __init__(
        self, channels: Sequence[InputChannel], config: BufferDebloatConfig, segment_bytes: int
    ) -> None:
        self._channels = channels
        self._throughput = ThroughputCalculator()
        self._debloater = BufferDebloater(config, segment_bytes) if config.enabled else None

    def begin_wait(self, now: float) -> None:
        """Note that the reader waits for input."""
        self._throughput.pause(now)

    def end_wait(self, now: float) -> None:
        """Note that the reader starts or continues to work."""
        self._throughput.resume(now)

    @property
    def buffers_in_use(self) -> int:
        """Data buffers on their way to the reader, in all channels."""
        return sum(channel.buffers_in_use for channel in self._channels)

    def recalculate(self, now: float) -> None:
        """Calculate the buffer size, and announce it if it has changed enough.

        To be called periodically if ``debloat.enabled``.
        """
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
        """Return the debloater's statistics; None if debloating is disabled."""
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
        """Start busy time; do nothing if it runs."""
        if self._busy_since is None:
            self._busy_since = now

    def pause(self, now: float) -> None:
        """End busy time, because the task waits for input; do nothing if it does not run."""
        if self._busy_since is not None:
            self._busy_s += now - self._busy_since
            self._busy_since = None

    def calculate(self, bytes_in: int, now: float) -> float | None:
        """End the window, and return the throughput.

        ``bytes_in`` is the total number of bytes that the gate has delivered.
        """
        if self._busy_since is not None:
            self._busy_s += now - self._busy_since
            self._busy_since = now
        # A window without busy time, or before the first byte, gives no value; the last one stays.
        if self._busy_s > 0 and bytes_in:
            self.throughput = (bytes_in - self._bytes_seen) / self._busy_s
        self._busy_s = 0.0
        self._bytes_seen = bytes_in
        return self.throughput


class BufferDebloaterStatistics(NamedTuple):
    """Current values of a debloater.

    ``buffer_bytes`` is the last announced size (Flink's debloatedBufferSize). ``estimated_ms`` is
    the time to consume the data on its way (Flink's estimatedTimeToConsumeBuffersMs).
    """

    buffer_bytes: int
    estimated_ms: float


class BufferDebloater:
    """Buffer size of one gate; ``segment_bytes`` at first."""

    __slots__ = ("_average_bytes", "_config", "_estimated_ms", "_segment_bytes", "buffer_bytes")

    def __init__(self, config: BufferDebloatConfig, segment_bytes: int) -> None:
        self.buffer_bytes = segment_bytes
        self._config = config
        self._segment_bytes = segment_bytes
        self._average_bytes = float(segment_bytes)
        self._estimated_ms = 0.0

    def recalculate(self, throughput: float, buffers_in_use: int) -> int | None:
        """Follow a throughput (bytes/s) with this number of buffers on their way.

        Returns the size to announce, or None if the current one is close enough.
        """
        buffers = max(1, buffers_in_use)
        instant = throughput * self._config.target_ms / 1000 / buffers
        average = self._average_bytes
        weight = 2 / (self._config.samples + 1)
        # A single value counts for at most twice the average, so the size grows no faster than it
        # shrinks. The average keeps its fraction, as in Flink since FLINK-36555. Flink's average
        # was an integer before: it lost a fraction with every value, and could not grow by less
        # than a byte.
        average += weight * (min(instant, 2 * average) - average)
        average = max(self._config.segment_bytes_min, min(average, self._segment_bytes))
        self._average_bytes = average
        size = int(average + 0.5)
        self._estimated_ms = size * buffers * 1000 / max(1.0, throughput)
        if not self._is_significant(size):
            return None
        self.buffer_bytes = size
        return size

    def _is_significant(self, size: int) -> bool:
        # A bound is announced after any change, and other sizes only after a large enough one.
        if size in (self._config.segment_bytes_min, self._segment_bytes):
            return size != self.buffer_bytes
        least = int(self.buffer_bytes * self._config.threshold_percent / 100)
        return abs(size - self.buffer_bytes) >= max(1, least)

    def statistics(self) -> BufferDebloaterStatistics:
        """Return the last announced size, and the time to consume the data on its way."""
        return BufferDebloaterStatistics(self.buffer_bytes, self._estimated_ms)

    def check_invariants(self) -> None:
        """Raise AssertionError if a size is out of bounds."""
        low, high = self._config.segment_bytes_min, self._segment_bytes
        assert low <= self._average_bytes <= high, "the average size is out of bounds"
        assert low <= self.buffer_bytes <= high, "the announced size is out of bounds"
