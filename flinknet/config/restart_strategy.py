"""Restart strategies: whether and how soon a failed job is restarted."""

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
    """No restart: the job fails at its first failure; the default without checkpoints."""


@dataclass(frozen=True, slots=True)
class FixedDelayRestart:
    """A limited number of restarts, with a fixed delay. Flink: restart-strategy.fixed-delay."""

    attempts: int = 1
    """Maximum number of restarts before the job fails."""

    delay_ms: float = 1_000.0
    """Delay before each restart."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least(self, 0, "attempts", "delay_ms")


@dataclass(frozen=True, slots=True)
class FailureRateRestart:
    """Restarts while failures are rare enough. Flink: restart-strategy.failure-rate."""

    failures_max: int = 1
    """Maximum number of failures in one interval that lead to a restart."""

    interval_ms: float = 60_000.0
    """Interval in which failures are counted."""

    delay_ms: float = 1_000.0
    """Delay before each restart."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least(self, 1, "failures_max")
        require_positive(self, "interval_ms")
        require_at_least(self, 0, "delay_ms")


@dataclass(frozen=True, slots=True)
class ExponentialDelayRestart:
    """Restarts with growing delays; the default with checkpoints.

    The delay starts again after a job has run well for some time. Flink:
    restart-strategy.exponential-delay.
    """

    initial_delay_ms: float = 1_000.0
    """Delay before the first restart."""

    max_delay_ms: float = 60_000.0
    """Maximum delay."""

    multiplier: float = 1.5
    """Factor between a delay and the next."""

    reset_after_ms: float = 3_600_000.0
    """Running time after which the next failure counts as the first."""

    attempts: int = ATTEMPTS_UNLIMITED
    """Maximum number of restarts before the job fails; counted anew after each reset."""

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
