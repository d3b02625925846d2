"""Deadlines of a loop that is held up, in virtual time and in a real loop that a function
blocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from flinknet.net import stall_tolerant_timer
from flinknet.net.stall_tolerant_timer import LATE_S, StallTolerantTimer, stall_tolerant_timeout


class Handle:
    """The return value of ``call_at``."""

    def __init__(self, loop: Loop, when: float) -> None:
        self._loop = loop
        self._when = when

    def cancel(self) -> None:
        self._loop.timers = [timer for timer in self._loop.timers if timer[0] != self._when]


class Loop:
    """A clock that runs its timers when ``turn`` is called, however late that is."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object]) -> Handle:
        self.timers.append((when, callback))
        return Handle(self, when)

    def turn(self, now: float) -> None:
        self.now = now
        due = [timer for timer in self.timers if timer[0] <= now]
        self.timers = [timer for timer in self.timers if timer[0] > now]
        for _, callback in due:
            callback()


def timer(
    loop: Loop, when: float, unless: Callable[[], bool] = lambda: False
) -> tuple[StallTolerantTimer, list[float]]:
    called: list[float] = []
    timer = StallTolerantTimer(loop, when, lambda: called.append(loop.now), unless)  # type: ignore[arg-type]
    return timer, called


def test_a_timer_that_comes_in_time_means_what_it_says() -> None:
    loop = Loop()
    _, called = timer(loop, 5.0)
    loop.turn(4.9)
    assert called == []
    loop.turn(5.0 + LATE_S)
    assert called == [5.0 + LATE_S]


def test_the_time_in_which_the_loop_was_held_up_does_not_count() -> None:
    """The deadline is extended by all of this time, however often it happens."""
    loop = Loop()
    _, called = timer(loop, 5.0)
    loop.turn(65.0)
    assert loop.timers[0][0] == 125.0
    loop.turn(127.0)
    assert loop.timers[0][0] == 129.0
    assert called == []
    loop.turn(129.0)
    assert called == [129.0]


def test_a_timer_that_is_set_again_forgets_the_time_before() -> None:
    loop = Loop()
    one, called = timer(loop, 5.0)
    loop.turn(4.0)
    one.set_again(9.0)
    loop.turn(8.0)
    assert called == []
    loop.turn(9.5)
    assert called == [9.5]


def test_a_timer_waits_while_another_component_judges() -> None:
    loop, judged = Loop(), True
    _, called = timer(loop, 5.0, lambda: judged)
    loop.turn(5.0)
    loop.turn(5.0 + LATE_S)
    assert called == []
    judged = False
    loop.turn(5.0 + 2 * LATE_S)
    assert called == [5.0 + 2 * LATE_S]


def test_a_cancelled_timer_calls_nothing() -> None:
    loop = Loop()
    one, called = timer(loop, 5.0)
    loop.turn(65.0)
    one.cancel()
    one.cancel()
    loop.turn(1000.0)
    assert called == []


@pytest.fixture
def late_s(monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(stall_tolerant_timer, "LATE_S", 0.02)
    return 0.02


async def test_input_that_arrived_while_the_loop_was_blocked_is_in_time(late_s: float) -> None:
    come = asyncio.Event()
    asyncio.get_running_loop().call_later(0.001, come.set)
    async with stall_tolerant_timeout(0.001):
        time.sleep(3 * late_s)  # noqa: ASYNC251 - as user code does
        await come.wait()
        await asyncio.sleep(0)


async def test_a_timeout_cancels_what_is_inside() -> None:
    with pytest.raises(TimeoutError):
        async with stall_tolerant_timeout(0.0):
            await asyncio.Event().wait()


async def test_a_cancellation_from_outside_is_none_of_the_timeouts() -> None:
    async def wait() -> None:
        async with stall_tolerant_timeout(3600.0):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_without_a_limit_there_is_no_timer() -> None:
    async with stall_tolerant_timeout(None):
        await asyncio.sleep(0)
