from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.consumer.throughput_calculator import ThroughputCalculator


def working(since: float = 0.0) -> ThroughputCalculator:
    calculator = ThroughputCalculator()
    calculator.resume(since)
    return calculator


def test_bytes_per_busy_second() -> None:
    """P3."""
    assert working(1.0).calculate(6666, now=1.1) == pytest.approx(66_660)


def test_a_window_ends_with_each_calculation() -> None:
    """P3: reset after each read; the bytes are those of the gate since it was made."""
    calculator = working()
    assert calculator.calculate(1000, now=1.0) == 1000
    assert calculator.calculate(1000, now=2.0) == 0
    assert calculator.calculate(5000, now=4.0) == 2000


def test_idle_time_does_not_count() -> None:
    """P3."""
    calculator = working()
    calculator.pause(now=1.0)
    calculator.resume(now=10.0)
    assert calculator.calculate(300, now=12.0) == 100


def test_idleness_goes_on_in_the_next_window() -> None:
    """P3: idle across a read continues."""
    calculator = working()
    calculator.pause(now=1.0)
    assert calculator.calculate(100, now=5.0) == 100
    calculator.resume(now=9.0)
    assert calculator.calculate(150, now=10.0) == 50


def test_saying_it_twice_is_harmless() -> None:
    """P3: double idle start, double idle end."""
    calculator = working()
    calculator.pause(now=1.0)
    calculator.pause(now=2.0)
    calculator.resume(now=3.0)
    calculator.resume(now=4.0)
    assert calculator.calculate(300, now=5.0) == 100


def test_a_window_without_work_keeps_the_last_value() -> None:
    """P3, census 1.8."""
    calculator = working()
    calculator.pause(now=1.0)
    calculator.calculate(100, now=2.0)
    assert calculator.calculate(100, now=3.0) == 100
    assert calculator.throughput == 100


def test_a_window_of_no_length_keeps_the_last_value() -> None:
    calculator = working()
    calculator.calculate(100, now=1.0)
    assert calculator.calculate(200, now=1.0) == 100


def test_nothing_is_known_before_the_first_byte() -> None:
    """A reader that has not begun, or whose producers have not, is not slow."""
    calculator = ThroughputCalculator()
    assert calculator.calculate(0, now=1.0) is None
    calculator.resume(now=2.0)
    assert calculator.calculate(0, now=8.0) is None
    assert calculator.calculate(100, now=9.0) == 100


STEPS = st.lists(st.tuples(st.sampled_from(["work", "wait"]), st.integers(1, 100)), min_size=1)


@given(STEPS, st.integers(1, 10_000))
def test_only_working_counts_however_it_is_cut(steps: list[tuple[str, int]], size: int) -> None:
    calculator = ThroughputCalculator()
    now = busy = 0.0
    for state, seconds in steps:
        if state == "work":
            calculator.resume(now)
            busy += seconds
        else:
            calculator.pause(now)
        now += seconds
    assert calculator.calculate(size, now) == (pytest.approx(size / busy) if busy else None)
