"""The time of day as the coordinator's clock has it: what times of different hosts compare in.

Theory of operation. The clocks of two hosts may differ by more than a record takes from one to the
other. So a time that another host will compare with its own, or that comes from another host, is
one of the coordinator's clock. The worker measures at each heartbeat by how much its own clock is
ahead of that one (``cluster/control/clock_offset.py``), and sets that here. On one machine, and in
a program without a coordinator, it is 0.
"""

from __future__ import annotations

from flinknet.environment.processing_time import wall_clock_ms

__all__ = ["CLUSTER_CLOCK", "ClusterClock"]


class ClusterClock:
    """The coordinator's clock. Threads share it: each call reads one number."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        """By how much the clock of this machine is ahead of it."""

    def now_ms(self) -> int:
        """Return the time that it shows, in milliseconds since 1970."""
        return wall_clock_ms() - self.ahead_ms

    def shows_at(self, own_ms: int) -> int:
        """Return the time that it shows when the clock of this machine shows ``own_ms``."""
        return own_ms - self.ahead_ms


CLUSTER_CLOCK = ClusterClock()
"""For all subtasks of this process."""
