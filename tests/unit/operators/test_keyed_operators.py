"""Operators with keyed state: reduce, aggregate and process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from math import nan
from operator import itemgetter
from typing import Any
from uuid import UUID

import pytest

from flinknet.datastream import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    MapFunction,
    OnTimerContext,
    ProcessContext,
    RuntimeContext,
    TimeDomain,
    ValueStateDescriptor,
)
from flinknet.environment.processing_time import ProcessingTimeService
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.calls import BATCH_RECORDS
from flinknet.operators.keyed_operators import (
    AggregateOperator,
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedProcessOperator,
    ReduceOperator,
)
from flinknet.operators.record_slices import RECORDS_FIRST
from flinknet.wire.events import MAX_WATERMARK, Watermark
from tests.unit.operators.harness import Harness, context

KEY = itemgetter(0)
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
RECORDS = [("a", 1), ("b", 10), ("a", 2), ("a", 3), ("b", 20)]


def add(first: tuple[Any, int], second: tuple[Any, int]) -> tuple[Any, int]:
    return first[0], first[1] + second[1]


class Mean(AggregateFunction):
    """Accumulates in place, in a list."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator[0] += 1
        accumulator[1] += value[1]
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[1] / accumulator[0]


class Total(AggregateFunction):
    """Makes a new accumulator for every record."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value[1])

    def get_result(self, accumulator: int) -> int:
        return accumulator


class Numbered(KeyedProcessFunction):
    """Numbers the records of each key from 1, and starts again after every third."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterator[Any]:
        seen = (self.seen.value() or 0) + 1
        yield ctx.get_current_key(), seen
        if seen == 3:
            self.seen.clear()
        else:
            self.seen.update(seen)


class NumberedLater(Numbered):
    async def process_element(  # type: ignore[override]
        self, value: Any, ctx: ProcessContext
    ) -> AsyncIterator[Any]:
        for result in super().process_element(value, ctx):
            yield result


class Counting(Function):
    """Counts the records of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def count(self) -> int:
        seen: int = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        return seen


class CountingMap(Counting, MapFunction):
    def map(self, value: Any) -> Any:
        return value[0], self.count()


class CountingMapLater(CountingMap):
    async def map(self, value: Any) -> Any:
        return super().map(value)


class CountingFlatMap(Counting, FlatMapFunction):
    def flat_map(self, value: Any) -> list[Any]:
        return [(value[0], self.count())] * 2


class Generating(CountingFlatMap):
    def flat_map(self, value: Any) -> Iterator[Any]:  # type: ignore[override]
        yield value[0], self.count()
        yield value[0], self.seen.value()


class EverySecond(Counting, FilterFunction):
    def filter(self, value: Any) -> bool:
        return self.count() % 2 == 0


COUNTED = [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2)]


@pytest.mark.parametrize("function", [CountingMap(), CountingMapLater()])
async def test_map_has_state_of_the_key(function: MapFunction) -> None:
    async with Harness(KeyedMapOperator(function, KEY)) as harness:
        assert await harness.process(*RECORDS) == COUNTED
        assert await harness.process(("b", 0)) == [("b", 3)]


@pytest.mark.parametrize("function", [CountingFlatMap(), Generating()])
async def test_flat_map_has_state_of_the_key(function: FlatMapFunction) -> None:
    async with Harness(KeyedFlatMapOperator(function, KEY)) as harness:
        assert await harness.process(*RECORDS) == [one for one in COUNTED for _ in range(2)]


async def test_filter_has_state_of_the_key() -> None:
    async with Harness(KeyedFilterOperator(EverySecond(), KEY)) as harness:
        assert await harness.process(*RECORDS) == [("a", 2), ("b", 20)]


async def test_the_record_that_failed_is_named_where_keys_are_set() -> None:
    class Failing(CountingMap):
        def map(self, value: Any) -> Any:
            return 1 / (value[1] - 2)

    async with Harness(KeyedMapOperator(Failing(), KEY)) as harness:
        with pytest.raises(JobFailedError, match=r"on a record of type tuple, \('a', 2\)"):
            await harness.process(*RECORDS)


async def test_reduce_emits_after_every_record() -> None:
    async with Harness(ReduceOperator(add, KEY)) as harness:
        first = await harness.process(*RECORDS)
        second = await harness.process(("b", 300))

        assert first == [("a", 1), ("b", 10), ("a", 3), ("a", 6), ("b", 30)]
        assert second == [("b", 330)]
        assert await harness.end_of_input() == []


async def test_reduce_emits_at_the_end_of_input() -> None:
    async with Harness(ReduceOperator(add, KEY, "end_of_input")) as harness:
        assert await harness.process(*RECORDS) == []
        assert sorted(await harness.end_of_input()) == [("a", 6), ("b", 30)]


@pytest.mark.parametrize(
    ("function", "results"),
    [(Mean(), [1, 10, 1.5, 2, 15]), (Total(), [1, 10, 3, 6, 30])],
)
async def test_aggregate(function: AggregateFunction, results: list[float]) -> None:
    keys = [record[0] for record in RECORDS]
    async with Harness(AggregateOperator(function, KEY)) as harness:
        assert await harness.process(*RECORDS) == list(zip(keys, results, strict=True))
        assert await harness.end_of_input() == []
    async with Harness(AggregateOperator(function, KEY, "end_of_input")) as harness:
        assert await harness.process(*RECORDS) == []
        assert sorted(await harness.end_of_input()) == [("a", results[3]), ("b", results[4])]


@pytest.mark.parametrize("mode", ["every_record", "end_of_input"])
async def test_the_results_of_a_fold_come_before_the_end_of_event_time(mode: Any) -> None:
    """Behind the last watermark they would be late; each result comes once, and in one mode."""
    async with Harness(ReduceOperator(add, KEY, mode)) as harness:
        await harness.process(*RECORDS)
        before = len(harness.records)
        told: list[Any] = []

        async def keep(watermark: Any) -> None:
            told.append((watermark, sorted(harness.records[before:])))

        harness.operator.connect(harness._keep, keep)
        for moment in (5, MAX_WATERMARK):
            await harness.operator.process_event_time(Watermark(moment))
        await harness.end_of_input()
        results = [("a", 6), ("b", 30)] if mode == "end_of_input" else []
        assert told == [(Watermark(5), []), (Watermark(MAX_WATERMARK), results)]
        assert sorted(harness.records[before:]) == results


async def test_many_results_at_the_end_come_in_batches() -> None:
    keys = 3 * BATCH_RECORDS + 1
    async with Harness(AggregateOperator(Total(), KEY, "end_of_input")) as harness:
        await harness.process(*((key, 1) for key in range(keys)))
        await harness.end_of_input()

    assert [len(batch) for batch in harness.batches] == [BATCH_RECORDS] * 3 + [1]
    assert sorted(harness.records) == [(key, 1) for key in range(keys)]


@pytest.mark.parametrize("function", [Numbered(), NumberedLater()])
async def test_keyed_process(function: KeyedProcessFunction) -> None:
    async with Harness(KeyedProcessOperator(function, KEY)) as harness:
        assert await harness.process(*RECORDS) == [
            ("a", 1),
            ("b", 1),
            ("a", 2),
            ("a", 3),
            ("b", 2),
        ]
        assert await harness.process(("a", 0), ("b", 0), ("b", 0)) == [("a", 1), ("b", 3), ("b", 1)]


async def test_last_records_of_a_keyed_function() -> None:
    class Seen(Numbered):
        def finish(self) -> Iterator[Any]:
            yield "the end"

    async with Harness(KeyedProcessOperator(Seen(), KEY)) as harness:
        await harness.process(*RECORDS)
        assert await harness.end_of_input() == ["the end"]


async def test_equal_keys_are_one_key() -> None:
    """The hash partitioner agrees: 1, 1.0 and True are equal and go to one subtask."""
    async with Harness(ReduceOperator(add, KEY, "end_of_input")) as harness:
        await harness.process((1, 1), (1.0, 10), (True, 100))

        assert await harness.end_of_input() == [(1, 111)]


SAME_KEYS: dict[str, list[Any]] = {
    "None": [None, None],
    "NaN": [nan, -nan, float("nan"), Decimal("NaN")],
    "a tuple with NaN": [("a", float("nan")), ("a", float("nan"))],
    "a list": [[1, ["a"]], (1, ("a",)), [1.0, ("a",)]],
    "bytes": [b"a", bytearray(b"a")],
    "an instant": [NOON, NOON.astimezone(timezone(timedelta(hours=9)))],
    "a Decimal": [Decimal("1.0"), 1, True],
    "a UUID": [UUID(int=1), UUID(int=1)],
}
"""Keys that go to one subtask as one key."""


@pytest.mark.parametrize("keys", SAME_KEYS.values(), ids=SAME_KEYS)
async def test_whatever_may_be_a_key_has_one_state(keys: list[Any]) -> None:
    """This holds for every keyed operator."""
    records = [(key, 1) for key in keys]
    async with Harness(ReduceOperator(add, KEY, "end_of_input")) as harness:
        await harness.process(*records)
        assert [record[1] for record in await harness.end_of_input()] == [len(keys)]
    async with Harness(AggregateOperator(Total(), KEY, "end_of_input")) as harness:
        await harness.process(*records)
        assert [result for _, result in await harness.end_of_input()] == [len(keys)]
    async with Harness(KeyedProcessOperator(Numbered(), KEY)) as harness:
        numbers = [number for _, number in await harness.process(*records)]
        assert numbers == [1, 2, 3, 1][: len(keys)]


async def test_key_error_of_a_function_is_a_failure() -> None:
    """It must not be taken for a key that is seen for the first time."""

    def look_up(first: Any, second: Any) -> Any:
        raise KeyError("missing")

    async with Harness(ReduceOperator(look_up, KEY)) as harness:
        with pytest.raises(JobFailedError, match="KeyError: 'missing'"):
            await harness.process(("a", 1), ("a", 2))


async def test_key_that_cannot_be_kept() -> None:
    async with Harness(ReduceOperator(add, KEY)) as harness:
        with pytest.raises(JobFailedError, match=r"record of type tuple, .*unhashable type"):
            await harness.process(({"a": 1}, 1))


async def test_failing_result() -> None:
    class NoResult(Total):
        def get_result(self, accumulator: int) -> int:
            raise ZeroDivisionError("no result")

    async with Harness(AggregateOperator(NoResult(), KEY, "end_of_input")) as harness:
        await harness.process(("a", 1))
        with pytest.raises(JobFailedError, match="failed at the end of its input: ZeroDivision"):
            await harness.end_of_input()


FOLDS = {
    "reduce": lambda: ReduceOperator(add, KEY, "end_of_input"),
    "aggregate": lambda: AggregateOperator(Mean(), KEY, "end_of_input"),
}


@pytest.mark.parametrize("made", FOLDS.values(), ids=FOLDS)
@pytest.mark.parametrize("steps", [0, 1, 1000])
async def test_a_fold_is_written_while_it_goes_on(made: Any, steps: int) -> None:
    """Writing, capturing and merging in between do not change the result.

    A job restored from the checkpoint gets the same result.
    """
    first = [(number % 1000, 1) for number in range(3000)]
    second = [(number % 1500, 2) for number in range(3000)]
    async with Harness(made()) as harness, Harness(made()) as undisturbed:
        await undisturbed.process(*first, *second)
        expected = await undisturbed.end_of_input()
        await harness.process(*first)
        snapshot = harness.context.state.snapshot(1, 0)
        slices = snapshot.slices()
        for _ in range(steps):
            next(slices, None)
        await harness.process(*second[:1500])
        for _ in slices:
            pass
        await harness.process(*second[1500:])
        part = b"".join(snapshot.keyed_pieces())
        assert sorted(await harness.end_of_input()) == sorted(expected)

    place = context()
    for _ in place.state.restore(1, [part], []):
        pass
    async with Harness(made(), place) as continued:
        await continued.process(*second)
        assert sorted(await continued.end_of_input()) == sorted(expected)


async def test_results_of_a_fold_are_those_while_it_is_written() -> None:
    """The end of the input does not wait for a checkpoint."""
    async with Harness(FOLDS["reduce"]()) as harness:
        await harness.process(*((key, 1) for key in range(2000)))
        slices = harness.context.state.snapshot(1, 0).slices()
        next(slices)
        await harness.process((0, 1), ("new", 1))
        results = dict(await harness.end_of_input())
        expected: dict[Any, int] = dict.fromkeys(range(2000), 1)
        assert results == expected | {0: 2, "new": 1}
        for _ in slices:
            pass


async def test_folds_have_no_other_state() -> None:
    """Their functions see no key, so such state would mix all keys."""

    class Stateful(Total):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("sum"))

    operator = AggregateOperator(Stateful(), KEY)
    with pytest.raises(ConfigurationError, match="on a keyed stream"):
        await operator.open(Harness(operator).context)


class Reminding(KeyedProcessFunction):
    """Counts per key, and emits the count when the timer of a record fires."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1])
        if value[1] == 10:
            ctx.timer_service().register_processing_time_timer(10)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        assert ctx.timestamp() == timestamp
        in_order = ctx.timer_service().current_watermark() >= timestamp
        by_clock = ctx.time_domain() is TimeDomain.PROCESSING_TIME
        assert in_order != by_clock
        yield ctx.get_current_key(), timestamp, self.count.value()


class RemindingLater(Reminding):
    async def on_timer(  # type: ignore[override]
        self, timestamp: int, ctx: OnTimerContext
    ) -> AsyncIterator[Any]:
        for result in super().on_timer(timestamp, ctx):
            yield result


@pytest.mark.parametrize("function", [Reminding(), RemindingLater()])
async def test_event_time_timers_fire_with_the_watermark(function: Any) -> None:
    """They fire before it is passed on, each once, with the state of their keys."""
    async with Harness(KeyedProcessOperator(function, KEY)) as harness:
        await harness.process(("a", 1), ("b", 2), ("a", 1), ("a", 3))
        await harness.operator.process_event_time(Watermark(2))
        assert harness.records == [("a", 1, 3), ("b", 2, 1)]
        assert harness.event_time == [Watermark(2)]
        await harness.operator.process_event_time(Watermark(2))
        assert len(harness.records) == 2
        assert await harness.end_of_input() == [("a", 3, 3)]


async def test_processing_time_timers_fire_by_the_clock_but_not_after_the_end() -> None:
    posted: list[Any] = []
    place = context(processing_time=ProcessingTimeService(posted.append, lambda: 20))
    async with Harness(KeyedProcessOperator(Reminding(), KEY), place) as harness:
        await harness.process(("a", 10))
        while not posted:
            await asyncio.sleep(0)
        await posted.pop()()
        assert harness.records == [("a", 10, 1)]
        await harness.process(("b", 10))
        assert await harness.end_of_input() == [("a", 10, 1), ("b", 10, 1)], "event time's"
        assert not posted


@pytest.mark.parametrize("number", [1, 3 * RECORDS_FIRST])
async def test_timers_that_are_registered_by_timers_fire_too(number: int) -> None:
    class Chained(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: ProcessContext) -> None:
            ctx.timer_service().register_event_time_timer(1)

        def on_timer(self, timestamp: int, ctx: OnTimerContext) -> list[int]:
            ctx.timer_service().register_event_time_timer(timestamp + 1)
            return [timestamp]

    operator = KeyedProcessOperator(Chained(), KEY)
    async with Harness(operator) as harness:
        await harness.process(("a", 0))
        await operator.process_event_time(Watermark(number))
        assert harness.records == list(range(1, number + 1))


async def test_timers_are_restored_with_their_keys() -> None:
    async with Harness(KeyedProcessOperator(Reminding(), KEY)) as harness:
        await harness.process(("a", 5), ("b", 10))
        snapshot = harness.context.state.snapshot(1, 0)
        for _ in snapshot.slices():
            pass
    posted: list[Any] = []
    place = context(processing_time=ProcessingTimeService(posted.append, lambda: 20))
    for _ in place.state.restore(1, [b"".join(snapshot.keyed_pieces())], []):
        pass
    async with Harness(KeyedProcessOperator(Reminding(), KEY), place) as harness:
        while not posted:
            await asyncio.sleep(0)
        await posted.pop()()
        assert harness.records == [("b", 10, 1)]
        assert await harness.end_of_input() == [("a", 5, 1), ("b", 10, 1)]


async def test_a_timer_that_fails_is_named() -> None:
    class Failing(Reminding):
        def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Any:
            raise ZeroDivisionError("no")

    operator = KeyedProcessOperator(Failing(), KEY)
    async with Harness(operator) as harness:
        await harness.process(("a", 5))
        with pytest.raises(JobFailedError, match=r"in on_timer\(\) at 5 for the key 'a': ZeroDiv"):
            await operator.process_event_time(Watermark(5))


async def test_a_function_without_on_timer_has_no_timers() -> None:
    def process(value: Any, ctx: ProcessContext) -> None:
        ctx.timer_service()

    async with Harness(KeyedProcessOperator(process, KEY)) as harness:
        with pytest.raises(ConfigurationError, match="only a function with a key and on_timer"):
            await harness.process(("a", 1))
        assert await harness.end_of_input() == []
