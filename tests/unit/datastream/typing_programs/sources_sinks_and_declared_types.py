"""Sources, sinks, timestamps, and programs that declare types as PyFlink's do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from flinknet.datastream import (
    CollectSink,
    DataStream,
    GeneratorSource,
    MapFunction,
    NumberSequenceSource,
    RateLimitedSource,
    Row,
    RuntimeContext,
    Sink,
    SinkFunction,
    SocketSource,
    Source,
    StreamExecutionEnvironment,
    TextFileSource,
    Types,
    ValueState,
    ValueStateDescriptor,
    WatermarkStrategy,
)

env = StreamExecutionEnvironment.get_execution_environment()


class Clicks(Source[tuple[str, int]]):
    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[tuple[str, int]]]:
        yield [("ann", 1)]


class Untyped(Source):
    def batches(self, context: RuntimeContext) -> Iterator[list[Any]]:
        yield [1]


class WrongBatches(Source[int]):
    def batches(self, context: RuntimeContext) -> Iterator[list[str]]:  # error: override
        yield ["a"]


clicks = env.from_source(Clicks(), name="clicks")
assert_type(clicks, DataStream[tuple[str, int]])
assert_type(env.from_source(Untyped()), DataStream[Any])
assert_type(env.from_source(NumberSequenceSource(1, 3)), DataStream[int])
assert_type(env.from_source(GeneratorSource(lambda n: str(n + 1), 3)), DataStream[str])
assert_type(env.from_source(RateLimitedSource(NumberSequenceSource(1, 3), 10)), DataStream[int])
assert_type(env.from_source(TextFileSource("in.txt")), DataStream[str])
assert_type(env.from_source(SocketSource("localhost", 7000)), DataStream[str])
assert_type(env.add_source(Clicks()), DataStream[tuple[str, int]])
env.from_source([1])  # error: call-overload
env.from_source(Clicks()).map(lambda click: click.page)  # error: attr-defined


# Timestamps.
def time_of(click: tuple[str, int], _: int | None) -> int:
    return click[1]


event_time = WatermarkStrategy.for_monotonous_timestamps()
by_second = event_time.with_timestamp_assigner(time_of)
assert_type(clicks.assign_timestamps_and_watermarks(by_second), DataStream[tuple[str, int]])
assert_type(
    clicks.assign_timestamps_and_watermarks(
        event_time.with_timestamp_assigner(lambda click, _: click[1])
    ),
    DataStream[tuple[str, int]],
)
env.from_collection([1]).assign_timestamps_and_watermarks(by_second)  # error: arg-type


# Sinks.
class Lines(Sink[str]):
    def write(self, records: list[str]) -> None: ...


class Ignore(SinkFunction):
    def invoke(self, value: object) -> None: ...


texts = env.from_collection(["a"])
texts.sink_to(Lines()).name("lines")
texts.sink_to(CollectSink())
texts.add_sink(Ignore())
texts.sink_to(print)
clicks.sink_to(Lines())  # error: arg-type
clicks.sink_to(lambda click: click.nope)  # error: attr-defined

# Declared types: records are converted to them.
READING = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.INT()])
rows = env.from_collection([("a", 1)], READING)
assert_type(rows, DataStream[Row])
rows.map(lambda row: row.value)
assert_type(env.from_collection([("a", 1)], type_info=READING), DataStream[Row])
assert_type(env.from_source(Clicks(), None, "clicks", READING), DataStream[Row])
assert_type(clicks.map(lambda click: (click[0], 1), output_type=READING), DataStream[Row])
pairs = texts.map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
assert_type(pairs, DataStream[tuple[Any, ...]])
assert_type(texts.flat_map(lambda text: text.split(), output_type=Types.STRING()), DataStream[str])
assert_type(texts.map(len, output_type=Types.LIST(Types.INT())), DataStream[list[int]])
pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).reduce(
    lambda one, other: (one[0], one[1] + other[1])
).print()


# Bare classes are valid annotations under --strict, and so are parameters.
class Counter(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count: ValueState[int] = runtime_context.get_state(ValueStateDescriptor("count"))

    def map(self, value: Any) -> int:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.count.update("many")  # error: arg-type
        return count


def loud(stream: DataStream) -> DataStream:
    return stream.map(lambda text: text.upper())


def quiet(stream: DataStream[str]) -> DataStream[str]:
    return stream.map(lambda text: text.lower())


assert_type(loud(texts), DataStream)
quiet(clicks)  # error: arg-type
