"""Pauses between attempts to reach a process that is absent or not there yet.

Each pause may be twice as long as the previous one, up to a limit. Each is shortened by up to half
at random, so that processes that lost the same peer do not retry in step.
"""

from __future__ import annotations

from flinknet import machine

__all__ = ["CONTROL_PAUSE_S", "Backoff"]

CONTROL_PAUSE_S = (0.05, 1.0)
"""First and longest pause in seconds between attempts to reach a coordinator. It comes back within
seconds, and answers a hundred attempts per second without effort."""


class Backoff:
    """Pauses of one series of attempts, in seconds."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._pause_s = first_s
        self._longest_s = longest_s

    def next_pause(self) -> float:
        """Return the time to wait before the next attempt."""
        pause_s = self._pause_s * machine.uniform(0.5, 1.0)
        self._pause_s = min(2 * self._pause_s, self._longest_s)
        return pause_s
