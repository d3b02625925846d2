"""The offset of this machine's clock from another clock, measured by round trips.

Theory of operation. A message goes to the other process and returns with that process's time of
day. Wherever the message was delayed, the other clock was read within the round trip. The offset is
the difference of the two clocks in the middle of the round trip. Its error is at most half of the
round trip, since all of the delay may be on one way. Of the last samples, the one with the smallest
round trip is the best (NTP's clock filter). If the ranges of two samples do not overlap, a clock
was set or has drifted beyond the error, and only the later sample counts.

An offset within its error bound counts as 0. Clocks that agree, such as those of one machine, thus
cause no correction.

No I/O and no clock: times are arguments.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

__all__ = ["ClockOffset"]

SAMPLES = 16
"""Number of samples from which the best is taken. With a heartbeat per second, the quartz clocks of
two machines drift apart by less than a millisecond in that time."""


@dataclass(frozen=True, slots=True)
class _Sample:
    offset_s: float
    error_s: float


class ClockOffset:
    """Samples of one other clock."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)

    @property
    def offset_s(self) -> float:
        """The best estimate in seconds; positive if this machine's clock is ahead, 0 if unknown."""
        return self._best.offset_s if self._samples else 0.0

    @property
    def error_s(self) -> float | None:
        """Error bound of the estimate in seconds; None if unknown."""
        return self._best.error_s if self._samples else None

    @property
    def correction_s(self) -> float:
        """The offset, or 0 if it is within its error bound."""
        is_certain = self._samples and abs(self.offset_s) > self._best.error_s
        return self.offset_s if is_certain else 0.0

    def take(self, *, sent_s: float, received_s: float, wall_s: float, other_wall_s: float) -> None:
        """Take the times of one round trip.

        ``sent_s`` and ``received_s`` are of a clock that is never set. ``wall_s`` is the local time
        of day at the arrival of the answer, and ``other_wall_s`` the time that the other clock has
        shown.
        """
        half_s = max(0.0, received_s - sent_s) / 2
        sample = _Sample(wall_s - half_s - other_wall_s, half_s)
        if self._samples and not _agree(sample, self._best):
            self._samples.clear()
        self._samples.append(sample)

    @property
    def _best(self) -> _Sample:
        return min(self._samples, key=lambda sample: sample.error_s)


def _agree(one: _Sample, other: _Sample) -> bool:
    return abs(one.offset_s - other.offset_s) <= one.error_s + other.error_s
