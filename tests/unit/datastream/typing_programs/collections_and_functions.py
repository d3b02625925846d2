"""Records of a collection through callables and function classes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from flinknet.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    OnTimerContext,
    ProcessContext,
    ReduceFunction,
    StreamExecutionEnvironment,
    Time,
)

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2])
assert_type(numbers, DataStream[int])

# Lambdas and functions.
pairs = numbers.map(lambda n: (n % 2, n))
assert_type(pairs, DataStream[tuple[int, int]])
keyed = pairs.key_by(lambda p: p[0])
assert_type(keyed, KeyedStream[tuple[int, int], int])
assert_type(keyed.reduce(lambda a, b: (a[0], a[1] + b[1])), DataStream[tuple[int, int]])
assert_type(keyed.sum(1), DataStream[tuple[int, int]])
assert_type(numbers.map(str), DataStream[str])
assert_type(numbers.flat_map(lambda n: [str(n)] * n), DataStream[str])
assert_type(numbers.flat_map(range), DataStream[int])
assert_type(numbers.filter(lambda n: n > 1).rebalance().name("kept"), DataStream[int])
assert_type(numbers.map_batch(lambda batch: [sum(batch)]), DataStream[int])
assert_type(keyed.process_batch(lambda key, batch: [f"{key + 1}: {len(batch)}"]), DataStream[str])
assert_type(numbers.union(numbers.map(str)), DataStream[int | str])
assert_type(
    numbers.process(lambda n, ctx: [(n, ctx.timestamp())]), DataStream[tuple[int, int | None]]
)
assert_type(numbers.execute_and_collect(limit=1), list[int])


async def ask(number: int) -> str:
    return str(number)


async def ask_for_several(number: int) -> list[str]:
    return [str(number)]


assert_type(numbers.map(ask), DataStream[str])
assert_type(
    AsyncDataStream.unordered_wait(numbers, ask_for_several, Time.seconds(1)), DataStream[str]
)

numbers.map(lambda n: n.upper())  # error: attr-defined
numbers.map(ask).map(lambda text: text + 1)  # error: operator
numbers.flat_map(lambda n: n)  # error: arg-type, return-value
numbers.filter(lambda n: n.upper())  # error: attr-defined
keyed.reduce(lambda a, b: (a[0], str(b[1])))  # error: arg-type, return-value
keyed.reduce(lambda a, b: a[2])  # error: misc


def length(text: str) -> int:
    return len(text)


assert_type(numbers.map(str).map(length), DataStream[int])
numbers.map(length)  # error: arg-type
numbers.key_by(length)  # error: arg-type
AsyncDataStream.ordered_wait(pairs, ask_for_several, Time.seconds(1))  # error: arg-type


# Function classes with type parameters.
class Halve(MapFunction[int, float]):
    def map(self, value: int) -> float:
        return value / 2


class Ask(AsyncFunction[float, str]):
    async def async_invoke(self, value: float) -> list[str]:
        return [str(value)]


class Wrong(MapFunction[int, float]):
    def map(self, value: int) -> str:  # error: override
        return str(value)


class Total(AggregateFunction[int, list[int], float]):
    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [*accumulator, value]

    def get_result(self, accumulator: list[int]) -> float:
        return sum(accumulator)


class Alarm(KeyedProcessFunction[int, tuple[int, int], str]):
    def process_element(
        self, value: tuple[int, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[str]:
        ctx.timer_service().register_event_time_timer(value[1])
        yield "one"


assert_type(numbers.map(Halve()), DataStream[float])
assert_type(
    AsyncDataStream.ordered_wait(numbers.map(Halve()), Ask(), Time.seconds(1)), DataStream[str]
)
assert_type(keyed.process(Alarm()), DataStream[str])
assert_type(numbers.key_by(lambda n: n % 2 == 0).aggregate(Total()), DataStream[tuple[bool, float]])
numbers.map(str).map(Halve())  # error: arg-type
numbers.map(Halve)  # error: arg-type
keyed.aggregate(Total())  # error: arg-type


# Function classes as programs for PyFlink have them: the annotations of their methods count.
class Text(MapFunction):
    def map(self, value: int) -> str:
        return str(value)


class TextLater(MapFunction):
    async def map(self, value: int) -> str:
        return str(value)


class Unknown(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class Parity(KeySelector):
    def get_key(self, value: int) -> bool:
        return value % 2 == 0


class Sum(ReduceFunction):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Late(KeyedProcessFunction):
    async def process_element(self, value: int, ctx: ProcessContext) -> AsyncIterator[bytes]:
        yield b""

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[str]:
        yield ctx.time_domain().name


assert_type(numbers.map(Text()), DataStream[str])
assert_type(numbers.map(TextLater()), DataStream[str])
assert_type(numbers.map(Unknown()), DataStream[Any])
by_parity = numbers.key_by(Parity())
assert_type(by_parity, KeyedStream[int, bool])
assert_type(by_parity.map(Text()), DataStream[str])
assert_type(by_parity.reduce(Sum()), DataStream[int])
assert_type(by_parity.process(Late()), DataStream[bytes | str])
numbers.map(Text()).map(Text())  # error: arg-type
numbers.map(Text()).key_by(Parity())  # error: arg-type
keyed.reduce(Sum())  # error: arg-type
keyed.process(Late())  # error: arg-type
