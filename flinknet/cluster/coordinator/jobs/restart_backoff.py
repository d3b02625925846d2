"""Restart strategies: whether and when a failed job is restarted, without a clock.

Theory of operation. ``failed`` is called once per failed attempt, and returns the start time of the
next one, or None if the job fails. The memory of earlier failures is bounded: their number, or the
times of as many as the rate allows in one interval. Flink: RestartBackoffTimeStrategy. Flink's
exponential delays have random jitter, which a single job on a machine does not need.
"""

from __future__ import annotations

from collections import deque

from flinknet.config.restart_strategy import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    RestartStrategy,
)

__all__ = ["RestartBackoff"]


class RestartBackoff:
    """The restarts of one job. Times are seconds of the coordinator's clock."""

    def __init__(self, strategy: RestartStrategy) -> None:
        self._strategy = strategy
        self._restarts = 0
        self._moments: deque[float] = deque()
        """Times of the failures in the present interval of a failure rate."""
        self._restarts_at = 0.0
        """Start time of the last restart."""

    @property
    def restarts(self) -> int:
        """Number of restarts so far, or since the job last ran stably for long enough."""
        return self._restarts

    def resume(self, restarts: int, now: float) -> None:
        """Continue from the number of restarts under the previous coordinator.

        The times of earlier failures, which a failure rate counts, are not restored.
        """
        self._restarts = restarts
        self._restarts_at = now

    def failed(self, now: float) -> float | None:
        """Note a failed attempt; return the start time of the next one, or None for no restart."""
        delay_s = self._delay_s(now)
        if delay_s is None:
            return None
        self._restarts += 1
        self._restarts_at = now + delay_s
        return self._restarts_at

    def _delay_s(self, now: float) -> float | None:
        match self._strategy:
            case FixedDelayRestart(attempts, delay_ms):
                return delay_ms / 1000 if self._restarts < attempts else None
            case FailureRateRestart() as rate:
                return self._delay_at_rate(rate, now)
            case ExponentialDelayRestart() as growing:
                return self._growing_delay(growing, now)
            case _:
                return None

    def _delay_at_rate(self, rate: FailureRateRestart, now: float) -> float | None:
        moments = self._moments
        moments.append(now)
        while now - moments[0] >= rate.interval_ms / 1000:
            moments.popleft()
        return rate.delay_ms / 1000 if len(moments) <= rate.failures_max else None

    def _growing_delay(self, growing: ExponentialDelayRestart, now: float) -> float | None:
        if self._restarts and now - self._restarts_at >= growing.reset_after_ms / 1000:
            self._restarts = 0
        if self._restarts >= growing.attempts:
            return None
        delay_ms = growing.initial_delay_ms
        for _ in range(self._restarts):
            # Further factors change nothing, and a job may have restarted very often.
            if delay_ms >= growing.max_delay_ms or growing.multiplier == 1:
                break
            delay_ms *= growing.multiplier
        return min(delay_ms, growing.max_delay_ms) / 1000
