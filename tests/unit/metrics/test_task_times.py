"""Task times and the gauge below them, with a clock that the test sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.buffer.availability import WaitReason
from flinknet.metrics.task_times import BackpressureLevel, TaskTimes, TimerGauge

IDLE = WaitReason.IDLE
SOFT = WaitReason.SOFT_BACKPRESSURE
HARD = WaitReason.HARD_BACKPRESSURE

START = 42_000.0


class Gauge:
    """A gauge and its clock."""

    def __init__(self) -> None:
        self.now = START
        self.gauge = TimerGauge(START)

    def mark(self, seconds: float) -> None:
        """Mark a span that begins now."""
        self.gauge.mark_start(self.now)
        self.now += seconds
        self.gauge.mark_end(self.now)

    def to_interval(self, number: int) -> None:
        """Set the clock to the beginning of the interval with this number."""
        self.now = START + 5 * number

    @property
    def ms_per_second(self) -> float:
        return self.gauge.ms_per_second(self.now)

    @property
    def longest_ms(self) -> float:
        return self.gauge.longest_ms(self.now)


# -- the gauge -------------------------------------------------------------------------------------


def test_what_is_marked_is_averaged_over_the_interval() -> None:
    """S1."""
    arranged = Gauge()
    assert (arranged.ms_per_second, arranged.longest_ms) == (0, 0)
    arranged.now += 1
    arranged.mark(0.010)
    arranged.mark(0.015)
    arranged.to_interval(1)
    assert arranged.ms_per_second == pytest.approx(5)
    assert arranged.longest_ms == pytest.approx(15)


def test_the_longest_span_is_that_of_the_last_intervals() -> None:
    """S1: it decreases again."""
    arranged = Gauge()
    arranged.mark(0.010)
    arranged.to_interval(1)
    arranged.mark(0.005)
    assert arranged.longest_ms == pytest.approx(10)
    arranged.to_interval(2)
    assert arranged.longest_ms == pytest.approx(5)
    arranged.to_interval(3)
    assert arranged.longest_ms == 0


def test_a_running_span_counts() -> None:
    """S1: it counts at the end of every interval and in between, with its length from its start."""
    arranged = Gauge()
    arranged.now += 3
    arranged.gauge.mark_start(arranged.now)
    arranged.now += 1
    assert arranged.ms_per_second == pytest.approx(250)
    arranged.to_interval(1)
    assert arranged.ms_per_second == pytest.approx(400)
    arranged.to_interval(2)
    assert arranged.ms_per_second == pytest.approx(700)
    assert arranged.longest_ms == pytest.approx(7_000)
    arranged.gauge.mark_end(arranged.now)
    assert arranged.gauge.total_ms(arranged.now + 100) == pytest.approx(7_000)


def test_marking_twice_is_marking_once() -> None:
    """S1."""
    arranged = Gauge()
    arranged.gauge.mark_start(START)
    arranged.gauge.mark_start(START + 1)
    arranged.gauge.mark_end(START + 2)
    arranged.gauge.mark_end(START + 4)
    assert arranged.gauge.total_ms(START + 5) == pytest.approx(2_000)


def test_a_minute_is_the_window() -> None:
    """S1: 12 intervals of 5 s; older spans are forgotten, except in the total."""
    arranged = Gauge()
    arranged.mark(5)
    for interval in range(1, 13):
        arranged.to_interval(interval)
        assert arranged.ms_per_second == pytest.approx(1_000 / interval)
    arranged.to_interval(13)
    assert arranged.ms_per_second == 0
    assert arranged.gauge.total_ms(arranged.now) == 5_000


@pytest.mark.parametrize("running", [True, False])
def test_a_long_silence_is_caught_up_with(running: bool) -> None:
    """This holds for a reading at every interval, and for one after days."""
    often, seldom = Gauge(), Gauge()
    for arranged in (often, seldom):
        arranged.mark(1)
        arranged.now += 1
        if running:
            arranged.gauge.mark_start(arranged.now)
    days = 3 * 86_400 + 2.5
    for step in range(0, 3 * 86_400, 5):
        often.gauge.ms_per_second(START + step + 4)
    for arranged in (often, seldom):
        arranged.now = START + days
    assert seldom.ms_per_second == pytest.approx(often.ms_per_second)
    assert seldom.ms_per_second == pytest.approx(1_000 if running else 0)
    assert seldom.longest_ms == pytest.approx(often.longest_ms)
    totals = [arranged.gauge.total_ms(arranged.now) for arranged in (often, seldom)]
    assert totals[0] == pytest.approx(totals[1])
    assert totals[1] == pytest.approx(1_000 + (1_000 * (days - 2) if running else 0))


# -- the task --------------------------------------------------------------------------------------


def account() -> TaskTimes:
    return TaskTimes("Map (1/2)", START)


def wait(times: TaskTimes, reason: WaitReason, begin: float, end: float) -> None:
    times.begin_wait(reason, START + begin)
    times.end_wait(reason, START + end)


def test_every_second_has_a_state() -> None:
    """S2: idle, busy and backpressured add up to 1000."""
    times = account()
    wait(times, IDLE, 1, 2)
    wait(times, SOFT, 3, 3.5)
    wait(times, HARD, 3.5, 4.5)
    seen = times.statistics(START + 5)
    assert seen.name == "Map (1/2)"
    assert seen.idle_time_ms_per_second == pytest.approx(200)
    assert seen.soft_backpressured_time_ms_per_second == pytest.approx(100)
    assert seen.hard_backpressured_time_ms_per_second == pytest.approx(200)
    assert seen.backpressured_time_ms_per_second == pytest.approx(300)
    assert seen.busy_time_ms_per_second == pytest.approx(500)
    assert (seen.max_soft_backpressured_time_ms, seen.max_hard_backpressured_time_ms) == (500, 1000)
    assert seen.accumulated_idle_time_ms == 1_000
    assert seen.accumulated_backpressured_time_ms == 1_500
    assert seen.accumulated_busy_time_ms == 2_500
    assert not seen.is_backpressured


def test_waits_at_the_same_time_count_once() -> None:
    """Hard comes before soft, and soft before idle: an input is not read because an output is
    blocked."""
    times = account()
    times.begin_wait(IDLE, START)
    times.begin_wait(SOFT, START + 1)
    times.begin_wait(HARD, START + 2)
    times.begin_wait(HARD, START + 2.5)
    assert times.statistics(START + 3).is_backpressured
    times.end_wait(HARD, START + 3)
    times.end_wait(HARD, START + 4)
    times.end_wait(SOFT, START + 5)
    assert not times.statistics(START + 5).is_backpressured
    times.end_wait(IDLE, START + 6)
    seen = times.statistics(START + 7)
    assert seen.accumulated_idle_time_ms == 2_000
    assert (seen.max_soft_backpressured_time_ms, seen.max_hard_backpressured_time_ms) == (
        1000,
        2000,
    )
    assert seen.accumulated_backpressured_time_ms == 4_000
    assert seen.accumulated_busy_time_ms == 1_000


def test_time_in_which_several_wait_for_their_consumers_counts_once() -> None:
    times = account()
    times.begin_wait(IDLE, START)
    times.begin_wait(IDLE, START + 2)
    times.end_wait(IDLE, START + 3)
    times.end_wait(IDLE, START + 6)
    assert times.statistics(START + 7).accumulated_idle_time_ms == 6_000


@pytest.mark.parametrize(
    ("backpressured_s", "level"),
    [(0, "OK"), (0.5, "OK"), (0.51, "LOW"), (2.5, "LOW"), (2.51, "HIGH"), (5, "HIGH")],
)
def test_the_level_of_backpressure(backpressured_s: float, level: str) -> None:
    """Section 5: OK up to 10 %, LOW up to 50 %."""
    times = TaskTimes("task", 0.0)
    times.begin_wait(SOFT, 0.0)
    times.end_wait(SOFT, backpressured_s)
    assert times.statistics(5.0).backpressure_level is BackpressureLevel[level]


class FailedError(Exception):
    pass


def test_a_wait_that_ends_with_an_error_has_ended() -> None:
    times = account()
    clock = iter((START + 1, START + 2)).__next__
    with pytest.raises(FailedError), times.waiting(HARD, clock):
        raise FailedError
    assert times.statistics(START + 5).accumulated_backpressured_time_ms == 1_000


@given(
    st.lists(st.tuples(st.sampled_from(WaitReason), st.booleans(), st.floats(0, 20)), max_size=40)
)
def test_the_states_add_up_to_the_time_that_passed(
    steps: list[tuple[WaitReason, bool, float]],
) -> None:
    """S2: this holds for any overlap."""
    times, now = TaskTimes("task", 0.0), 0.0
    waiting = dict.fromkeys(WaitReason, 0)
    for reason, begins, seconds in steps:
        now += seconds
        if begins:
            times.begin_wait(reason, now)
            waiting[reason] += 1
        elif waiting[reason]:
            times.end_wait(reason, now)
            waiting[reason] -= 1
        seen = times.statistics(now)
        accumulated = (
            seen.accumulated_idle_time_ms
            + seen.accumulated_busy_time_ms
            + seen.accumulated_backpressured_time_ms
        )
        assert accumulated == pytest.approx(1_000 * now)
        per_second = (
            seen.idle_time_ms_per_second
            + seen.busy_time_ms_per_second
            + seen.backpressured_time_ms_per_second
        )
        assert per_second == pytest.approx(1_000)
        assert seen.is_backpressured == bool(waiting[SOFT] or waiting[HARD])
