"""The longest recent lag of the loop, for any readers at any times."""

from __future__ import annotations

import pytest

from flinknet.metrics.loop_lag import LoopLag


def test_the_longest_lag_is_seen() -> None:
    lag = LoopLag(now=100.0)
    assert lag.longest_ms(100.0) == 0.0
    lag.note(0.25, 101.0)
    lag.note(0.125, 102.0)
    assert lag.longest_ms(103.0) == 250.0


@pytest.mark.parametrize(("now", "expected"), [(104.9, 250.0), (109.9, 250.0), (110.0, 0.0)])
def test_it_is_forgotten_after_five_to_ten_seconds(now: float, expected: float) -> None:
    lag = LoopLag(now=100.0)
    lag.note(0.25, 101.0)
    assert lag.longest_ms(now) == expected


def test_nothing_is_left_of_long_ago() -> None:
    lag = LoopLag(now=100.0)
    lag.note(0.25, 101.0)
    lag.note(0.125, 1_001.0)
    assert lag.longest_ms(1_004.0) == 125.0
    assert lag.longest_ms(1_009.0) == 125.0
    assert lag.longest_ms(1_010.0) == 0.0
