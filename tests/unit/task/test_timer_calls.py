"""Calls of ``on_timer``: in order, for the key, and many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flinknet.task.context import OnTimerContext, RuntimeContext
from flinknet.task.operators import value_of
from flinknet.task.timer_calls import TIMERS_AT_ONCE, TimerCalls
from flinknet.task.timers.timer_service import TimeDomain
from tests.unit.task.harness import context
from tests.unit.task.manual_time import ManualTime


class Calls:
    """Calls of a function, whose results are kept in the batches in which they came."""

    def __init__(self, on_timer: Callable[..., Any]) -> None:
        self.clock = ManualTime()
        self.place: RuntimeContext = context(processing_time=self.clock)
        self.batches: list[list[Any]] = []
        self.where: Callable[[], str] | None = None
        self.calls = TimerCalls(on_timer, self.place, self._keep, view=OnTimerContext())
        self.calls.start()

    async def _keep(
        self, where: Callable[[], str], call: Callable[..., Any], *arguments: Any
    ) -> None:
        self.where = where
        self.batches.append(list(await value_of(call(*arguments))))

    def register(self, timestamp_ms: int, key: Any, *, by_clock: bool = False) -> None:
        view = self.place.process_context
        view.current_key = key
        service = view.timer_service()
        if by_clock:
            service.register_processing_time_timer(timestamp_ms)
        else:
            service.register_event_time_timer(timestamp_ms)


def tell(timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
    yield timestamp, ctx.get_current_key(), ctx.time_domain()


async def tell_later(timestamp: int, ctx: OnTimerContext) -> list[Any]:
    return list(tell(timestamp, ctx))


async def test_they_fire_in_order_until_the_watermark() -> None:
    some = Calls(tell)
    for timestamp_ms in (7, 5, 9):
        some.register(timestamp_ms, "k")
    await some.calls.advance_watermark(8)
    event_time = TimeDomain.EVENT_TIME
    assert some.batches == [[(5, "k", event_time), (7, "k", event_time)]]
    assert some.place.process_context.current_watermark == 8
    assert some.where is not None
    assert some.where() == "in on_timer() at 7 for the key 'k'"
    await some.calls.end_of_input()
    assert some.batches[1:] == [[(9, "k", event_time)]]


async def test_one_that_waits_is_called_alone() -> None:
    some = Calls(tell_later)
    some.register(1, "a")
    some.register(2, "b")
    await some.calls.advance_watermark(2)
    assert [len(batch) for batch in some.batches] == [1, 1]


@pytest.mark.parametrize("closes", [False, True])
async def test_by_the_clock_until_the_end(closes: bool) -> None:
    some = Calls(tell)
    some.register(5, "k", by_clock=True)
    await some.clock.advance(5)
    assert some.batches == [[(5, "k", TimeDomain.PROCESSING_TIME)]]
    some.register(6, "k", by_clock=True)
    if closes:
        some.calls.close()
    else:
        await some.calls.end_of_input()
    await some.clock.advance(10)
    assert len(some.batches) == 1


async def test_others_get_a_turn_between_many() -> None:
    some = Calls(tell)
    for timestamp_ms in range(2 * TIMERS_AT_ONCE):
        some.register(timestamp_ms, "k")
    await some.calls.advance_watermark(2 * TIMERS_AT_ONCE)
    assert [len(batch) for batch in some.batches] == [TIMERS_AT_ONCE] * 2
