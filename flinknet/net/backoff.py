"""Pauses between tries to reach a process that is not there, or not yet.

Theory of operation. Each pause may be twice as long as the one before, up to a bound. Each is cut
by up to half at random, so that many processes that lost the same peer do not come back in step.
"""

from __future__ import annotations

from flinknet import machine

__all__ = ["CONTROL_PAUSE_S", "Backoff"]

CONTROL_PAUSE_S = (0.05, 1.0)
"""The first and the longest pause of those who look for a coordinator: it comes back within
seconds, and answers a hundred of them per second without effort."""


class Backoff:
    """The pauses of one series of tries, in seconds."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._pause_s = first_s
        self._longest_s = longest_s

    def next_pause(self) -> float:
        """Return how long to wait before the next try."""
        pause_s = self._pause_s * machine.uniform(0.5, 1.0)
        self._pause_s = min(2 * self._pause_s, self._longest_s)
        return pause_s
