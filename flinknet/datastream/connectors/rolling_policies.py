"""When a subtask ends a file and begins the next one, beside the ends that checkpoints bring."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from flinknet.errors import ConfigurationError

__all__ = ["DefaultRollingPolicy", "OnCheckpointRollingPolicy", "RollingPolicy"]


class RollingPolicy(ABC):
    """Says so before a batch is written (PyFlink's RollingPolicy)."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> RollingPolicy:
        """Return the one that ends a file of so many bytes, so many milliseconds after it was
        begun, or after it was last written to."""
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """Return the one that ends files with checkpoints only."""
        return OnCheckpointRollingPolicy()

    @abstractmethod
    def should_roll(self, size_bytes: int, age_ms: float, idle_ms: float) -> bool:
        """Whether a file that has this size, was begun so long ago, and was last written to so long
        ago, is to be ended."""


@dataclass(frozen=True, slots=True)
class DefaultRollingPolicy(RollingPolicy):
    """By size, by age and by inactivity.

    A file is seen with its checkpoint, or at the end of the job, whenever it was ended: so it is
    enough to ask before something is written.
    """

    part_size_bytes: int
    rollover_interval_ms: int
    inactivity_interval_ms: int

    def __post_init__(self) -> None:
        if min(self.part_size_bytes, self.rollover_interval_ms, self.inactivity_interval_ms) < 1:
            raise ConfigurationError(f"a file would have no time or no room: {self}")

    def should_roll(self, size_bytes: int, age_ms: float, idle_ms: float) -> bool:
        """As ``RollingPolicy.should_roll``."""
        return (
            size_bytes >= self.part_size_bytes
            or age_ms >= self.rollover_interval_ms
            or idle_ms >= self.inactivity_interval_ms
        )


@dataclass(frozen=True, slots=True)
class OnCheckpointRollingPolicy(RollingPolicy):
    """Never but with a checkpoint, or at the end of the job."""

    def should_roll(self, size_bytes: int, age_ms: float, idle_ms: float) -> bool:
        """As ``RollingPolicy.should_roll``."""
        return False
