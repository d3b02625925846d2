"""Restart strategies for ``set_restart_strategy``, with PyFlink's names."""

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
    """Constructors of restart strategies; all times are in milliseconds."""

    @staticmethod
    def no_restart() -> RestartStrategy:
        """Return a strategy that lets the job fail at its first failure."""
        return NO_RESTART

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: float
    ) -> RestartStrategy:
        """Return a strategy with a limited number of restarts, each after the same delay."""
        return FixedDelayRestart(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: float, delay_interval: float
    ) -> RestartStrategy:
        """Return a strategy that restarts the job while failures are rare enough.

        The job fails after more than ``failure_rate`` failures within ``failure_interval``. Each
        restart comes after ``delay_interval``.
        """
        return FailureRateRestart(failure_rate, failure_interval, delay_interval)

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: float,
        max_backoff: float,
        backoff_multiplier: float,
        reset_backoff_threshold: float,
        attempts_before_reset: int = ATTEMPTS_UNLIMITED,
    ) -> RestartStrategy:
        """Return a strategy with growing delays between restarts.

        After the job has run for ``reset_backoff_threshold``, the delay and the number of attempts
        start again.
        """
        return ExponentialDelayRestart(
            initial_backoff,
            max_backoff,
            backoff_multiplier,
            reset_backoff_threshold,
            attempts_before_reset,
        )
