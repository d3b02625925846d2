"""The main stream of an operator that may yield tags is the same whether or not a tag is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import pytest

from flinknet.datastream import (
    BroadcastProcessFunction,
    CollectSink,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from tests.unit.runtime.running import run_job

ODD = OutputTag("odd")
TEN_MS = TumblingEventTimeWindows.of(Time.milliseconds(10))
RULES = MapStateDescriptor("rules")
BY_VALUE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
    lambda value, stamp: value
)


def sorted_out(value: int) -> Iterator[Any]:
    yield (ODD, value) if value % 2 else value


class Process(ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        return sorted_out(value)

    def finish(self) -> Iterator[Any]:
        yield ODD, 1001
        yield 1000


async def process_awaiting(value: int, ctx: Any) -> AsyncIterator[Any]:
    for result in sorted_out(value):
        yield result


class AtTimers(KeyedProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(value)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        return sorted_out(timestamp)


class CoProcess(CoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> Iterator[Any]:
        return sorted_out(value)

    def process_element2(self, value: int, ctx: Any) -> Iterator[Any]:
        return sorted_out(value + 100)


class KeyedCoProcess(KeyedCoProcessFunction):
    process_element1 = process_element2 = AtTimers.process_element
    on_timer = AtTimers.on_timer


class Broadcast(BroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        return sorted_out(value)

    def process_broadcast_element(self, value: int, ctx: Any) -> Iterator[Any]:
        return sorted_out(value + 100)


class KeyedBroadcast(Broadcast, KeyedBroadcastProcessFunction):
    pass


class Windows(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        for element in elements:
            yield from sorted_out(element)

    def finish(self) -> Iterator[Any]:
        yield ODD, 1001


class AllWindows(ProcessWindowFunction):
    def process(self, context: Any, elements: Any) -> Iterator[Any]:  # type: ignore[override]
        for element in elements:
            yield from sorted_out(element)


def keyed(stream: DataStream) -> Any:
    return stream.key_by(lambda value: value % 3)


def rules(stream: DataStream) -> Any:
    program: Any = stream.get_execution_environment()
    return program.from_collection([0, 1, 2]).name("rules").broadcast(RULES)


def late_to_none(stream: DataStream) -> DataStream:
    made: DataStream = (
        keyed(stream).window(TEN_MS).side_output_late_data(OutputTag("late")).process(Windows())
    )
    return made


KINDS: dict[str, tuple[Callable[[Any], DataStream], bool]] = {
    "process": (lambda one: one.process(Process()), False),
    "process, stamped": (lambda one: one.process(Process()), True),
    "process, awaiting": (lambda one: one.process(process_awaiting), False),
    "process, awaiting, stamped": (lambda one: one.process(process_awaiting), True),
    "process, plain": (lambda one: one.process(lambda value, ctx: [*sorted_out(value)]), False),
    "keyed process": (lambda one: keyed(one).process(Process()), False),
    "timers": (lambda one: keyed(one).process(AtTimers()), True),
    "co-process": (lambda one: one.connect(one).process(CoProcess()), False),
    "co-process, stamped": (lambda one: one.connect(one).process(CoProcess()), True),
    "co-process, timers": (
        lambda one: keyed(one).connect(keyed(one)).process(KeyedCoProcess()),
        True,
    ),
    "broadcast": (lambda one: one.connect(rules(one)).process(Broadcast()), False),
    "broadcast, keyed": (
        lambda one: keyed(one).connect(rules(one)).process(KeyedBroadcast()),
        True,
    ),
    "window": (lambda one: keyed(one).window(TEN_MS).process(Windows()), True),
    "window, all": (lambda one: one.window_all(TEN_MS).process(AllWindows()), True),
    "window, count": (lambda one: keyed(one).count_window(1).process(Windows()), False),
    "window, late": (late_to_none, True),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_main_stream_is_the_same_whether_a_tag_is_read(kind: str) -> None:
    make, stamped = KINDS[kind]
    mains, odds = [], []
    for is_read in (False, True):
        environment = StreamExecutionEnvironment().set_parallelism(2)
        numbers = environment.from_collection(range(20))
        if stamped:
            numbers = numbers.assign_timestamps_and_watermarks(BY_VALUE)
        stream = make(numbers)
        stream.map(lambda value: value).sink_to(CollectSink()).name("chained")
        stream.rebalance().map(lambda value: value).sink_to(CollectSink()).name("sent")
        if is_read:
            stream.get_side_output(ODD).sink_to(CollectSink()).name("odd")
        collected = (await run_job(environment)).collected
        mains.append((sorted(collected["chained"]), sorted(collected["sent"])))
        odds.append(collected.get("odd"))
    assert mains[0] == mains[1]
    chained, sent = mains[0]
    assert chained == sent
    assert set(range(0, 20, 2)) <= set(chained)
    assert all(value % 2 == 0 for value in chained)
    assert odds[0] is None
    assert odds[1] is not None
    assert set(range(1, 20, 2)) <= set(odds[1])
