"""The pace at which state is written while records are processed on the same event loop.

Theory of operation. Who writes works for a *stint*, and then lets the loop turn. The longer the
loop was away, the busier it is with records: the next stint is a share of that time. So a
checkpoint takes at most about that share of a worker that has no time to spare, and all the time
that one has which is idle. A stint ends behind the step that it is over in; how long a step may
take is the matter of what is written.
"""

from __future__ import annotations

__all__ = ["WritePace"]

SHARE = 0.1
"""Of the time that others took. Half of it, and a million keys take twice the time; twice as much,
and a job loses a fifth of its throughput while it writes them."""

STINT_S_MAX = 0.005
"""So that records that come after a pause wait no longer: a step is as long once more at most."""


class WritePace:
    """When a writer is to let the loop turn. ``now`` is in seconds, and never goes back."""

    def __init__(self, now: float) -> None:
        """A stint begins, as short as one can be."""
        self._ends_at = now
        self._left_at = now

    def is_over(self, now: float) -> bool:
        """Whether the loop must turn before the next step."""
        self._left_at = now
        return now >= self._ends_at

    def resume(self, now: float) -> None:
        """The loop has turned: the next stint begins."""
        away_s = now - self._left_at
        self._ends_at = now + min(SHARE * away_s, STINT_S_MAX)
