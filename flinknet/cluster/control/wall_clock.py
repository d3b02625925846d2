"""The time of day for times of the event loop's clock, and the jumps of the machine's clock.

Theory of operation. Deadlines, durations and the order of events are times of the event loop's
clock, which is never set. People and files get a time of day: the same time plus the distance by
which the clock of the machine is ahead of the loop's. That distance changes when the clock of the
machine is set, and when the machine sleeps. ``follow`` is called at each heartbeat. It takes the
distance as it is now, and returns a large change, a *jump*, once. So times before and after a jump
keep their order and their distances.

No I/O and no clock: the times come in.
"""

from __future__ import annotations

__all__ = ["WallClock", "describe_jump"]

JUMP_S_MIN = 1.0
"""Smaller changes are corrections, as a time server makes them, and no jumps."""


class WallClock:
    """The clock of the machine, seen from the event loop's."""

    def __init__(self, epoch_s: float = 0.0) -> None:
        """``epoch_s`` is what the clock of the machine shows when the loop's shows 0."""
        self.epoch_s = epoch_s

    def follow(self, now: float, wall_s: float) -> float:
        """Take the times that the two clocks show now, and return the jump since the last call.

        It is in seconds, below 0 if the clock of the machine was set back, 0 if there was none.
        """
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
    """Return the line for the log about a jump."""
    if jump_s < 0:
        return f"the clock of this machine was set back by {-jump_s:.1f} s"
    return f"the clock of this machine was set forward by {jump_s:.1f} s, or the machine has slept"
