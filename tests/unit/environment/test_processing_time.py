"""Timers of processing time, on the real event loop with a clock that the test sets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from flinknet.datastream import (
    KeyedProcessFunction,
    ProcessWindowFunction,
    Source,
    StreamExecutionEnvironment,
    Time,
    TumblingProcessingTimeWindows,
)
from flinknet.environment.processing_time import (
    LOOK_AGAIN_S,
    PROCESSING_CLOCK,
    ProcessingClock,
    ProcessingTimeService,
    wall_clock_ms,
)
from tests.unit.runtime.running import run_job


class Posted:
    """A service, the calls that it has posted, and its clock."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.calls: list[Callable[[], Any]] = []
        self.has_call = asyncio.Event()
        self.steady_ms = 0
        self.service = ProcessingTimeService(
            self._post, lambda: self.now_ms, lambda: self.steady_ms
        )
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
    """Records processed in that millisecond still come before the timer."""
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
    """This holds for a timer that is set, and for one with a call posted already."""
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
    assert abs(PROCESSING_CLOCK.now_ms() - wall_clock_ms()) < 1000


class Clocks:
    """A machine's clock, which is set, and a monotonic one, both in seconds."""

    def __init__(self) -> None:
        self.wall = 1_000_000
        self.steady = 50
        self.clock = ProcessingClock(
            lambda: self.wall * 1_000_000_000, lambda: self.steady * 1_000_000_000
        )

    def after(self, seconds: int, step: int = 0) -> float:
        """Return processing time after this many seconds, at the end of which the clock is set."""
        self.wall += seconds + step
        self.steady += seconds
        return self.clock.now_ms() / 1000 - 1_000_000


def test_processing_time_is_the_time_of_day() -> None:
    clocks = Clocks()
    assert [clocks.after(1), clocks.after(59), clocks.after(0)] == [1, 60, 60]
    assert clocks.after(1, step=3600) == 3661, "it goes forward with it"


def test_processing_time_goes_on_while_the_clock_catches_up() -> None:
    """It runs at nine tenths of its pace, from its own time until the clock has caught up."""
    clocks = Clocks()
    clocks.after(100)
    assert clocks.after(0, step=-10) == 100
    assert [clocks.after(10) for _ in range(11)] == [109 + 9 * n for n in range(10)] + [200]
    assert clocks.wall == 1_000_000 + 100 - 10 + 110
    assert [clocks.after(10), clocks.after(1)] == [210, 211], "as if nothing had been"
    assert clocks.after(0, step=-5) == 211, "and again"
    assert clocks.after(10) == 220
    assert clocks.after(0, step=-7) == 220, "while it catches up"
    assert clocks.after(0, step=100) == 309, "or is set forward"


async def test_timers_look_at_the_clock_again_that_may_have_been_set_forward() -> None:
    posted = Posted()
    loop = asyncio.get_running_loop()
    timer = posted.service.register_timer(10_000_000_000, posted.fired.append)
    assert timer.handle is not None
    assert timer.handle.when() <= loop.time() + LOOK_AGAIN_S + 1
    posted.service.cancel(timer)


async def test_a_delay_does_not_follow_the_clock() -> None:
    """The clock may be set back or forward."""
    posted = Posted()
    timer = posted.service.register_delay(100, posted.fired.append)
    for now_ms in (0, 10_000_000_000):
        posted.now_ms = now_ms
        posted.service._due(timer)
        assert not posted.calls
    posted.now_ms = 0
    posted.steady_ms = 100
    posted.service._due(timer)
    await posted.run_call()
    assert posted.fired == [100]
    assert posted.service.get_relative_time() == 100
    assert timer.handle is not None
    timer.handle.cancel()


class Seen:
    """The records of the functions of the job below; a class, as it is found by name and not
    copied."""

    windows: ClassVar[list[int]] = []
    fired: ClassVar[list[int]] = []

    @classmethod
    def is_enough(cls) -> bool:
        return len(cls.windows) >= 3 and len(cls.fired) >= 3


class Count(ProcessWindowFunction):
    """Records the end of each window."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        Seen.windows.append(context.window().end)
        yield key


class Ring(KeyedProcessFunction):
    """Sets a timer 5 ms after the first record, and again in each timer."""

    def __init__(self) -> None:
        self._is_set = False

    def process_element(self, value: Any, ctx: Any) -> None:
        if not self._is_set:
            self._set(ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        if Seen.windows:
            Seen.fired.append(timestamp)
        self._set(ctx)

    def _set(self, ctx: Any) -> None:
        self._is_set = True
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 5)


class UntilEnough(Source):
    """Emits one record after the other."""

    parallelism = 1

    def batches(self, context: Any) -> Iterator[list[int]]:
        while not Seen.is_enough():
            yield [0]


@pytest.mark.parametrize("step_s", [-3600, 3600])
async def test_timers_and_windows_go_on_when_the_clock_is_set(
    monkeypatch: pytest.MonkeyPatch, step_s: int
) -> None:
    """The job's source ends when windows have closed and timers have fired after the step, in
    order."""
    for seen in (Seen.windows, Seen.fired):
        seen.clear()

    def wall_ns() -> int:
        return time.time_ns() + (step_s * 1_000_000_000 if Seen.windows else 0)

    clock = ProcessingClock(wall_ns)
    for name in ("_wall_ns", "_latest_ns", "_behind_since_ns"):
        monkeypatch.setattr(PROCESSING_CLOCK, name, getattr(clock, name))
    environment = StreamExecutionEnvironment()
    keyed = environment.from_source(UntilEnough()).key_by(lambda number: number)
    windows = keyed.window(TumblingProcessingTimeWindows.of(Time.milliseconds(20)))
    windows.process(Count()).sink_to(lambda record: None)
    keyed.process(Ring()).sink_to(lambda record: None)
    await run_job(environment)
    for seen in (Seen.windows, Seen.fired):
        assert seen == sorted(set(seen))
        assert len(seen) >= 3
