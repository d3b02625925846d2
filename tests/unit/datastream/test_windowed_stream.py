"""Windows in whole jobs, and forbidden uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import pytest

from flinknet.datastream import (
    AggregateFunction,
    AllWindowFunction,
    CollectSink,
    ContinuousEventTimeTrigger,
    CountTrigger,
    CountWindow,
    DataStream,
    Duration,
    EventTimeSessionWindows,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    Time,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WatermarkStrategy,
    WindowContext,
    WindowFunction,
)
from flinknet.errors import ConfigurationError
from tests.unit.runtime.running import run_job

TEN = Time.milliseconds(10)
RANDOM = Random(7)
BOUND_MS = 40
READINGS = [
    (RANDOM.randrange(5), stamp + RANDOM.randrange(BOUND_MS)) for stamp in range(0, 3000, 3)
]
"""Pairs of a key and a time, out of order, but never later than the bound."""


@pytest.fixture
def environment() -> StreamExecutionEnvironment:
    environment = StreamExecutionEnvironment().set_parallelism(2)
    environment.get_config().set_auto_watermark_interval(1)
    return environment


def readings(environment: StreamExecutionEnvironment) -> DataStream:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
    stream = environment.from_collection(READINGS)
    return stream.assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda value, stamp: value[1])
    )


def key_of(value: Any) -> Any:
    return value[0]


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Named(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterator[Any]:
        for one in elements:
            yield key, tuple(context.window()), one


class Sized(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: list[Any]) -> Iterable[Any]:
        return [(key, tuple(window), len(inputs))]


def counts(size: int, slide: int) -> list[Any]:
    """Return the number of readings in each window of each key, computed in a batch."""
    found: dict[Any, int] = {}
    for key, stamp in READINGS:
        for start in range(stamp // slide * slide, stamp - size, -slide):
            found[key, (start, start + size)] = found.get((key, (start, start + size)), 0) + 1
    return sorted((key, window, count) for (key, window), count in found.items())


@pytest.mark.parametrize("parallelism", [1, 3])
async def test_windows_of_a_job_are_those_of_a_batch(
    environment: StreamExecutionEnvironment, parallelism: int
) -> None:
    """This is tested for every kind of function, over an exchange by key between two workers."""
    keyed = readings(environment).rebalance().map(lambda value: value).key_by(key_of)
    tumbling = keyed.window(TumblingEventTimeWindows.of(TEN))
    sliding = keyed.window(SlidingEventTimeWindows.of(TEN, Time.milliseconds(5)))
    streams = {
        "aggregate": tumbling.aggregate(Count(), Named()),
        "apply": tumbling.apply(Sized()),
        "function": tumbling.process(lambda key, ctx, all: [(key, tuple(ctx.window()), len(all))]),
        "sliding": sliding.aggregate(Count(), Named()),
        "reduce": tumbling.reduce(lambda one, other: (one[0], max(one[1], other[1]))),
    }
    for name, stream in streams.items():
        stream.set_parallelism(parallelism).sink_to(CollectSink()).name(name)
    collected = (await run_job(environment, workers=2)).collected
    for name in ("aggregate", "apply", "function"):
        assert sorted(collected[name]) == counts(10, 10)
    assert sorted(collected["sliding"]) == counts(10, 5)
    latest: dict[Any, int] = {}
    for key, stamp in READINGS:
        latest[key, stamp // 10] = max(stamp, latest.get((key, stamp // 10), stamp))
    assert sorted(collected["reduce"]) == sorted((key, last) for (key, _), last in latest.items())


async def test_windows_that_speak_now_and_then(environment: StreamExecutionEnvironment) -> None:
    """Each firing covers the records so far, and the last one all records."""
    keyed = readings(environment).key_by(key_of)
    trigger = ContinuousEventTimeTrigger.of(TEN)
    tumbling = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(100))).trigger(trigger)
    tumbling.aggregate(Count(), Named()).sink_to(CollectSink()).name("tumbling")
    sessions = keyed.window(EventTimeSessionWindows.with_gap(TEN))
    sessions.aggregate(Count(), Named()).sink_to(CollectSink()).name("sessions")
    spoken = sessions.trigger(trigger).aggregate(Count(), Named())
    spoken.sink_to(CollectSink()).name("continuous sessions")
    collected = (await run_job(environment)).collected
    last: dict[Any, int] = {}
    for key, window, count in collected["tumbling"]:
        assert count >= last.get((key, window), 0)
        last[key, window] = count
    assert sorted((*place, count) for place, count in last.items()) == counts(100, 100)
    assert len(collected["tumbling"]) > len(last)
    last = {(key, window): count for key, window, count in collected["continuous sessions"]}
    in_the_end = {(key, window): count for key, window, count in collected["sessions"]}
    assert {place: last[place] for place in in_the_end} == in_the_end


async def test_sessions_of_a_job(environment: StreamExecutionEnvironment) -> None:
    keyed = readings(environment).key_by(key_of)
    sessions = keyed.window(EventTimeSessionWindows.with_gap(TEN)).aggregate(Count(), Named())
    sessions.sink_to(CollectSink()).name("out")
    expected = []
    for key in range(5):
        times = sorted(stamp for one, stamp in READINGS if one == key)
        begun = count = 0
        for number, stamp in enumerate(times):
            begun = stamp if count == 0 else begun
            count += 1
            if number + 1 == len(times) or times[number + 1] > stamp + 10:
                expected.append((key, (begun, stamp + 10), count))
                count = 0
    assert sorted((await run_job(environment)).collected["out"]) == sorted(expected)


async def test_windows_of_windows(environment: StreamExecutionEnvironment) -> None:
    """Results have the time of their window's end, so they can be put into windows again."""
    keyed = readings(environment).key_by(key_of)
    tens = keyed.window(TumblingEventTimeWindows.of(TEN)).aggregate(Count())
    hundreds = tens.window_all(TumblingEventTimeWindows.of(Time.milliseconds(100)))
    hundreds.reduce(int.__add__).sink_to(CollectSink()).name("out")
    collected = (await run_job(environment, workers=2)).collected
    sums: dict[int, int] = {}
    for _, stamp in READINGS:
        sums[stamp // 100] = sums.get(stamp // 100, 0) + 1
    assert sorted(collected["out"]) == sorted(sums.values())


class CountAll(ProcessAllWindowFunction):
    def process(self, context: WindowContext, elements: list[Any]) -> Iterable[Any]:
        return [(context.window().max_timestamp() - 999, len(elements))]


class CountAllToo(AllWindowFunction):
    def apply(self, window: Any, inputs: list[Any]) -> Iterable[Any]:
        return [(window.start, len(inputs))]


async def test_all_windows_have_no_key(environment: StreamExecutionEnvironment) -> None:
    windows = readings(environment).window_all(TumblingEventTimeWindows.of(Time.seconds(1)))
    windows.process(CountAll()).sink_to(CollectSink()).name("process")
    windows.apply(CountAllToo()).sink_to(CollectSink()).name("apply")
    collected = (await run_job(environment)).collected
    expected: dict[int, int] = {}
    for _, stamp in READINGS:
        start = stamp // 1000 * 1000
        expected[start] = expected.get(start, 0) + 1
    assert sorted(collected["process"]) == sorted(collected["apply"]) == sorted(expected.items())


async def test_late_data_is_a_side_output(environment: StreamExecutionEnvironment) -> None:
    """Each record counts once: in its window, or as late.

    Without a reader late records are dropped.
    """
    late = OutputTag("late")
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stamped = readings(environment).assign_timestamps_and_watermarks(strategy)
    windows = stamped.key_by(key_of).window(TumblingEventTimeWindows.of(TEN))
    counted = windows.side_output_late_data(late).aggregate(Count())
    counted.sink_to(CollectSink()).name("counted")
    counted.get_side_output(late).map(key_of).sink_to(CollectSink()).name("late")
    unread = windows.allowed_lateness(Time.seconds(100)).aggregate(Count())
    unread.sink_to(CollectSink()).name("unread")
    collected = (await run_job(environment)).collected
    assert sum(collected["counted"]) + len(collected.get("late", [])) == len(READINGS)
    assert all(isinstance(count, int) for count in collected["unread"])


async def test_windows_by_count_need_no_time(environment: StreamExecutionEnvironment) -> None:
    keyed = environment.from_collection(range(10)).key_by(lambda value: value % 2)
    keyed.count_window(2).reduce(int.__add__).sink_to(CollectSink()).name("out")
    assert sorted((await run_job(environment)).collected["out"]) == [2, 4, 10, 12]


@pytest.mark.parametrize(
    ("slide", "expected"),
    [(0, [(0, [1, 2]), (1, [3, 4])]), (1, [(0, [1]), (1, [1, 2]), (2, [2, 3]), (3, [3, 4])])],
)
async def test_functions_are_told_which_count_window_it_is(
    environment: StreamExecutionEnvironment, slide: int, expected: list[Any]
) -> None:
    """Windows are numbered per key, and both kinds of function get the same number."""

    def apply(key: int, window: CountWindow, elements: list[int]) -> list[Any]:
        assert window.max_timestamp() > 0
        return [(key, window.id, elements)]

    def process(key: int, context: WindowContext, elements: list[int]) -> list[Any]:
        window = context.window()
        assert isinstance(window, CountWindow)
        return [(key, window.id, elements)]

    numbers = environment.from_collection([1, 2, 3, 4, 11, 12, 13, 14])
    windows = numbers.key_by(lambda value: value // 10).count_window(2, slide)
    windows.apply(apply).sink_to(CollectSink()).name("apply")
    windows.process(process).sink_to(CollectSink()).name("process")
    collected = (await run_job(environment)).collected
    tens = [(1, id, [10 + one for one in elements]) for id, elements in expected]
    wanted = sorted([(0, *one) for one in expected] + tens)
    assert sorted(collected["apply"]) == sorted(collected["process"]) == wanted


def test_event_time_windows_need_timestamps(environment: StreamExecutionEnvironment) -> None:
    keyed = environment.from_collection(READINGS).key_by(key_of)
    keyed.window(TumblingEventTimeWindows.of(TEN)).aggregate(Count()).print()
    with pytest.raises(ConfigurationError, match="needs records with timestamps"):
        environment.job_graph()
    other = StreamExecutionEnvironment().from_collection(READINGS).key_by(key_of)
    other.window(TumblingProcessingTimeWindows.of(TEN)).aggregate(Count()).print()
    program = other._program
    assert isinstance(program, StreamExecutionEnvironment)
    assert program.job_graph().vertices[-1].name.startswith("TumblingProcessingTimeWindows")


class Unmerged(Trigger):
    def on_element(self, *arguments: Any) -> TriggerResult:
        return TriggerResult.FIRE


def test_wrong_windows_are_refused(environment: StreamExecutionEnvironment) -> None:
    keyed = readings(environment).key_by(key_of)
    with pytest.raises(ConfigurationError, match="a window needs a WindowAssigner, not Time"):
        keyed.window(TEN)  # type: ignore[arg-type]
    windows = keyed.window(EventTimeSessionWindows.with_gap(TEN))
    with pytest.raises(ConfigurationError, match="trigger needs a Trigger, not int"):
        windows.trigger(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="Unmerged cannot merge"):
        windows.trigger(Unmerged())
    with pytest.raises(ConfigurationError, match="allowed_lateness is -1 ms"):
        windows.allowed_lateness(-1)
    with pytest.raises(ConfigurationError, match="late data needs an OutputTag, not 'late'"):
        windows.side_output_late_data("late")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="process needs a callable"):
        windows.trigger(CountTrigger(3)).process(5)  # type: ignore[call-overload]


async def test_count_windows_slide(environment: StreamExecutionEnvironment) -> None:
    environment.set_parallelism(1)
    keyed = environment.from_collection(range(1, 8)).key_by(lambda value: 0)
    keyed.count_window(3, 2).reduce(int.__add__).sink_to(CollectSink()).name("out")
    collected = (await run_job(environment)).collected
    assert collected["out"] == [1 + 2, 2 + 3 + 4, 4 + 5 + 6]


def test_an_evictor_is_one(environment: StreamExecutionEnvironment) -> None:
    windowed = environment.from_collection([1]).window_all(TumblingEventTimeWindows.of(TEN))
    with pytest.raises(ConfigurationError, match="evictor needs an Evictor, not int"):
        windowed.evictor(3)  # type: ignore[arg-type]
