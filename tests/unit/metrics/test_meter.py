"""Rates over the last minute, read at any moments."""

from __future__ import annotations

import pytest

from flinknet.metrics.meter import Meter


def test_nothing_is_rated_before_an_interval_has_passed() -> None:
    meter = Meter(100.0, (0, 0))
    meter.update(104.9, (7, 8))
    assert meter.counters == 2
    assert meter.per_second() == (0.0, 0.0)


def test_what_was_counted_before_is_nobodys_rate() -> None:
    meter = Meter(0.0, (1_000,))
    meter.update(5.0, (1_010,))
    assert meter.per_second() == (2.0,)


def test_a_young_task_is_rated_by_the_time_that_it_has_had() -> None:
    meter = Meter(100.0, (0, 0))
    meter.update(105.0, (10, 500))
    meter.update(110.0, (40, 500))
    assert meter.per_second() == (4.0, 50.0)


def test_updates_within_an_interval_change_nothing() -> None:
    meter = Meter(0.0, (0,))
    meter.update(5.0, (10,))
    meter.update(6.0, (1_000,))
    assert meter.per_second() == (2.0,)


def test_a_late_update_counts_with_the_time_it_took() -> None:
    meter = Meter(0.0, (0,))
    meter.update(20.0, (10,))
    assert meter.per_second() == (0.5,)


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    meter = Meter(0.0, (0,))
    for number in range(1, 13):
        meter.update(5.0 * number, (1_000,))
    (rate,) = meter.per_second()
    assert rate == pytest.approx(1_000 / 60)
    meter.update(65.0, (1_000,))
    assert meter.per_second() == (0.0,)
