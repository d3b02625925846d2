"""Rolling policies: when a subtask starts a new file, apart from checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from flinknet.errors import ConfigurationError

__all__ = ["DefaultRollingPolicy", "OnCheckpointRollingPolicy", "RollingPolicy"]


class RollingPolicy(ABC):
    """Decides before each batch whether to start a new file (PyFlink's RollingPolicy)."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> RollingPolicy:
        """Return a policy that ends a file by its size, age or idle time.

        ``part_size`` is in bytes; the two intervals are in milliseconds.
        """
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """Return a policy that ends files only with checkpoints."""
        return OnCheckpointRollingPolicy()

    @abstractmethod
    def should_roll(self, size_bytes: int, age_ms: float, idle_ms: float) -> bool:
        """Return whether to end a file with this size and age.

        ``idle_ms`` is the time since the last write to it.
        """


@dataclass(frozen=True, slots=True)
class DefaultRollingPolicy(RollingPolicy):
    """Ends files by size, age and idle time.

    The time when a file ends does not affect its visibility, which comes with its checkpoint or at
    the end of the job. It is therefore enough to check before each write.
    """

    part_size_bytes: int
    rollover_interval_ms: int
    inactivity_interval_ms: int

    def __post_init__(self) -> None:
        if min(self.part_size_bytes, self.rollover_interval_ms, self.inactivity_interval_ms) < 1:
            raise ConfigurationError(f"a file would have no time or no space: {self}")

    def should_roll(self, size_bytes: int, age_ms: float, idle_ms: float) -> bool:
        """See ``RollingPolicy.should_roll``."""
        return (
            size_bytes >= self.part_size_bytes
            or age_ms >= self.rollover_interval_ms
            or idle_ms >= self.inactivity_interval_ms
        )


@dataclass(frozen=True, slots=True)
class OnCheckpointRollingPolicy(RollingPolicy):
    """Ends files only with checkpoints, or at the end of the job."""

    def should_roll(self, size_bytes: int, age_ms: float, idle_ms: float) -> bool:
        """See ``RollingPolicy.should_roll``."""
        return False
