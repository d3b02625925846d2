"""Restart strategies: whether, and how soon, a job that failed is run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from flinknet.config.checks import check_fields, require, require_at_least, require_positive

__all__ = [
    "ATTEMPTS_UNLIMITED",
    "NO_RESTART",
    "ExponentialDelayRestart",
    "FailureRateRestart",
    "FixedDelayRestart",
    "NoRestart",
    "RestartStrategy",
]

ATTEMPTS_UNLIMITED = 2**31 - 1
"""Flink's Integer.MAX_VALUE."""


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The job fails with its first failure: the default of jobs without checkpoints."""


@dataclass(frozen=True, slots=True)
class FixedDelayRestart:
    """So many restarts, each after the same delay. Flink: restart-strategy.fixed-delay."""

    attempts: int = 1
    """Restarts before a failure is the job's."""

    delay_ms: float = 1_000.0
    """Pause before each."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least(self, 0, "attempts", "delay_ms")


@dataclass(frozen=True, slots=True)
class FailureRateRestart:
    """Restarts as long as failures are rare enough. Flink: restart-strategy.failure-rate."""

    failures_max: int = 1
    """Failures in one interval that are still followed by a restart."""

    interval_ms: float = 60_000.0
    """Over which failures are counted."""

    delay_ms: float = 1_000.0
    """Pause before each restart."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least(self, 1, "failures_max")
        require_positive(self, "interval_ms")
        require_at_least(self, 0, "delay_ms")


@dataclass(frozen=True, slots=True)
class ExponentialDelayRestart:
    """Restarts with growing delays, which a job that runs well for some time has behind it: the
    default of jobs with checkpoints. Flink: restart-strategy.exponential-delay."""

    initial_delay_ms: float = 1_000.0
    """Pause before the first restart."""

    max_delay_ms: float = 60_000.0
    """Longest pause."""

    multiplier: float = 1.5
    """By which each pause is longer than the one before."""

    reset_after_ms: float = 3_600_000.0
    """How long the job must have run for its next failure to count as its first."""

    attempts: int = ATTEMPTS_UNLIMITED
    """Restarts before a failure is the job's, counted anew after each such time."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_positive(self, "initial_delay_ms", "max_delay_ms", "reset_after_ms")
        require_at_least(self, 0, "attempts")
        require(
            self.multiplier >= 1,
            f"multiplier is {self.multiplier}: choose 1 or more, so that delays do not shrink",
        )
        require(
            self.initial_delay_ms <= self.max_delay_ms,
            f"initial_delay_ms is {self.initial_delay_ms}: choose at most max_delay_ms "
            f"({self.max_delay_ms})",
        )


RestartStrategy: TypeAlias = (
    NoRestart | FixedDelayRestart | FailureRateRestart | ExponentialDelayRestart
)

NO_RESTART = NoRestart()
