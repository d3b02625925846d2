"""The time of day for the times of a clock that nobody sets, and when somebody has set the other.

Theory of operation. Deadlines, durations and the order of events are times of the event loop's
clock, which nobody sets. What people and files are told is a time of day: the same time, and how
far the clock of the machine is ahead of the loop's. That distance changes when the clock of the
machine is set, and when the machine sleeps. ``follow`` is called at each heartbeat; it takes the
distance as it is now, and returns a change that is a *jump* once. So times of before and after a
jump keep their order, and their distances.

No I/O and no clock: the times come in.
"""

from __future__ import annotations

__all__ = ["WallClock", "describe_jump"]

JUMP_S_MIN = 1.0
"""Smaller changes are corrections, as a time server makes them, and are not told."""


class WallClock:
    """The clock of the machine, seen from the event loop's."""

    def __init__(self, epoch_s: float = 0.0) -> None:
        """``epoch_s`` is what the clock of the machine shows when the loop's shows 0."""
        self.epoch_s = epoch_s

    def follow(self, now: float, wall_s: float) -> float:
        """The clocks show these times now. Return by how many seconds that of the machine has
        jumped since the last call, below 0 if it was set back; 0 if it has not."""
        before, self.epoch_s = self.epoch_s, wall_s - now
        change = self.epoch_s - before
        return change if abs(change) >= JUMP_S_MIN else 0.0

    def seconds(self, at: float) -> float:
        """Return a time of the loop's clock in seconds since 1970."""
        return self.epoch_s + at

    def ms(self, at: float) -> int:
        """Return a time of the loop's clock in milliseconds since 1970."""
        return round(self.seconds(at) * 1000)


def describe_jump(jump_s: float) -> str:
    """Return what to say in the log of a jump."""
    if jump_s < 0:
        return f"the clock of this machine was set back by {-jump_s:.1f} s"
    return f"the clock of this machine was set forward by {jump_s:.1f} s, or the machine has slept"
