"""Operators with two inputs: a method for each, selected by the channel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.broadcast_context import BroadcastContext, OnTimerBroadcastContext
from flinknet.functions.context import OnTimerContext, ProcessContext, RuntimeContext
from flinknet.functions.two_input_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from flinknet.operators.two_input_operator import (
    BroadcastProcessOperator,
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    TwoInputOperator,
)
from flinknet.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from flinknet.state.operator_state import BroadcastState
from flinknet.state.timer_service import TimeDomain
from flinknet.wire.events import Watermark
from tests.unit.operators.harness import Harness, context
from tests.unit.operators.manual_time import ManualTime

RULES = MapStateDescriptor("rules")


class Two(Harness):
    """An open operator with two channels in its first input; the next ones belong to the second."""

    def __init__(
        self,
        operator: TwoInputOperator,
        *,
        stamped: tuple[bool, bool] = (False, False),
        **fields: Any,
    ) -> None:
        place = context(channels_of_first_input=2, **fields)
        super().__init__(operator, place, stamped=any(stamped))
        self._stamped = stamped

    async def first(self, *records: Any) -> list[Any]:
        self.takes_stamped = self._stamped[0]
        self.context.process_context.channel = 1
        return await self.process(*records)

    async def second(self, *records: Any) -> list[Any]:
        self.takes_stamped = self._stamped[1]
        self.context.process_context.channel = 2
        return await self.process(*records)


class Tell(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return "first", value

    async def map2(self, value: Any) -> Any:
        return "second", value


async def test_each_input_has_its_method() -> None:
    async with Two(CoMapOperator(Tell())) as two:
        assert await two.first(1, 2) == [("first", 1), ("first", 2)]
        assert await two.second(3) == [("second", 3)]


async def test_one_input_may_have_no_timestamps() -> None:
    """Its results then have no timestamps either."""
    async with Two(CoMapOperator(Tell()), stamped=(True, False)) as two:
        assert await two.first((10, 1)) == [(10, ("first", 1))]
        assert await two.second(3) == [(None, ("second", 3))]


class Repeat(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterator[int]:
        yield from range(value)

    async def flat_map2(self, value: int) -> AsyncIterator[int]:
        if value < 0:
            raise ZeroDivisionError
        yield value

    def finish(self) -> list[str]:
        return ["the end"]


async def test_any_number_of_results_in_pieces() -> None:
    async with Two(CoFlatMapOperator(Repeat()), stamped=(False, True)) as two:
        assert await two.first(3000, 0) == [(None, number) for number in range(3000)]
        assert max(len(batch) for batch in two.batches) <= 2048
        assert await two.second((7, 5)) == [(7, 5)]
        with pytest.raises(JobFailedError, match="on a record of type int, -1: ZeroDivisionError"):
            await two.second((7, -1))
        assert await two.end_of_input() == [(None, "the end")]


class Failing(Repeat):
    def finish(self) -> list[str]:
        raise ZeroDivisionError


async def test_the_end_may_fail_too() -> None:
    async with Two(CoFlatMapOperator(Failing())) as two:
        with pytest.raises(JobFailedError, match=r"in finish\(\)"):
            await two.end_of_input()


class Join(KeyedCoProcessFunction):
    """Joins each record of the second input with the last one of the first."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element1(self, value: Any, ctx: ProcessContext) -> None:
        self.last.update(value[1])

    def process_element2(self, value: Any, ctx: ProcessContext) -> Iterator[Any]:
        yield ctx.get_current_key(), self.last.value(), ctx.timestamp()


async def test_both_inputs_share_the_state_of_a_key() -> None:
    keys = (lambda value: value[0], lambda value: value)
    async with Two(CoProcessOperator(Join(), keys), stamped=(True, True)) as two:
        assert await two.first((1, ("k", "old")), (2, ("k", "new")), (3, ("j", "other"))) == []
        assert await two.second((9, "k"), (8, "x")) == [
            (9, ("k", "new", 9)),
            (8, ("x", None, 8)),
        ]


class Bare:
    def process_element1(self, value: Any, ctx: Any) -> list[Any]:
        return [ctx.get_current_key()]

    process_element2 = process_element1


async def test_an_object_with_the_methods_will_do() -> None:
    async with Two(CoProcessOperator(Bare())) as two:
        assert await two.first(1) == [None]
        assert await two.end_of_input() == []


class Rule(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(*value)


async def test_broadcast_state_is_changed_by_one_input_and_read_by_the_other() -> None:
    operator = BroadcastProcessOperator(Rule(), (None, None), (RULES,))
    async with Two(operator) as two:
        assert await two.first("a") == [("a", None)]
        assert await two.second(("a", 5)) == []
        assert await two.first("a", "b") == [("a", 5), ("b", None)]


def test_a_co_process_function_is_one() -> None:
    assert issubclass(Join, CoProcessFunction)


class Meeting(KeyedCoProcessFunction):
    """Keeps a record of the first input until its time, or until the second input asks for it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept"))

    def process_element1(self, value: Any, ctx: ProcessContext) -> None:
        self.kept.update(value)
        ctx.timer_service().register_event_time_timer(value[1])

    def process_element2(self, value: Any, ctx: ProcessContext) -> Iterator[Any]:
        yield self.kept.value()
        ctx.timer_service().register_processing_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        assert ctx.timestamp() == timestamp
        yield ctx.get_current_key(), timestamp, ctx.time_domain(), self.kept.value()


class MeetingLater(Meeting):
    async def on_timer(  # type: ignore[override]
        self, timestamp: int, ctx: OnTimerContext
    ) -> AsyncIterator[Any]:
        for result in super().on_timer(timestamp, ctx):
            yield result


KEYS = (lambda value: value[0], lambda value: value[0])
BY_EVENT, BY_CLOCK = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME


@pytest.mark.parametrize("function", [Meeting(), MeetingLater()])
async def test_both_inputs_register_timers_of_a_key(function: Meeting) -> None:
    """They fire before the watermark is passed on, with the state that both inputs share."""
    clock = ManualTime()
    async with Two(CoProcessOperator(function, KEYS), processing_time=clock) as two:
        await two.first(("a", 5), ("b", 3))
        assert await two.second(("b", 70)) == [("b", 3)]
        await two.operator.process_event_time(Watermark(5))
        assert two.records[1:] == [("b", 3, BY_EVENT, ("b", 3)), ("a", 5, BY_EVENT, ("a", 5))]
        assert two.event_time == [Watermark(5)]
        await clock.advance(71)
        assert two.records[3:] == [("b", 70, BY_CLOCK, ("b", 3))]
        await two.first(("c", 9))
        await two.second(("c", 99))
        assert await two.end_of_input() == [("c", 9, BY_EVENT, ("c", 9))]
        assert not clock.due_ms, "after the end nothing fires by processing time"


@pytest.mark.parametrize("function", [Meeting(), MeetingLater()])
async def test_results_of_timers_have_their_event_time(function: Meeting) -> None:
    clock = ManualTime()
    operator = CoProcessOperator(function, KEYS)
    async with Two(operator, stamped=(True, False), processing_time=clock) as two:
        await two.first((1, ("a", 5)), (1, ("a", 6)))
        await two.second(("a", 70))
        await two.operator.process_event_time(Watermark(6))
        assert [stamp for stamp, _ in two.records] == [None, 5, 6]
        await clock.advance(71)
        assert two.records[3] == (None, ("a", 70, BY_CLOCK, ("a", 6)))


async def test_timers_of_two_inputs_are_restored_with_the_state() -> None:
    async with Two(CoProcessOperator(Meeting(), KEYS)) as two:
        await two.first(("a", 5))
        await two.second(("b", 7))
        snapshot = two.context.state.snapshot(1, 0)
        for _ in snapshot.slices():
            pass
    clock = ManualTime()
    restored = Two(CoProcessOperator(Meeting(), KEYS), processing_time=clock)
    for _ in restored.context.state.restore(1, [b"".join(snapshot.keyed_pieces())], []):
        pass
    async with restored as two:
        assert clock.due_ms == [7]
        await clock.advance(8)
        assert await two.end_of_input() == [("a", 5, BY_EVENT, ("a", 5))]
        assert two.records[0] == ("b", 7, BY_CLOCK, None)


class Hasty(Bare):
    def process_element1(self, value: Any, ctx: Any) -> list[Any]:
        ctx.timer_service()
        return []

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> None:
        """Is never called, as there is no key."""


async def test_without_keys_there_are_no_timers() -> None:
    async with Two(CoProcessOperator(Hasty())) as two:
        with pytest.raises(ConfigurationError, match="only a function with a key and on_timer"):
            await two.first(1)


class Reminded(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: BroadcastContext) -> None:
        ctx.timer_service().register_event_time_timer(value[1])

    def process_broadcast_element(self, value: Any, ctx: BroadcastContext) -> None:
        if value[0] == "timer":
            ctx.timer_service()
        state = ctx.get_broadcast_state(RULES)
        assert isinstance(state, BroadcastState)
        state.put(*value)

    def on_timer(self, timestamp: int, ctx: OnTimerBroadcastContext) -> Iterator[Any]:
        yield ctx.get_current_key(), ctx.get_broadcast_state(RULES).get(ctx.get_current_key())


async def test_timers_of_a_keyed_stream_read_broadcast_state() -> None:
    operator = BroadcastProcessOperator(Reminded(), (KEYS[0], None), (RULES,))
    async with Two(operator, stamped=(True, False)) as two:
        await two.first((0, ("a", 5)), (0, ("b", 6)))
        await two.second(("a", "rule"))
        await two.operator.process_event_time(Watermark(10))
        assert two.records == [(5, ("a", "rule")), (6, ("b", None))]
        with pytest.raises(ConfigurationError, match="a broadcast record has no key"):
            await two.second(("timer", 1))
