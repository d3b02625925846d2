"""Calls of ``on_timer``: in order, with their key, and many at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from flinknet.functions.calls import value_of
from flinknet.functions.context import OnTimerContext, RuntimeContext
from flinknet.operators.record_slices import RECORDS_FIRST
from flinknet.operators.timer_calls import TimerCalls
from flinknet.operators.timestamped_batch import NextTimestamps, no_timestamps
from flinknet.records.cooperative_budget import yield_to_loop
from flinknet.state.timer_service import TimeDomain
from tests.unit.operators.harness import context
from tests.unit.operators.manual_time import ManualTime


class Calls:
    """The calls of a function, with its results in the batches in which they came."""

    def __init__(self, on_timer: Callable[..., Any]) -> None:
        self.clock = ManualTime()
        self.interrupted: Callable[[], Awaitable[None]] = yield_to_loop
        self.place: RuntimeContext = context(processing_time=self.clock, interrupt=self._interrupt)
        self.batches: list[list[Any]] = []
        self.where: Callable[[], str] | None = None
        self.calls = TimerCalls(on_timer, self.place, self._keep, view=OnTimerContext())
        self.calls.start()

    async def _interrupt(self) -> None:
        await self.interrupted()

    async def _keep(
        self,
        where: Callable[[], str],
        call: Callable[..., Any],
        *arguments: Any,
        stamps: NextTimestamps = no_timestamps,
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


async def test_a_waiting_timer_is_called_alone() -> None:
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
    assert some.batches == []
    await some.clock.advance(6)
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
    for timestamp_ms in range(3 * RECORDS_FIRST):
        some.register(timestamp_ms, "k")
    await some.calls.advance_watermark(3 * RECORDS_FIRST)
    assert len(some.batches[0]) == RECORDS_FIRST
    assert len(some.batches) > 1
    assert sum(map(len, some.batches)) == 3 * RECORDS_FIRST


async def test_a_mail_between_timers_may_fire_timers() -> None:
    """K23: a mail may run timers of the clock between timers of event time; each call sees its own
    domain."""
    some = Calls(tell)
    for timestamp_ms in range(RECORDS_FIRST + 1):
        some.register(timestamp_ms, "k")
    some.register(5, "by the clock", by_clock=True)

    async def interrupted() -> None:
        await some.clock.advance(6)

    some.interrupted = interrupted
    await some.calls.advance_watermark(RECORDS_FIRST)
    assert [batch[-1] for batch in some.batches] == [
        (RECORDS_FIRST - 1, "k", TimeDomain.EVENT_TIME),
        (5, "by the clock", TimeDomain.PROCESSING_TIME),
        (RECORDS_FIRST, "k", TimeDomain.EVENT_TIME),
    ]


async def test_without_timers_no_mails_run() -> None:
    """K23: nothing can be interrupted then."""
    some = Calls(tell)

    async def interrupted() -> None:
        raise AssertionError("there are no timers")

    some.interrupted = interrupted
    some.register(5, "k")
    await some.calls.advance_watermark(4)
    assert not some.batches
