"""Operators that take all records of a batch, or of a key in a batch, at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest

from flinknet.datastream import (
    MapBatchFunction,
    ProcessBatchFunction,
    RuntimeContext,
    ValueStateDescriptor,
)
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.calls import BATCH_RECORDS
from flinknet.operators.batch_operators import MapBatchOperator, ProcessBatchOperator
from flinknet.operators.operators import Operator
from tests.unit.operators.harness import Harness, first_batches

KEY = itemgetter(0)
RECORDS = [("b", 1), ("a", 10), ("b", 2), ("c", 100), ("a", 20)]
KEYED = partial(ProcessBatchOperator, key_of=KEY)
BY_KEY = [("b", [1, 2]), ("a", [10, 20]), ("c", [100])]


class Reversed(MapBatchFunction):
    def map_batch(self, values: list[Any]) -> list[Any]:
        return values[::-1]


async def reverse_later(values: list[Any]) -> list[Any]:
    await asyncio.sleep(0)
    return values[::-1]


async def reverse_one_by_one(values: list[Any]) -> AsyncIterator[Any]:
    for value in reversed(values):
        await asyncio.sleep(0)
        yield value


def reverse(values: list[Any]) -> Iterator[Any]:
    yield from reversed(values)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Reversed(), [3, 2, 1]),
        (reversed, [3, 2, 1]),
        (reverse, [3, 2, 1]),
        (reverse_later, [3, 2, 1]),
        (reverse_one_by_one, [3, 2, 1]),
        (lambda values: values, [1, 2, 3]),
        (lambda values: [sum(values)], [6]),
        (lambda values: {7}, [7]),
        (lambda values: [], []),
        (lambda values: None, []),
        (lambda values: asyncio.sleep(0, values * 2), [1, 2, 3, 1, 2, 3]),
    ],
)
async def test_map_batch(function: Any, expected: list[int]) -> None:
    async with Harness(MapBatchOperator(function)) as harness:
        assert await harness.process(1, 2, 3) == expected
        assert await harness.process(1, 2, 3) == expected


async def test_every_batch_is_one_call() -> None:
    batches: list[list[int]] = []
    async with Harness(MapBatchOperator(batches.append)) as harness:
        await harness.process(1, 2)
        await harness.process(*range(5000))

    assert [len(batch) for batch in batches] == [2, 5000]


class Tally(ProcessBatchFunction):
    def process_batch(self, key: Any, values: list[Any]) -> Iterable[Any]:
        return [(key, [value for _, value in values])]


def tally(key: str, values: list[Any]) -> Iterator[Any]:
    yield from Tally().process_batch(key, values)


async def tally_later(key: str, values: list[Any]) -> Iterable[Any]:
    await asyncio.sleep(0)
    return Tally().process_batch(key, values)


async def tally_one_by_one(key: str, values: list[Any]) -> AsyncIterator[Any]:
    await asyncio.sleep(0)
    yield key, [value for _, value in values]


@pytest.mark.parametrize("function", [Tally(), tally, tally_later, tally_one_by_one])
async def test_process_batch(function: Any) -> None:
    """Keys come in the order of their first records, each with its records in order."""
    async with Harness(KEYED(function)) as harness:
        assert await harness.process(*RECORDS) == BY_KEY
        assert await harness.process(("c", 1)) == [("c", [1])]


async def test_equal_keys_are_one_key() -> None:
    async with Harness(KEYED(tally)) as harness:
        assert await harness.process((1, 1), (1.0, 2), (True, 3)) == [(1, [1, 2, 3])]


async def test_keys_without_results() -> None:
    async with Harness(KEYED(lambda key, values: values if key == "c" else None)) as harness:
        assert await harness.process(*RECORDS) == [("c", 100)]


async def test_plain_functions_emit_the_results_of_many_keys_at_once() -> None:
    async with Harness(KEYED(tally)) as harness:
        await harness.process(*((number, 0) for number in range(BATCH_RECORDS + 1)))

    assert [len(batch) for batch in harness.batches] == [BATCH_RECORDS, 1]


async def test_coroutine_functions_emit_key_by_key() -> None:
    emitted_before = []

    async def watch(key: str, values: list[Any]) -> list[Any]:
        emitted_before.append(len(harness.batches))
        return values

    async with Harness(KEYED(watch)) as harness:
        await harness.process(*RECORDS)

    assert emitted_before == [0, 1, 2]


# -- growing results -----------------------------------------------------------------------------


def endless(*arguments: Any) -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


async def endless_later(*arguments: Any) -> AsyncIterator[int]:
    for number in endless():
        await asyncio.sleep(0)
        yield number


@pytest.mark.parametrize("operator", [MapBatchOperator, KEYED])
@pytest.mark.parametrize("function", [endless, lambda *_: endless(), endless_later])
async def test_results_come_in_bounded_batches(
    operator: Callable[[Any], Operator], function: Any
) -> None:
    """This holds for any kind of iterable, even an endless one."""
    batches = await first_batches(operator(function), [("a", 1)], 3)
    assert [len(batch) for batch in batches] == [BATCH_RECORDS] * 3
    assert [number for batch in batches for number in batch] == [*range(1, 3 * BATCH_RECORDS + 1)]


def columns(*arguments: Any) -> Iterator[pa.RecordBatch]:
    for number in range(3):
        yield pa.record_batch({"number": [number]})


async def columns_later(*arguments: Any) -> AsyncIterator[pa.RecordBatch]:
    for batch in columns():
        yield batch


@pytest.mark.parametrize("operator", [MapBatchOperator, KEYED])
@pytest.mark.parametrize("function", [columns, lambda *_: list(columns()), columns_later])
async def test_arrow_record_batches_are_emitted_one_by_one(
    operator: Callable[[Any], Operator], function: Any
) -> None:
    """A batch of a thousand of them would take much memory."""
    async with Harness(operator(function)) as harness:
        await harness.process(("a", 1))

    assert harness.batches == [[batch] for batch in columns()]


async def test_arrow_tables_leave_in_record_batches() -> None:
    table = pa.table({"number": [1, 2]})
    for function in (lambda _: table.to_batches(), lambda _: table.to_reader()):
        async with Harness(MapBatchOperator(function)) as harness:
            assert await harness.process(1) == table.to_batches()


# -- failures ------------------------------------------------------------------------------------


def fail(*arguments: Any) -> Any:
    raise ValueError("no such thing")


async def fail_later(*arguments: Any) -> AsyncIterator[int]:
    yield 1
    raise ValueError("no such thing")


def fail_halfway(*arguments: Any) -> Iterator[int]:
    yield 1
    raise ValueError("no such thing")


async def fail_awaited(*arguments: Any) -> Any:
    raise ValueError("no such thing")


@pytest.mark.parametrize("function", [fail, fail_halfway, fail_awaited, fail_later])
async def test_failing_batch(function: Any) -> None:
    async with Harness(MapBatchOperator(function)) as harness:
        with pytest.raises(JobFailedError) as caught:
            await harness.process(1, "b", 2)

    assert str(caught.value) == (
        'operator "tested" (1/1) failed on 3 records of type int, str: ValueError: no such thing'
    )
    assert isinstance(caught.value.__cause__, ValueError)


def fail_on_a(key: str, values: list[Any]) -> list[Any]:
    return fail() if key == "a" else values


def fail_on_a_halfway(key: str, values: list[Any]) -> Iterator[Any]:
    yield key
    yield from fail_on_a(key, values)


async def fail_on_a_awaited(key: str, values: list[Any]) -> list[Any]:
    return fail_on_a(key, values)


async def fail_on_a_later(key: str, values: list[Any]) -> AsyncIterator[Any]:
    yield key
    yield fail_on_a(key, values)


@pytest.mark.parametrize(
    "function", [fail_on_a, fail_on_a_halfway, fail_on_a_awaited, fail_on_a_later]
)
async def test_failing_key(function: Any) -> None:
    """The error names the key."""
    async with Harness(KEYED(function)) as harness:
        with pytest.raises(JobFailedError) as caught:
            await harness.process(*RECORDS)

    assert str(caught.value) == (
        "operator \"tested\" (1/1) failed on 2 records of type tuple with the key 'a': "
        "ValueError: no such thing"
    )


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (7, "'int' object is not iterable"),
        ("text", "it returned a str, not an iterable of records: return [record] for a single one"),
        (b"text", "it returned a bytes, not"),
        ({"a": 1}, "it returned a dict, not"),
        (pa.record_batch({"a": [1]}), "it returned a RecordBatch, not"),
        (pa.table({"a": [1]}), "a Table, not an iterable of records: return table.to_batches()"),
    ],
)
@pytest.mark.parametrize("operator", [MapBatchOperator, KEYED])
async def test_one_record_is_no_iterable_of_records(
    operator: Callable[[Any], Operator], returned: Any, message: str
) -> None:
    """It would be taken for an iterable of its characters, keys or columns."""

    async def return_later(*arguments: Any) -> Any:
        return returned

    for function in (lambda *_: returned, return_later):
        async with Harness(operator(function)) as harness:
            with pytest.raises(JobFailedError) as caught:
                await harness.process(("a", 1))
            assert message in str(caught.value)


@pytest.mark.parametrize("operator", [MapBatchOperator, KEYED])
async def test_stop_iteration_is_a_failure(operator: Callable[[Any], Operator]) -> None:
    """It must not look like the end of the results."""
    async with Harness(operator(lambda *_: next(iter([])))) as harness:
        with pytest.raises(JobFailedError, match="StopIteration"):
            await harness.process(("a", 1))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (5, "a record of type int, 5: TypeError: 'int' object is not subscriptable"),
        (({}, 1), r"a record of type tuple, \({}, 1\): TypeError: unhashable type"),
    ],
)
@pytest.mark.parametrize("function", [tally, tally_later])
async def test_record_without_a_key(record: Any, message: str, function: Any) -> None:
    async with Harness(KEYED(function)) as harness:
        with pytest.raises(JobFailedError, match=message):
            await harness.process(("a", 1), record, ("b", 2))


@pytest.mark.parametrize("operator", [MapBatchOperator, KEYED])
@pytest.mark.parametrize("function", [lambda *_: [1], endless_later])
async def test_error_behind_the_operator_is_not_its_own(
    operator: Callable[[Any], Operator], function: Any
) -> None:
    class FullError(Exception):
        pass

    async def refuse(records: list[Any]) -> None:
        raise FullError

    tested = operator(function)
    async with Harness(tested):
        tested.connect(refuse)
        with pytest.raises(FullError):
            await tested.process([("a", 1)])


# -- the life cycle of a function, and its state -------------------------------------------------


class Sorted(MapBatchFunction):
    """Returns all records sorted, at the end."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.entries = [runtime_context.get_task_name_with_subtasks()]
        self.values: list[Any] = []

    def map_batch(self, values: list[Any]) -> None:
        self.values += values

    def finish(self) -> Iterator[Any]:
        yield from sorted(self.values)

    def close(self) -> None:
        self.entries.append("closed")


async def test_life_of_a_batch_function() -> None:
    function = Sorted()
    async with Harness(MapBatchOperator(function)) as harness:
        assert await harness.process(3, 1) == []
        assert await harness.process(2) == []
        assert await harness.end_of_input() == [1, 2, 3]

    assert function.entries == ["Source: test -> tested (1/1)", "closed"]


class Totals(ProcessBatchFunction):
    """Emits the sum of each key so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_batch(self, key: Any, values: list[Any]) -> Iterator[Any]:
        self.total.update((self.total.value() or 0) + sum(value for _, value in values))
        yield key, self.total.value()


class TotalsLater(Totals):
    async def process_batch(  # type: ignore[override]
        self, key: Any, values: list[Any]
    ) -> list[Any]:
        await asyncio.sleep(0)
        return [*super().process_batch(key, values)]


@pytest.mark.parametrize("function", [Totals(), TotalsLater()])
async def test_state_is_that_of_the_key(function: ProcessBatchFunction) -> None:
    async with Harness(KEYED(function)) as harness:
        assert await harness.process(*RECORDS) == [("b", 3), ("a", 30), ("c", 100)]
        assert await harness.process(("a", 1), ("d", 1)) == [("a", 31), ("d", 1)]


async def test_batches_without_a_key_have_no_state() -> None:
    class Stateful(Sorted):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("sum"))

    operator = MapBatchOperator(Stateful())
    with pytest.raises(ConfigurationError, match="process_batch on a keyed stream"):
        await operator.open(Harness(operator).context)
