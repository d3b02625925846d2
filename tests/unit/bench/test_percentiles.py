"""Percentiles are of the nearest rank, with numpy and without."""

from __future__ import annotations

import sys

import pytest

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


def test_percentiles_are_the_same_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which PyPy does not have."""
    nanoseconds = [(number * 7919) % 100_003 for number in range(1234)]
    with_numpy = percentiles_us(nanoseconds)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert percentiles_us(nanoseconds) == with_numpy
