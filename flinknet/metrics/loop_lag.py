"""How late an event loop comes to its timers: what blocks it, or how busy it is.

Theory of operation. Somebody sleeps for a while, again and again, and says by how much each sleep
was longer than it should have been. The longest of the present interval and of the one before is
what is seen: a lag shorter than the pause between two scrapes is not missed, and is forgotten after
five to ten seconds.
"""

from __future__ import annotations

from flinknet.metrics.task_times import INTERVAL_S

__all__ = ["LoopLag"]


class LoopLag:
    """The longest lag of late. ``now`` is given, in seconds, and never goes back."""

    def __init__(self, now: float) -> None:
        self._interval_start = now
        self._longest = 0.0
        self._longest_before = 0.0

    def note(self, lag_s: float, now: float) -> None:
        """A timer was late by so much."""
        self._turn_over(now)
        self._longest = max(self._longest, lag_s)

    def longest_ms(self, now: float) -> float:
        """The longest lag of the last five to ten seconds."""
        self._turn_over(now)
        return 1000 * max(self._longest, self._longest_before)

    def _turn_over(self, now: float) -> None:
        passed = now - self._interval_start
        if passed < INTERVAL_S:
            return
        self._longest_before = self._longest if passed < 2 * INTERVAL_S else 0.0
        self._longest = 0.0
        self._interval_start += passed // INTERVAL_S * INTERVAL_S
