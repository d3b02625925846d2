"""Operators with two inputs: a method for each, told apart by the channel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from flinknet.errors import JobFailedError
from flinknet.task.context import ProcessContext, RuntimeContext
from flinknet.task.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from flinknet.task.two_input_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flinknet.task.two_input_operator import (
    BroadcastProcessOperator,
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    TwoInputOperator,
)
from tests.unit.task.harness import Harness, context

RULES = MapStateDescriptor("rules")


class Two(Harness):
    """An open operator whose first two channels belong to its first input."""

    def __init__(self, operator: TwoInputOperator) -> None:
        super().__init__(operator, context(channels_of_first_input=2))

    async def first(self, *records: Any) -> list[Any]:
        self.context.process_context.channel = 1
        return await self.process(*records)

    async def second(self, *records: Any) -> list[Any]:
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
    """Its results have none either."""
    async with Two(CoMapOperator(Tell(), stamped=(True, False))) as two:
        assert await two.first((10, 1)) == [(10, ("first", 1))]
        assert await two.second(3) == [(None, ("second", 3))]


class Repeat(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterator[int]:
        yield from range(value)

    async def flat_map2(  # type: ignore[override]
        self, value: int
    ) -> AsyncIterator[int]:
        if value < 0:
            raise ZeroDivisionError
        yield value

    def finish(self) -> list[str]:
        return ["the end"]


async def test_any_number_of_results_in_pieces() -> None:
    async with Two(CoFlatMapOperator(Repeat(), stamped=(False, True))) as two:
        assert await two.first(3000, 0) == [(None, number) for number in range(3000)]
        assert max(len(batch) for batch in two.batches) <= 2048
        assert await two.second((7, 5)) == [(7, 5)]
        with pytest.raises(JobFailedError, match="on a record of type int: ZeroDivisionError"):
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
    async with Two(CoProcessOperator(Join(), keys, stamped=(True, True))) as two:
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
