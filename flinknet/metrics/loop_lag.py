"""Lag of an event loop's timers, which shows that it is blocked or busy.

A task sleeps repeatedly and reports by how much each sleep exceeded its duration. The reported
value is the longest lag of the present interval and the previous one. A lag that is shorter than
the pause between two scrapes is thus not missed, and is forgotten after five to ten seconds.
"""

from __future__ import annotations

from flinknet.metrics.task_times import INTERVAL_S

__all__ = ["LoopLag"]


class LoopLag:
    """The longest recent lag; ``now`` is a monotonic time in seconds."""

    def __init__(self, now: float) -> None:
        self._interval_start = now
        self._longest = 0.0
        self._longest_before = 0.0

    def note(self, lag_s: float, now: float) -> None:
        """Record that a timer was late by ``lag_s``."""
        self._turn_over(now)
        self._longest = max(self._longest, lag_s)

    def longest_ms(self, now: float) -> float:
        """Return the longest lag of the last five to ten seconds."""
        self._turn_over(now)
        return 1000 * max(self._longest, self._longest_before)

    def _turn_over(self, now: float) -> None:
        passed = now - self._interval_start
        if passed < INTERVAL_S:
            return
        self._longest_before = self._longest if passed < 2 * INTERVAL_S else 0.0
        self._longest = 0.0
        self._interval_start += passed // INTERVAL_S * INTERVAL_S
