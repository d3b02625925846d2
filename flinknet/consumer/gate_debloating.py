"""A gate's debloating: telling its producers up to which size to fill their buffers.

The reader's shell says when it waits for input, and a timer calls ``recalculate``. The throughput
(``throughput_calculator.py``) comes from the time in which the reader worked and from what the
channels delivered; the size (``buffer_debloater.py``) from the throughput. Every channel that goes
on announces it.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.config import BufferDebloatConfig
from flinknet.consumer.buffer_debloater import BufferDebloater, BufferDebloaterStatistics
from flinknet.consumer.input_channel import InputChannel
from flinknet.consumer.throughput_calculator import ThroughputCalculator

__all__ = ["GateDebloating"]


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
