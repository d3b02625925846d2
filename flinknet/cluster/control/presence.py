"""Detects that this process itself was stalled, so that it does not blame others.

Theory of operation
-------------------
A process that measures the silence of others must not count the time in which it did not listen
itself: because of a suspended machine, a debugger, or a function that blocked its event loop. Such
a process makes its next ``tick`` late, more than two intervals after the last one. The whole gap is
then credited to the others. Coordinator and workers watch each other in this way.
"""

from __future__ import annotations

__all__ = ["Presence"]


class Presence:
    """The time at which this process last ran. No clock: ``now`` is an argument."""

    def __init__(self, *, now: float, interval_s: float) -> None:
        self._interval = interval_s
        self._ticked_at = now

    @property
    def next_tick(self) -> float:
        """Time at which ``tick`` must be called, in the caller's clock."""
        return self._ticked_at + self._interval

    def tick(self, now: float) -> float:
        """Return the seconds for which this process was stalled since the last tick, or 0."""
        gap = now - self._ticked_at
        self._ticked_at = now
        return gap if gap > 2 * self._interval else 0.0
