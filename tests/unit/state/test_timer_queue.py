"""Timers: per key, each time once, the earliest first, and part of keyed state."""

from __future__ import annotations

from math import nan

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flinknet.state.state_table import StateTable
from flinknet.state.timer_queue import HEADS_MAX, STALE_MIN, TimerQueue

KEYS = st.sampled_from(["a", "b", 1, 2, None, ("a", 1)])
TIMES = st.integers(0, 6)


def due(queue: TimerQueue, until_ms: int) -> list[tuple[int, object]]:
    return [tuple(timer) for timer in iter(lambda: queue.pop_due(until_ms), None)]


def test_the_earliest_fires_first_and_each_once() -> None:
    queue = TimerQueue(StateTable())
    assert queue.deadline_ms is None
    assert queue.pop_due(100) is None
    for timestamp_ms, key in ((5, "a"), (3, "b"), (5, "a"), (5, "c"), (9, "a")):
        queue.register(timestamp_ms, key)
    assert queue.deadline_ms == 3
    assert due(queue, 2) == []
    assert due(queue, 5) == [(3, "b"), (5, "a"), (5, "c")]
    assert queue.deadline_ms == 9


def test_a_deleted_timer_does_not_fire() -> None:
    queue = TimerQueue(StateTable())
    queue.register(1, "a")
    queue.register(2, "a")
    queue.delete(1, "a")
    queue.delete(1, "a")
    queue.delete(7, "b")
    assert queue.deadline_ms == 2
    queue.register(1, "a")
    assert due(queue, 9) == [(1, "a"), (2, "a")]


def test_a_timer_may_be_registered_again_when_it_fires() -> None:
    queue = TimerQueue(StateTable())
    queue.register(1, "a")
    queue.delete(1, "a")
    queue.register(1, "a")
    assert queue.pop_due(1) == (1, "a")
    queue.register(1, "a")
    assert due(queue, 1) == [(1, "a")]


@pytest.mark.parametrize(("one", "same"), [(1, True), (["a"], ("a",)), (nan, float("nan"))])
def test_equal_keys_are_one(one: object, same: object) -> None:
    queue = TimerQueue(StateTable())
    queue.register(1, one)
    queue.register(1, same)
    assert len(due(queue, 1)) == 1


def test_keys_that_cannot_be_compared_have_timers_at_one_time() -> None:
    queue = TimerQueue(StateTable())
    for key in (None, "a", 1, ("a",), b"a"):
        queue.register(1, key)
    assert [key for _, key in due(queue, 1)] == [None, "a", 1, ("a",), b"a"]


def test_deleted_timers_do_not_pile_up() -> None:
    """A session that every record extends deletes many timers."""
    table = StateTable()
    queue = TimerQueue(table)
    for timestamp_ms in range(100_000):
        queue.register(timestamp_ms, "a")
        queue.delete(timestamp_ms - 1, "a")
    assert sum(map(len, queue._heaps)) <= STALE_MIN + 2
    assert len(queue._heads) <= HEADS_MAX
    assert queue.deadline_ms == 99_999
    queue.check_invariants()


def test_timers_are_restored_with_their_table() -> None:
    table = StateTable()
    queue = TimerQueue(table)
    queue.register(2, "a")
    queue.register(1, "b")
    capture = table.capture()
    queue.delete(2, "a")
    queue.register(3, "a")
    captured = dict(capture.entries())
    assert captured == {"a": (2,), "b": (1,)}
    restored = StateTable()
    restored.live.update(captured)
    assert due(TimerQueue(restored), 9) == [(1, "b"), (2, "a")]
    assert due(queue, 9) == [(1, "b"), (3, "a")]


class TimerMachine(RuleBasedStateMachine):
    """Any order of calls and captures, compared with a plain set."""

    @initialize()
    def begin(self) -> None:
        self.table = StateTable()
        self.queue = TimerQueue(self.table)
        self.plain: set[tuple[int, object]] = set()

    @rule(time=TIMES, key=KEYS)
    def register(self, time: int, key: object) -> None:
        self.queue.register(time, key)
        self.plain.add((time, key))

    @rule(time=TIMES, key=KEYS)
    def delete(self, time: int, key: object) -> None:
        self.queue.delete(time, key)
        self.plain.discard((time, key))

    @rule(until=TIMES)
    def fire(self, until: int) -> None:
        fired = due(self.queue, until)
        expected = {timer for timer in self.plain if timer[0] <= until}
        assert [time for time, _ in fired] == sorted(time for time, _ in expected)
        assert set(fired) == expected
        assert len(fired) == len(expected)
        self.plain -= expected

    @rule(closed=st.booleans())
    def capture(self, closed: bool) -> None:
        capture = self.table.capture()
        if closed:
            capture.close()

    @rule()
    def merge(self) -> None:
        self.table.merge(2)

    @invariant()
    def the_deadline_is_that_of_the_earliest(self) -> None:
        assert self.queue.deadline_ms == min((time for time, _ in self.plain), default=None)
        self.queue.check_invariants()


TestTimers = TimerMachine.TestCase
