"""By how much the clock of this machine is ahead of another's, measured by round trips.

Theory of operation. A message goes to the other process and comes back with the time of day that it
had there. Wherever on its way it was delayed, the other clock was read within the round trip. So
the offset is what the two clocks differ by in the middle of it, and half of the round trip bounds
the error; the delay may be all on one way. Of the last samples the one with the smallest round trip
is best (NTP's clock filter). Two samples whose bounds do not meet cannot both be true: then a clock
was set, or has drifted by more than it can be measured, and only the later one counts.

An offset within its bound may be 0, and is taken for that. So clocks that agree, above all those of
one machine, correct nothing.

No I/O and no clock: the times come in.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

__all__ = ["ClockOffset"]

SAMPLES = 16
"""Of which the best counts: at a heartbeat a second, in that time the quartz clocks of two machines
drift apart by less than a millisecond."""


@dataclass(frozen=True, slots=True)
class _Sample:
    offset_s: float
    error_s: float


class ClockOffset:
    """What is known of one other clock."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)

    @property
    def offset_s(self) -> float:
        """The best estimate: above 0 if this machine's clock is ahead; 0 if nothing is known."""
        return self._best.offset_s if self._samples else 0.0

    @property
    def error_s(self) -> float | None:
        """By how much that may be wrong; None if nothing is known."""
        return self._best.error_s if self._samples else None

    @property
    def correction_s(self) -> float:
        """The offset, or 0 if that would do as well."""
        is_certain = self._samples and abs(self.offset_s) > self._best.error_s
        return self.offset_s if is_certain else 0.0

    def take(self, *, sent_s: float, received_s: float, wall_s: float, other_wall_s: float) -> None:
        """A message has come back.

        ``sent_s`` and ``received_s`` are of a clock that is never set, ``wall_s`` is the time of
        day here when it came, and ``other_wall_s`` what the other clock has shown.
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
