"""Windows with and without keys, side outputs, and connected streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, assert_type

from flinknet.datastream import (
    AggregateFunction,
    AllWindowFunction,
    BroadcastContext,
    BroadcastProcessFunction,
    BroadcastState,
    CoMapFunction,
    ConnectedStreams,
    CountWindow,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessContext,
    ProcessFunction,
    ProcessWindowFunction,
    ReadOnlyBroadcastState,
    StreamExecutionEnvironment,
    Time,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowContext,
    WindowedStream,
    WindowFunction,
)

env = StreamExecutionEnvironment.get_execution_environment()
sales = env.from_collection([("apple", 2)])
size = TumblingEventTimeWindows.of(Time.seconds(1))
windows = sales.key_by(lambda sale: sale[0]).window(size)
assert_type(windows, WindowedStream[tuple[str, int], str, TimeWindow])
counted = sales.key_by(lambda sale: sale[1]).count_window(3)
assert_type(counted, WindowedStream[tuple[str, int], int, CountWindow])
every = sales.window_all(size)


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: tuple[str, int], accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> float:
        return accumulator


class AtEnd(ProcessWindowFunction[float, tuple[int, str], str, TimeWindow]):
    def process(
        self,
        key: str,
        context: ProcessWindowFunction.Context[TimeWindow],  # pyright: ignore[reportInvalidTypeArguments]
        elements: Iterable[float],
    ) -> Iterator[tuple[int, str]]:
        yield context.window().end, key


class Names(WindowFunction):
    def apply(self, key: str, window: TimeWindow, inputs: list[tuple[str, int]]) -> list[str]:
        return [f"{key} {window.start}"]


class Every(ProcessAllWindowFunction):
    def process(self, context: WindowContext, elements: list[tuple[str, int]]) -> list[int]:
        return [context.window().end + len(elements)]


class EveryName(AllWindowFunction[tuple[str, int], str, TimeWindow]):
    def apply(self, window: TimeWindow, inputs: list[tuple[str, int]]) -> list[str]:
        return [sale[0] for sale in inputs]


assert_type(windows.reduce(lambda a, b: (a[0], a[1] + b[1])), DataStream[tuple[str, int]])
assert_type(windows.aggregate(Count()), DataStream[float])
assert_type(windows.aggregate(Count(), AtEnd()), DataStream[tuple[int, str]])
assert_type(windows.apply(Names()), DataStream[str])
assert_type(windows.process(Names()), DataStream[str])
assert_type(
    windows.process(lambda key, ctx, sales: [(key, ctx.window().end)]), DataStream[tuple[str, int]]
)
assert_type(counted.process(lambda key, ctx, sales: [ctx.window().id]), DataStream[int])
assert_type(every.process(Every()), DataStream[int])
assert_type(every.apply(EveryName()), DataStream[str])
assert_type(every.process(lambda ctx, sales: [len(sales)]), DataStream[int])
windows.aggregate(Count()).map(lambda number: number.upper())  # error: attr-defined
windows.reduce(lambda a, b: (a[0], a[1] + b[1]), AtEnd())  # error: arg-type
counted.apply(Names())  # error: arg-type
every.process(AtEnd())  # error: arg-type


# Side outputs.
class Odd(ProcessFunction):
    tag = OutputTag[str]("odd")

    def process_element(
        self, value: int, ctx: ProcessContext
    ) -> Iterator[int | tuple[OutputTag[str], str]]:
        yield (self.tag, str(value)) if value % 2 else value


numbers = env.from_collection([1])
even = numbers.process(Odd())
assert_type(even, DataStream[int])
assert_type(even.get_side_output(Odd.tag), DataStream[str])
assert_type(even.get_side_output(OutputTag("any")), DataStream[Any])
assert_type(
    windows.side_output_late_data(OutputTag[tuple[str, int]]("late")),
    WindowedStream[tuple[str, int], str, TimeWindow],
)
windows.side_output_late_data(OutputTag[int]("late"))  # error: arg-type
even.get_side_output("odd")  # error: arg-type


# Connected streams.
class Both(CoMapFunction):
    def map1(self, value: tuple[str, int]) -> bytes:
        return value[0].encode()

    def map2(self, value: int) -> bytes:
        return bytes(value)


class Either(KeyedCoProcessFunction[int, tuple[str, int], int, str]):
    def process_element1(self, value: tuple[str, int], ctx: ProcessContext) -> list[str]:
        return [value[0]]

    def process_element2(self, value: int, ctx: ProcessContext) -> None: ...


both = sales.connect(numbers)
assert_type(both, ConnectedStreams[tuple[str, int], int])
assert_type(both.map(Both()), DataStream[bytes])
by_number = both.key_by(lambda sale: sale[1], lambda number: number)
assert_type(by_number, ConnectedStreams[tuple[str, int], int])
assert_type(by_number.process(Either()), DataStream[str])
numbers.connect(sales).map(Both())  # error: arg-type
both.key_by(lambda sale: sale[2], lambda number: number)  # error: misc


# Broadcast state.
RULES = MapStateDescriptor("rules")


class Check(KeyedBroadcastProcessFunction):
    def process_element(
        self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[str]:
        assert_type(ctx.get_broadcast_state(RULES), ReadOnlyBroadcastState)
        ctx.get_broadcast_state(RULES).put(1, 2)  # error: attr-defined
        yield value[0]

    def process_broadcast_element(
        self, value: int, ctx: KeyedBroadcastProcessFunction.Context
    ) -> None:
        assert_type(ctx.get_broadcast_state(RULES), BroadcastState)
        ctx.get_broadcast_state(RULES).put(value, value)

    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext
    ) -> Iterator[str]:
        yield ctx.get_broadcast_state(RULES).get("limit")


class Pass(BroadcastProcessFunction):
    def process_element(self, value: tuple[str, int], ctx: BroadcastContext) -> list[str]:
        return [value[0]]

    def process_broadcast_element(self, value: int, ctx: BroadcastContext) -> None:
        ctx.get_broadcast_state(RULES).put(value, value)


keyed = sales.key_by(lambda sale: sale[0])
assert_type(keyed.connect(numbers.broadcast(RULES)).process(Check()), DataStream[str])
assert_type(sales.connect(numbers.broadcast(RULES)).process(Pass()), DataStream[str])
numbers.connect(numbers.broadcast(RULES)).process(Pass())  # error: arg-type


class Timed(KeyedProcessFunction):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> list[str]:
        return [ctx.time_domain().name]


class Quiet(KeyedProcessFunction):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> list[bytes]:
        return [b""]

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None: ...


by_itself = numbers.key_by(lambda n: n)
assert_type(by_itself.process(Timed()), DataStream[str])
assert_type(by_itself.process(Quiet()), DataStream[bytes])
