"""The time of day for times of the event loop's clock, and jumps of the machine's clock.

Theory of operation. Deadlines, durations and the order of events are times of the event loop's
clock, which is never set. For people and files they are converted to a time of day, by the
difference between the machine's clock and the loop's clock. The difference changes when the
machine's clock is set, and when the machine sleeps. ``follow`` is called at each heartbeat. It
takes the present difference, and returns a large change, a *jump*, once. Times before and after a
jump thus keep their order and their distances.

No I/O and no clock: times are arguments.
"""

from __future__ import annotations

__all__ = ["WallClock", "describe_jump"]

JUMP_S_MIN = 1.0
"""Smaller changes, in seconds, are corrections by a time server and no jumps."""


class WallClock:
    """The clock of the machine, relative to the event loop's."""

    def __init__(self, epoch_s: float = 0.0) -> None:
        """``epoch_s`` is the time of the machine's clock at time 0 of the loop's clock."""
        self.epoch_s = epoch_s

    def follow(self, now: float, wall_s: float) -> float:
        """Take the present times of both clocks, and return the jump since the last call.

        The jump is in seconds: below 0 if the machine's clock was set back, 0 if there was none.
        """
        before, self.epoch_s = self.epoch_s, wall_s - now
        change = self.epoch_s - before
        return change if abs(change) >= JUMP_S_MIN else 0.0

    def seconds(self, at: float) -> float:
        """Convert a time of the loop's clock to seconds since 1970."""
        return self.epoch_s + at

    def ms(self, at: float) -> int:
        """Convert a time of the loop's clock to milliseconds since 1970."""
        return round(self.seconds(at) * 1000)


def describe_jump(jump_s: float) -> str:
    """Return the log line for a jump."""
    if jump_s < 0:
        return f"the clock of this machine was set back by {-jump_s:.1f} s"
    return f"the clock of this machine was set forward by {jump_s:.1f} s, or the machine has slept"
