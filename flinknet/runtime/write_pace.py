"""The pace at which state is written while the same event loop processes records.

Theory of operation. The writer works for a *stint* and then lets the loop run. The longer the loop
was away, the busier it is with records, and the next stint is a share of that time. So a checkpoint
takes at most about that share of a busy worker, and all the time of an idle one. A stint ends with
the step in which its time runs out; the caller limits the duration of a step.
"""

from __future__ import annotations

__all__ = ["WritePace"]

SHARE = 0.1
"""Share of the time that the loop spent on other work. With half this share, writing a million keys
takes twice as long; with twice this share, a job loses a fifth of its throughput meanwhile."""

STINT_S_MAX = 0.005
"""Upper limit of a stint in seconds, for the latency of records after a pause. The last step may
double it."""


class WritePace:
    """Decides when a writer must let the loop run. ``now`` is in seconds and never decreases."""

    def __init__(self, now: float) -> None:
        """Begin with a stint of the minimum length, one step."""
        self._ends_at = now
        self._left_at = now

    def is_over(self, now: float) -> bool:
        """Return whether the loop must run before the next step."""
        self._left_at = now
        return now >= self._ends_at

    def resume(self, now: float) -> None:
        """Begin the next stint, after the loop has run."""
        away_s = now - self._left_at
        self._ends_at = now + min(SHARE * away_s, STINT_S_MAX)
