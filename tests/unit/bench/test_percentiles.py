"""Percentiles are of the nearest rank."""

from __future__ import annotations

from bench.harness.percentiles import percentiles_us


def test_percentiles_are_times_that_occurred() -> None:
    nanoseconds = [1000 * number for number in range(1, 1001)]
    assert percentiles_us(nanoseconds[::-1]) == {
        "p50": 500.0,
        "p90": 900.0,
        "p99": 990.0,
        "p99.9": 999.0,
    }
    assert set(percentiles_us([7000]).values()) == {7.0}
