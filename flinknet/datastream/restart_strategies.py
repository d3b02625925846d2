"""Restart strategies in PyFlink's names: what ``set_restart_strategy`` takes."""

from __future__ import annotations

from flinknet.config.restart_strategy import (
    ATTEMPTS_UNLIMITED,
    NO_RESTART,
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    RestartStrategy,
)

__all__ = ["RestartStrategies"]


class RestartStrategies:
    """Makes restart strategies; all times are in milliseconds."""

    @staticmethod
    def no_restart() -> RestartStrategy:
        """The job fails with its first failure."""
        return NO_RESTART

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: float
    ) -> RestartStrategy:
        """So many restarts, each after the same delay."""
        return FixedDelayRestart(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: float, delay_interval: float
    ) -> RestartStrategy:
        """Restarts after a delay, as long as no more than ``failure_rate`` failures come in an
        interval."""
        return FailureRateRestart(failure_rate, failure_interval, delay_interval)

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: float,
        max_backoff: float,
        backoff_multiplier: float,
        reset_backoff_threshold: float,
        attempts_before_reset: int = ATTEMPTS_UNLIMITED,
    ) -> RestartStrategy:
        """Restarts after delays that grow; a job that has run for the threshold has its failures
        behind it."""
        return ExponentialDelayRestart(
            initial_backoff,
            max_backoff,
            backoff_multiplier,
            reset_backoff_threshold,
            attempts_before_reset,
        )
