"""This process's own presence, which decides what it may hold against others.

Theory of operation
-------------------
Whoever counts the silence of others must not count the time in which it did not listen itself: a
suspended machine, a debugger, a function that blocks the event loop. Such a process comes to its
next ``tick`` late, by more than two intervals after the last one; the whole gap is then credited to
the others. Coordinator and workers watch each other in this way.
"""

from __future__ import annotations

__all__ = ["Presence"]


class Presence:
    """When this process was last seen to run. No clock: ``now`` comes in."""

    def __init__(self, *, now: float, interval_s: float) -> None:
        self._interval = interval_s
        self._ticked_at = now

    @property
    def next_tick(self) -> float:
        """When ``tick`` must be called, in the caller's clock."""
        return self._ticked_at + self._interval

    def tick(self, now: float) -> float:
        """Return for how long this process was away since the last tick; 0 if it was not."""
        gap = now - self._ticked_at
        self._ticked_at = now
        return gap if gap > 2 * self._interval else 0.0
