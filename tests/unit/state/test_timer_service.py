"""A keyed function's requests for timers, and their use of the clock."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from flinknet.environment.processing_time import ProcessingTimeService
from flinknet.functions.context import ProcessContext
from flinknet.state.keyed_state import KeyedState
from flinknet.state.timer_service import TimeDomain, Timers, TimerService
from flinknet.wire.events import MAX_WATERMARK, MIN_WATERMARK


class World:
    """Timers with a clock that the test sets, and a record of their calls."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.posted: list[Callable[[], Any]] = []
        self.fired: list[int] = []
        self.clock = ProcessingTimeService(self.posted.append, lambda: self.now_ms)
        self.timers = Timers(KeyedState(), self.clock, lambda: self.fired.append(self.now_ms))
        self.context = ProcessContext()
        self.context.current_key = "a"
        self.service = TimerService(self.timers, self.context)

    async def pass_until(self, now_ms: int) -> None:
        """Set the clock and run the calls that are due."""
        self.now_ms = now_ms
        while not self.posted:
            await asyncio.sleep(0)
        while self.posted:
            self.posted.pop()()


async def test_times() -> None:
    world = World()
    assert world.service.current_processing_time() == 1000
    assert world.service.current_watermark() == MIN_WATERMARK
    world.context.current_watermark = 7
    assert world.service.current_watermark() == 7


async def test_the_clock_is_set_for_the_earliest() -> None:
    world = World()
    for timestamp in (1001, 1003, 1000, 1002):
        world.service.register_processing_time_timer(timestamp)
    await world.pass_until(1001)
    assert world.fired == [1001]
    queue = world.timers.of(TimeDomain.PROCESSING_TIME)
    assert queue.deadline_ms == 1000, "whoever is called takes what is due"
    assert queue.pop_due(1001) == (1000, "a")
    assert queue.pop_due(1001) == (1001, "a")
    world.timers.set_clock()
    world.service.delete_processing_time_timer(1002)
    await world.pass_until(1004)
    assert world.fired == [1001, 1004]
    assert queue.pop_due(1003) == (1003, "a")
    world.timers.set_clock()
    assert not world.posted


async def test_event_time_timers_do_not_set_the_clock() -> None:
    world = World()
    world.service.register_event_time_timer(5)
    world.service.register_event_time_timer(6)
    world.service.delete_event_time_timer(6)
    assert world.timers.of(TimeDomain.EVENT_TIME).deadline_ms == 5
    assert world.timers.of(TimeDomain.EVENT_TIME).pop_due(9) == (5, "a")
    assert world.timers.of(TimeDomain.EVENT_TIME).pop_due(9) is None


async def test_nothing_fires_after_the_end() -> None:
    world = World()
    world.timers.close()
    world.service.register_processing_time_timer(1000)
    world.service.delete_processing_time_timer(1000)
    world = World()
    world.service.register_processing_time_timer(999)
    while not world.posted:
        await asyncio.sleep(0)
    world.timers.close()
    world.timers.close()
    world.posted.pop()()
    assert world.fired == []


@pytest.mark.parametrize("method", ["register", "delete"])
@pytest.mark.parametrize("domain", ["event_time", "processing_time"])
@pytest.mark.parametrize(
    ("time", "error"),
    [
        ("1700000000000", TypeError),
        (float("inf"), TypeError),
        (5.0, TypeError),
        (True, TypeError),
        (None, TypeError),
        (datetime(2026, 1, 1), TypeError),
        (2**63, ValueError),
        (-(2**63) - 1, ValueError),
    ],
)
def test_a_time_that_is_none_is_refused(
    method: str, domain: str, time: Any, error: type[Exception]
) -> None:
    """It is refused at once, and leaves nothing: it would fail or wait forever outside of any
    call."""
    world = World()
    with pytest.raises(error, match=re.escape(repr(time))):
        getattr(world.service, f"{method}_{domain}_timer")(time)
    assert all(world.timers.of(one).deadline_ms is None for one in TimeDomain)


async def test_the_first_and_the_last_time_are_times() -> None:
    world = World()
    for time in (MIN_WATERMARK, MAX_WATERMARK):
        world.service.register_event_time_timer(time)
    queue = world.timers.of(TimeDomain.EVENT_TIME)
    assert [queue.pop_due(MAX_WATERMARK) for _ in range(2)] == [
        (MIN_WATERMARK, "a"),
        (MAX_WATERMARK, "a"),
    ]
