"""Connected streams in whole jobs, and forbidden uses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from flinknet.datastream import (
    CoFlatMapFunction,
    CollectSink,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessContext,
    RuntimeContext,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flinknet.errors import ConfigurationError
from tests.unit.runtime.running import run_job

RULES = MapStateDescriptor("rules")
ODD = OutputTag("odd")
BY_VALUE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
    lambda value, stamp: value
)


@pytest.fixture
def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment().set_parallelism(2)


def numbers(environment: StreamExecutionEnvironment, *bounds: int) -> DataStream:
    return environment.from_collection(range(*bounds)).name(f"numbers {bounds}")


class Signed(CoMapFunction):
    def map1(self, value: int) -> int:
        return value

    def map2(self, value: int) -> int:
        return -value


class Kept(CoFlatMapFunction):
    def flat_map1(self, value: int) -> list[int]:
        return [value] if value % 2 else []

    def flat_map2(self, value: int) -> list[int]:
        return [value, value]


class Split(CoProcessFunction):
    def process_element1(self, value: int, ctx: ProcessContext) -> Iterator[Any]:
        yield (ODD, value) if value % 2 else value

    def process_element2(self, value: int, ctx: ProcessContext) -> Iterator[Any]:
        yield value, ctx.timestamp()


class Counted(KeyedCoProcessFunction):
    """Counts both streams by key, in one state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element1(self, value: int, ctx: ProcessContext) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count

    process_element2 = process_element1


async def test_unions_and_exchanges_may_be_connected(
    environment: StreamExecutionEnvironment,
) -> None:
    first = numbers(environment, 10).union(numbers(environment, 10, 20))
    second = numbers(environment, 20, 30).rebalance().map(lambda value: value).rebalance()
    first.connect(second).map(Signed()).sink_to(CollectSink()).name("map")
    first.connect(second).flat_map(Kept()).sink_to(CollectSink()).name("flat map")
    split = first.connect(second).process(Split())
    split.sink_to(CollectSink()).name("process")
    split.get_side_output(ODD).sink_to(CollectSink()).name("odd")
    collected = (await run_job(environment, workers=2)).collected
    assert sorted(collected["map"]) == [*range(-29, -19), *range(20)]
    assert sorted(collected["flat map"]) == sorted([*range(1, 20, 2), *(2 * [*range(20, 30)])])
    assert sorted(collected["odd"]) == list(range(1, 20, 2))
    assert sorted(collected["process"], key=str) == sorted(
        [*range(0, 20, 2), *((value, None) for value in range(20, 30))], key=str
    )


async def test_keys_of_both_streams_meet(environment: StreamExecutionEnvironment) -> None:
    first, second = numbers(environment, 30), numbers(environment, 60)
    connected = first.connect(second).key_by(lambda value: value % 3, lambda value: value % 3)
    connected.process(Counted()).sink_to(CollectSink()).name("out")
    keyed = first.key_by(lambda value: value % 3).connect(second.key_by(lambda value: value % 3))
    keyed.process(Counted()).sink_to(CollectSink()).name("same")
    collected = (await run_job(environment, workers=2)).collected
    expected = [(key, count) for key in range(3) for count in range(1, 31)]
    assert sorted(collected["out"]) == sorted(collected["same"]) == expected


class Rule(KeyedBroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), ctx.timestamp()

    def process_broadcast_element(self, value: int, ctx: Any) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put(value, value)
        yield "rules", len(list(ctx.get_broadcast_state(RULES).items()))


async def test_every_subtask_has_what_was_broadcast(
    environment: StreamExecutionEnvironment,
) -> None:
    rules = numbers(environment, 3).broadcast(RULES)
    stamped = numbers(environment, 10).assign_timestamps_and_watermarks(BY_VALUE)
    stamped.key_by(lambda value: value % 2).connect(rules).process(Rule()).sink_to(
        CollectSink()
    ).name("out")
    out = (await run_job(environment, workers=2)).collected["out"]
    assert sorted(record for record in out if record[0] == "rules") == [
        ("rules", count) for count in (1, 1, 2, 2, 3, 3)
    ]
    assert sorted(record for record in out if record[0] != "rules") == sorted(
        (value % 2, value) for value in range(10)
    )


async def test_a_stream_without_timestamps_does_not_hold_event_time_back(
    environment: StreamExecutionEnvironment,
) -> None:
    """Windows behind both fire. Records without timestamps were dropped before them."""
    stamped = numbers(environment, 40).assign_timestamps_and_watermarks(BY_VALUE)
    both = stamped.connect(numbers(environment, 5)).map(Signed()).filter(lambda value: value > 0)
    windows = both.window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    windows.reduce(max).sink_to(CollectSink()).name("out")
    collected = (await run_job(environment, workers=2)).collected
    assert sorted(collected["out"]) == [9, 19, 29, 39]


timed_has_ended = asyncio.Event()


class Ending(MapFunction):
    def map(self, value: int) -> int:
        return value

    def close(self) -> None:
        timed_has_ended.set()


async def behind_its_end(value: int) -> int:
    await timed_has_ended.wait()
    return value


class CountedUntilTheEnd(KeyedCoProcessFunction):
    """Emits the number of records in a timer of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element1(self, value: int, ctx: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1_000)

    process_element2 = process_element1

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield self.count.value()


async def test_event_time_ends_behind_the_records_that_have_no_timestamps(
    environment: StreamExecutionEnvironment,
) -> None:
    """As in Flink, a timer that no watermark fires has seen all records of both streams."""
    timed_has_ended.clear()
    timed = numbers(environment, 4).assign_timestamps_and_watermarks(BY_VALUE).map(Ending())
    silent = numbers(environment, 100).map(behind_its_end)
    connected = timed.connect(silent).key_by(lambda value: 0, lambda value: 0)
    connected.process(CountedUntilTheEnd()).sink_to(CollectSink()).name("out")
    assert (await run_job(environment, workers=2)).collected["out"] == [104]


def test_wrong_connections_are_refused(environment: StreamExecutionEnvironment) -> None:
    first, second = numbers(environment, 3), numbers(environment, 3)
    with pytest.raises(ConfigurationError, match="of one execution environment"):
        first.connect(numbers(StreamExecutionEnvironment(), 3))
    with pytest.raises(ConfigurationError, match="need a CoMapFunction here, not function"):
        first.connect(second).map(lambda value: value)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="not both streams have a key"):
        first.connect(second.key_by(lambda value: value)).process(Counted())
    with pytest.raises(ConfigurationError, match="the stream has no key"):
        first.connect(second.broadcast(RULES)).process(Rule())
    with pytest.raises(ConfigurationError, match="needs MapStateDescriptors"):
        first.broadcast(ValueStateDescriptor("a"))  # type: ignore[call-overload]
