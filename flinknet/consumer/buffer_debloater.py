"""The buffer debloater: up to which size producers shall fill their buffers for one gate.

Theory of operation (Flink's BufferDebloater and BufferSizeEMA; FLIP-183). What is on its way to a
gate delays everything behind it, most of all a checkpoint barrier. So that it takes no longer than
``target_ms`` to consume, the bytes in all buffers on their way should be throughput x target, and
one buffer should hold that divided by the buffers in use. The size follows this with an exponential
moving average of weight 2 / (samples + 1); a single value counts for at most twice the present
average, so that the size grows no faster than it shrinks. It stays between ``segment_bytes_min``
and the segment size, where it begins.

Producers are told only of a change of at least ``threshold_percent``, or when a bound is reached.
Nothing frees memory: buffers are filled less.
"""

from __future__ import annotations

from typing import NamedTuple

from flinknet.config import BufferDebloatConfig

__all__ = ["BufferDebloater", "BufferDebloaterStatistics"]


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
        size = int(average)
        self._estimated_ms = size * buffers * 1000 / max(1.0, throughput)
        if not self._worth_telling(size):
            return None
        self.buffer_bytes = size
        return size

    def _worth_telling(self, size: int) -> bool:
        if size in (self._config.segment_bytes_min, self._segment_bytes):
            return size != self.buffer_bytes
        change = abs(size - self.buffer_bytes)
        return change > 0 and change * 100 >= self.buffer_bytes * self._config.threshold_percent

    def statistics(self) -> BufferDebloaterStatistics:
        """Say what size was last announced, and how long what is on its way will take."""
        return BufferDebloaterStatistics(self.buffer_bytes, self._estimated_ms)

    def check_invariants(self) -> None:
        """Raise AssertionError if a size is out of bounds."""
        low, high = self._config.segment_bytes_min, self._segment_bytes
        assert low <= self._average_bytes <= high, "the average size is out of bounds"
        assert low <= self.buffer_bytes <= high, "the announced size is out of bounds"
