"""Timers of windows: in order, once each, and not after they were deleted."""

from __future__ import annotations

from flinknet.functions.windows import TimeWindow
from flinknet.operators.window_timers import WindowTimers

A, B = TimeWindow(0, 10), TimeWindow(10, 20)


def test_timers_come_in_order_of_time_and_then_of_registration() -> None:
    timers = WindowTimers()
    for time_ms, key, window in ((9, "k", A), (5, 1, B), (9, "j", A), (9, "k", A), (30, "k", B)):
        timers.register(time_ms, key, window)
    assert len(timers) == 4
    assert timers.next_ms() == 5
    assert list(timers.due(9)) == [(5, 1, B), (9, "k", A), (9, "j", A)]
    assert timers.next_ms() == 30


def test_a_timer_may_be_set_or_deleted_while_others_are_taken() -> None:
    timers = WindowTimers()
    timers.register(1, "k", A)
    timers.register(2, "k", A)
    taken = []
    for time_ms, key, window in timers.due(5):
        taken.append(time_ms)
        timers.delete(2, key, window)
        if time_ms < 4:
            timers.register(4, key, window)
    assert taken == [1, 4]


def test_a_deleted_timer_is_not_next() -> None:
    timers = WindowTimers()
    timers.register(1, "k", A)
    timers.register(2, "k", B)
    timers.delete(1, "k", A)
    timers.delete(1, "k", A)
    assert timers.next_ms() == 2
    timers.delete(2, "k", B)
    assert timers.next_ms() is None
    assert list(timers.due(9)) == []
