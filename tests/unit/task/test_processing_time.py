"""Timers of processing time, on the real event loop with a clock of the test's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from flinknet.task.processing_time import ProcessingTimeService, wall_clock_ms


class Posted:
    """A service, the calls that it has posted, and its clock."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.calls: list[Callable[[], Any]] = []
        self.has_call = asyncio.Event()
        self.service = ProcessingTimeService(self._post, lambda: self.now_ms)
        self.fired: list[int] = []

    def _post(self, action: Callable[[], Any]) -> None:
        self.calls.append(action)
        self.has_call.set()

    async def run_call(self) -> None:
        await self.has_call.wait()
        for call in self.calls:
            call()


async def test_a_timer_posts_a_call_with_its_time() -> None:
    posted = Posted()
    posted.service.register_timer(900, posted.fired.append)
    await posted.run_call()
    assert posted.fired == [900]
    assert posted.service.get_current_processing_time() == 1000


async def test_a_timer_is_set_again_until_its_millisecond_has_passed() -> None:
    """What is processed in that millisecond still comes before the timer."""
    posted = Posted()
    timer = posted.service.register_timer(1001, posted.fired.append)
    for now_ms in (1000, 1001):
        posted.now_ms = now_ms
        assert posted.service.get_passed_time() == now_ms - 1
        posted.service._due(timer)
        assert not posted.calls
    posted.now_ms = 1002
    posted.service._due(timer)
    await posted.run_call()
    assert posted.fired == [1001]
    assert timer.handle is not None
    timer.handle.cancel()


async def test_a_cancelled_timer_calls_nothing() -> None:
    """Neither one that is set, nor one whose call has been posted."""
    posted = Posted()
    waiting = posted.service.register_timer(10_000_000_000, posted.fired.append)
    due = posted.service.register_timer(0, posted.fired.append)
    await posted.has_call.wait()
    for timer in (waiting, due, due):
        posted.service.cancel(timer)
    await posted.run_call()
    assert posted.fired == []


async def test_a_call_that_waits_when_the_service_is_closed_is_not_made() -> None:
    """The subtask has ended its outputs meanwhile."""
    posted = Posted()
    posted.service.register_timer(0, posted.fired.append)
    await posted.has_call.wait()
    posted.service.close()
    await posted.run_call()
    assert posted.fired == []


async def test_a_closed_service_has_no_timers() -> None:
    posted = Posted()
    timer = posted.service.register_timer(2000, posted.fired.append)
    posted.service.close()
    assert timer.cancelled
    assert timer.handle is not None
    assert timer.handle.cancelled()


def test_the_wall_clock_counts_milliseconds() -> None:
    before_s = time.time()
    assert int(1000 * before_s) <= wall_clock_ms() <= 1000 * time.time()
