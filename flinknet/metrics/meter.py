"""How fast counters grow: their rates over the last minute.

Theory of operation (Flink's MeterView). Somebody calls ``update`` with the present counts at least
every ``INTERVAL_S``; one more often changes nothing. A rate is the growth between the oldest count
that is kept and the newest one, over the time between them, at most ``INTERVALS`` intervals. So a
task that has run for ten seconds is rated by these ten, where Flink would divide by sixty; and a
rate is as old as the last update, up to an interval.

Counters never fall; all that a meter rates together are updated together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from flinknet.metrics.task_times import INTERVAL_S, INTERVALS

__all__ = ["Meter"]


class Meter:
    """Rates the counters of one task. ``now`` is given, in seconds, and never goes back."""

    __slots__ = ("_readings",)

    def __init__(self, now: float, counts: Sequence[float]) -> None:
        self._readings: deque[tuple[float, Sequence[float]]] = deque(maxlen=INTERVALS + 1)
        self._readings.append((now, counts))

    @property
    def counters(self) -> int:
        """How many it rates."""
        return len(self._readings[0][1])

    def update(self, now: float, counts: Sequence[float]) -> None:
        """Take the present counts, if an interval has passed since the last ones."""
        if now - self._readings[-1][0] >= INTERVAL_S:
            self._readings.append((now, counts))

    def per_second(self) -> tuple[float, ...]:
        """The rate of each counter; zeros until the first update."""
        (begun, before), (updated, latest) = self._readings[0], self._readings[-1]
        if updated == begun:
            return (0.0,) * len(before)
        return tuple(
            (new - old) / (updated - begun) for old, new in zip(before, latest, strict=True)
        )
