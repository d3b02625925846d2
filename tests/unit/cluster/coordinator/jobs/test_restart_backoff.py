"""Restart strategies at work: when the next attempt begins, and when there is none."""

from __future__ import annotations

import pytest

from flinknet.cluster.coordinator.jobs.restart_backoff import RestartBackoff
from flinknet.config.restart_strategy import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
)


def test_no_restart() -> None:
    assert RestartBackoff(NoRestart()).failed(1.0) is None


def test_so_many_after_the_same_delay() -> None:
    backoff = RestartBackoff(FixedDelayRestart(attempts=2, delay_ms=500.0))
    assert [backoff.failed(now) for now in (1.0, 3.0, 5.0)] == [1.5, 3.5, None]
    assert backoff.restarts == 2


def test_as_long_as_failures_are_rare() -> None:
    rate = FailureRateRestart(failures_max=2, interval_ms=10_000.0, delay_ms=0.0)
    backoff = RestartBackoff(rate)
    assert [backoff.failed(now) for now in (0.0, 9.0, 10.0, 20.0)] == [0.0, 9.0, 10.0, 20.0]
    assert [backoff.failed(now) for now in (21.0, 22.0)] == [21.0, None]


def test_delays_grow_up_to_a_bound() -> None:
    growing = ExponentialDelayRestart(
        initial_delay_ms=1000.0, max_delay_ms=3000.0, multiplier=2.0, reset_after_ms=60_000.0
    )
    backoff = RestartBackoff(growing)
    now, delays = 0.0, []
    for _ in range(5):
        at = backoff.failed(now)
        assert at is not None
        delays.append(at - now)
        now = at
    assert delays == [1.0, 2.0, 3.0, 3.0, 3.0]
    assert backoff.failed(now + 60.0) == now + 61.0, "it ran well for long"


def test_delays_that_do_not_grow_and_attempts_that_end() -> None:
    backoff = RestartBackoff(ExponentialDelayRestart(multiplier=1.0, attempts=3))
    delays = [backoff.failed(0.0) for _ in range(4)]
    assert delays == [1.0, 1.0, 1.0, None]


def test_unlimited_failures_are_remembered_in_bounded_memory() -> None:
    backoff = RestartBackoff(ExponentialDelayRestart())
    for now in range(1000):
        assert backoff.failed(float(now)) is not None
    assert backoff.failed(1000.0) == pytest.approx(1060.0)


def test_restarts_are_counted_on_where_another_coordinator_has_ended() -> None:
    fixed = RestartBackoff(FixedDelayRestart(attempts=3, delay_ms=0.0))
    fixed.resume(2, 5.0)
    assert (fixed.restarts, fixed.failed(6.0), fixed.failed(7.0)) == (2, 6.0, None)
    growing = RestartBackoff(ExponentialDelayRestart(multiplier=2.0))
    growing.resume(3, 1e6)
    assert growing.failed(1e6 + 1.0) == 1e6 + 9.0
