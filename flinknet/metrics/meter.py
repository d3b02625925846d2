"""Rates of counters over the last minute (Flink's MeterView).

A caller passes the present counts to ``update`` at least every ``INTERVAL_S``; more frequent calls
have no effect. A rate is the increase between the oldest kept count and the newest one, divided by
the time between them, which is at most ``INTERVALS`` intervals. A task that has run for ten seconds
is thus rated over these ten seconds, whereas Flink would divide by sixty. A rate may be outdated by
up to one interval.

Counters never decrease. All counters of a meter are updated together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from flinknet.metrics.task_times import INTERVAL_S, INTERVALS

__all__ = ["Meter"]


class Meter:
    """Rates the counters of one task; ``now`` is a monotonic time in seconds."""

    __slots__ = ("_readings",)

    def __init__(self, now: float, counts: Sequence[float]) -> None:
        # One more than the intervals between them.
        self._readings: deque[tuple[float, Sequence[float]]] = deque(maxlen=INTERVALS + 1)
        self._readings.append((now, counts))

    @property
    def counters(self) -> int:
        """Number of counters."""
        return len(self._readings[0][1])

    def update(self, now: float, counts: Sequence[float]) -> None:
        """Record the present counts, if an interval has passed since the last record."""
        if now - self._readings[-1][0] >= INTERVAL_S:
            self._readings.append((now, counts))

    def per_second(self) -> tuple[float, ...]:
        """Return the rate of each counter; zeros until the first update."""
        (begun, before), (updated, latest) = self._readings[0], self._readings[-1]
        if updated == begun:
            return (0.0,) * len(before)
        return tuple(
            (new - old) / (updated - begun) for old, new in zip(before, latest, strict=True)
        )
