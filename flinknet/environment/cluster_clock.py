"""The coordinator's clock, by which the times of different hosts are compared.

Theory of operation. The clocks of two hosts may differ by more than the transfer time of a record.
Times that are sent to another host, or compared with the times of another host, are therefore
measured by the coordinator's clock. At each heartbeat the worker measures how far its own clock is
ahead (``cluster/control/clock_offset.py``), and sets the offset here. The offset is 0 on one
machine, and in a program without a coordinator.
"""

from __future__ import annotations

from flinknet.environment.processing_time import wall_clock_ms

__all__ = ["CLUSTER_CLOCK", "ClusterClock"]


class ClusterClock:
    """The coordinator's clock; threads may share it, because each call reads one number."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        """Milliseconds by which this machine's clock is ahead."""

    def now_ms(self) -> int:
        """Return the clock's time, in milliseconds since 1970."""
        return wall_clock_ms() - self.ahead_ms

    def shows_at(self, own_ms: int) -> int:
        """Return the clock's time when this machine's clock shows ``own_ms``."""
        return own_ms - self.ahead_ms


CLUSTER_CLOCK = ClusterClock()
"""The clock of all subtasks of this process."""
