"""Operators on records with timestamps: functions see values, results keep the timestamp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from flinknet.datastream.sinks import CollectSink
from flinknet.environment.processing_time import ProcessingTimeService
from flinknet.functions.context import OnTimerContext, ProcessContext, RuntimeContext
from flinknet.functions.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from flinknet.functions.watermark_strategy import WatermarkStrategy
from flinknet.operators.batch_operators import MapBatchOperator, ProcessBatchOperator
from flinknet.operators.keyed_operators import (
    AggregateOperator,
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedProcessOperator,
    ReduceOperator,
)
from flinknet.operators.operators import (
    CallableSinkOperator,
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    Operator,
    ProcessOperator,
)
from flinknet.operators.sink import Sink, SinkOperator
from flinknet.operators.timestamped_batch import TimestampedBatch
from flinknet.operators.timestamps import AssignTimestampsOperator
from tests.unit.operators.harness import Harness, context


async def results(operator: Any, *arguments: Any, records: list[Any]) -> list[Any]:
    """Return the results of the operator with timestamps, including those at its end."""
    async with Harness(operator(*arguments), stamped=True) as harness:
        await harness.process(*records)
        await harness.end_of_input()
        return harness.records


def increment(value: int) -> int:
    return value + 1


async def increment_later(value: int) -> int:
    return value + 1


def is_odd(value: int) -> bool:
    return value % 2 == 1


async def is_odd_later(value: int) -> bool:
    return value % 2 == 1


def twice(value: int) -> list[int]:
    return [value, value]


def twice_yielded(value: int) -> Iterator[int]:
    yield value
    yield value


async def twice_later(value: int) -> list[int]:
    return [value, value]


def when(value: int, view: ProcessContext) -> list[Any]:
    return [(value, view.timestamp())]


async def when_later(value: int, view: ProcessContext) -> AsyncIterator[Any]:
    yield value, view.timestamp()


RECORDS = [(10, 1), (20, 2)]


@pytest.mark.parametrize("function", [increment, increment_later])
async def test_map(function: Any) -> None:
    assert await results(MapOperator, function, records=RECORDS) == [(10, 2), (20, 3)]


@pytest.mark.parametrize("function", [is_odd, is_odd_later])
async def test_filter(function: Any) -> None:
    assert await results(FilterOperator, function, records=RECORDS) == [(10, 1)]


@pytest.mark.parametrize("function", [twice, twice_yielded, twice_later])
async def test_flat_map(function: Any) -> None:
    assert await results(FlatMapOperator, function, records=RECORDS) == [
        (10, 1),
        (10, 1),
        (20, 2),
        (20, 2),
    ]
    assert await results(FlatMapOperator, lambda value: None, records=RECORDS) == []


@pytest.mark.parametrize("function", [when, when_later])
async def test_process_sees_the_timestamp(function: Any) -> None:
    expected = [(10, (1, 10)), (20, (2, 20))]
    assert await results(ProcessOperator, function, records=RECORDS) == expected
    assert await results(KeyedProcessOperator, function, is_odd, records=RECORDS) == expected


async def test_keyed_process_sees_the_key_of_the_value() -> None:
    def key(value: int, view: ProcessContext) -> list[Any]:
        return [view.get_current_key()]

    assert await results(KeyedProcessOperator, key, increment, records=RECORDS) == [
        (10, 2),
        (20, 3),
    ]


@pytest.mark.parametrize(
    ("keyed", "plain", "function"),
    [
        (KeyedMapOperator, MapOperator, increment),
        (KeyedFlatMapOperator, FlatMapOperator, twice_later),
        (KeyedFilterOperator, FilterOperator, is_odd),
    ],
)
async def test_keyed_operators_keep_timestamps(keyed: Any, plain: Any, function: Any) -> None:
    expected = await results(plain, function, records=RECORDS)
    assert await results(keyed, function, is_odd, records=RECORDS) == expected


async def test_a_batch_has_its_latest_timestamp() -> None:
    records = [(30, 1), (None, 2), (20, 4)]
    assert await results(MapBatchOperator, lambda values: [sum(values)], records=records) == [
        (30, 7)
    ]

    def sums(key: Any, values: list[int]) -> list[Any]:
        return [(key, sum(values))]

    assert await results(ProcessBatchOperator, sums, is_odd, records=records) == [
        (30, (True, 1)),
        (20, (False, 6)),
    ]
    assert await results(MapBatchOperator, lambda values: values, records=[(None, 1)]) == [
        (None, 1)
    ]


class Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator


async def test_folds_have_the_timestamp_of_what_was_added_last() -> None:
    records = [(20, 1), (10, 3), (30, 2)]
    add = int.__add__
    assert await results(ReduceOperator, add, is_odd, records=records) == [
        (20, 1),
        (10, 4),
        (30, 2),
    ]
    assert await results(ReduceOperator, add, is_odd, "end_of_input", records=records) == [
        (10, 4),
        (30, 2),
    ]
    assert await results(AggregateOperator, Sum(), is_odd, records=records) == [
        (20, (True, 1)),
        (10, (True, 4)),
        (30, (False, 2)),
    ]
    assert await results(AggregateOperator, Sum(), is_odd, "end_of_input", records=records) == [
        (10, (True, 4)),
        (30, (False, 2)),
    ]


async def test_sinks_get_values() -> None:
    kept: list[int] = []
    assert await results(CallableSinkOperator, kept.append, records=RECORDS) == []
    assert kept == [1, 2]
    async with Harness(SinkOperator(CollectSink()), stamped=True) as harness:
        await harness.process(*RECORDS)
        assert harness.context.collected == {"tested": [1, 2]}


class SortingSink(Sink):
    """A sink that breaks a rule: it changes its list of records."""

    def write(self, records: list[Any]) -> None:
        records.sort(reverse=True)


@pytest.mark.parametrize(
    "operator", [MapBatchOperator(lambda records: records.sort()), SinkOperator(SortingSink())]
)
async def test_a_function_that_changes_its_list_changes_no_timestamps_of_others(
    operator: Operator,
) -> None:
    batch = TimestampedBatch.of([(30, 3), (10, 1), (20, 2)])
    async with Harness(operator, stamped=True):
        await operator.process(batch)
    assert batch.pairs() == [(30, 3), (10, 1), (20, 2)]


@pytest.mark.parametrize("many", [0, 1, 5_000])
async def test_each_of_many_results_has_the_timestamp_of_its_record(many: int) -> None:
    """The results are emitted in pieces that may end anywhere."""
    records = [(stamp, many + stamp) for stamp in range(4)]
    expected = [(stamp, one) for stamp, number in records for one in range(number)]
    assert await results(FlatMapOperator, range, records=records) == expected


class Counting(MapFunction, ProcessFunction):
    """Emits the number of its records at its end."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = 0
        runtime_context.metrics["opened"] = True
        self._metrics = runtime_context.metrics

    def map(self, value: Any) -> Any:
        self.count += 1
        return value

    def process_element(self, value: Any, ctx: ProcessContext) -> Any:
        self.count += 1

    def finish(self) -> list[int]:
        return [self.count]

    def close(self) -> None:
        self._metrics["closed"] = True


@pytest.mark.parametrize("operator", [MapOperator, ProcessOperator])
async def test_a_function_has_its_life_and_what_it_says_last_has_no_timestamp(
    operator: Any,
) -> None:
    harness = Harness(operator(Counting()), stamped=True)
    async with harness:
        await harness.process(*RECORDS)
        assert await harness.end_of_input() == [(None, 2)]
    assert harness.context.metrics == {"opened": True, "closed": True}


async def test_an_operator_of_its_own_is_told_whether_there_are_timestamps() -> None:
    strategy = WatermarkStrategy.no_watermarks()
    async with Harness(AssignTimestampsOperator(strategy), stamped=True) as harness:
        assert await harness.process(*RECORDS) == RECORDS


class Reminding(KeyedProcessFunction):
    """Sets a timer of each domain for every key."""

    def process_element(self, value: int, ctx: ProcessContext) -> None:
        ctx.timer_service().register_event_time_timer(7)
        ctx.timer_service().register_processing_time_timer(8)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp


class RemindingLater(Reminding):
    async def on_timer(  # type: ignore[override]
        self, timestamp: int, ctx: OnTimerContext
    ) -> AsyncIterator[Any]:
        yield ctx.get_current_key(), timestamp


@pytest.mark.parametrize("function", [Reminding(), RemindingLater()])
async def test_results_of_an_event_time_timer_have_its_timestamp(function: Any) -> None:
    posted: list[Any] = []
    place = context(processing_time=ProcessingTimeService(posted.append, lambda: 9))
    operator = KeyedProcessOperator(function, abs)
    async with Harness(operator, place, stamped=True) as harness:
        await harness.process((3, -1))
        while not posted:
            await asyncio.sleep(0)
        await posted.pop()()
        await harness.end_of_input()
        assert harness.records == [(None, (1, 8)), (7, (1, 7))]
