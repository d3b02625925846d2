"""Operators: plain and coroutine functions, growing results, and errors that name the record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from flinknet.datastream import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    ProcessContext,
    ProcessFunction,
    RuntimeContext,
    SinkFunction,
)
from flinknet.environment.savepoint_stop import Stopped
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.calls import BATCH_RECORDS
from flinknet.operators.operators import (
    CallableSinkOperator,
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    Operator,
    ProcessOperator,
    on_records,
)
from tests.unit.operators.harness import Harness, first_batches


async def tenfold(value: int) -> int:
    await asyncio.sleep(0)
    return value * 10


async def is_odd(value: int) -> bool:
    await asyncio.sleep(0)
    return value % 2 == 1


async def copies(value: int) -> list[int] | None:
    await asyncio.sleep(0)
    return [value] * value if value else None


async def countdown(value: int) -> AsyncIterator[int]:
    for number in range(value, 0, -1):
        await asyncio.sleep(0)
        yield number


def made(number: int) -> pa.RecordBatch:
    return pa.record_batch({"number": [number]})


def countdown_generator(value: int) -> Iterator[int]:
    yield from range(value, 0, -1)


class Tenfold(MapFunction):
    def map(self, value: Any) -> Any:
        return value * 10


class Odd(FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(value % 2)


class Countdown(FlatMapFunction):
    def flat_map(self, value: Any) -> Iterator[int]:
        return countdown_generator(value)


class WithChannel(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessContext) -> Iterator[Any]:
        yield ctx.channel, ctx.get_current_key(), value


class WithChannelLater(ProcessFunction):
    async def process_element(self, value: Any, ctx: ProcessContext) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        yield ctx.channel, ctx.get_current_key(), value


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (partial(MapOperator, lambda n: n * 10), [0, 10, 20, 30]),
        (partial(MapOperator, Tenfold()), [0, 10, 20, 30]),
        (partial(MapOperator, tenfold), [0, 10, 20, 30]),
        (partial(MapOperator, partial(pow, 2)), [1, 2, 4, 8]),
        (partial(FilterOperator, lambda n: n % 2), [1, 3]),
        (partial(FilterOperator, Odd()), [1, 3]),
        (partial(FilterOperator, is_odd), [1, 3]),
        (partial(FlatMapOperator, lambda n: [n] * n), [1, 2, 2, 3, 3, 3]),
        (partial(FlatMapOperator, lambda n: [n] if n == 2 else None), [2]),
        (partial(FlatMapOperator, copies), [1, 2, 2, 3, 3, 3]),
        (partial(FlatMapOperator, countdown), [1, 2, 1, 3, 2, 1]),
        (partial(FlatMapOperator, countdown_generator), [1, 2, 1, 3, 2, 1]),
        (partial(FlatMapOperator, Countdown()), [1, 2, 1, 3, 2, 1]),
        (partial(ProcessOperator, WithChannel()), [(5, None, n) for n in range(4)]),
        (partial(ProcessOperator, WithChannelLater()), [(5, None, n) for n in range(4)]),
        (partial(ProcessOperator, lambda n, ctx: None), []),
    ],
)
async def test_results(operator: Callable[[], Operator], expected: list[Any]) -> None:
    async with Harness(operator()) as harness:
        harness.context.process_context.channel = 5

        assert await harness.process(0, 1, 2, 3) == expected
        assert await harness.process(0, 1, 2, 3) == expected


async def test_plain_functions_emit_once_per_batch() -> None:
    async with Harness(MapOperator(lambda n: n)) as harness:
        await harness.process(*range(5000))

    assert [len(batch) for batch in harness.batches] == [5000]


async def test_coroutine_functions_emit_as_they_go() -> None:
    """A finished result does not wait for the next record."""
    emitted_before = []

    async def watch(value: int) -> int:
        emitted_before.append(len(harness.batches))
        return value

    async with Harness(MapOperator(watch)) as harness:
        await harness.process(1, 2, 3)

    assert emitted_before == [0, 1, 2]


async def test_a_record_may_become_any_number() -> None:
    """The results of a generator function are taken in pieces, at the pace of the next
    operators."""
    made = 0

    def endless(value: int) -> Iterator[int]:
        nonlocal made
        while True:
            made += 1
            yield made

    batches = await first_batches(FlatMapOperator(endless), [1], 3)
    assert [len(batch) for batch in batches] == [BATCH_RECORDS] * 3
    assert made == 3 * BATCH_RECORDS


async def test_growing_lists_are_emitted_in_pieces() -> None:
    async with Harness(FlatMapOperator(lambda n: [n] * 500)) as harness:
        await harness.process(*range(10))

    assert harness.records == [n for n in range(10) for _ in range(500)]
    assert max(len(batch) for batch in harness.batches) < BATCH_RECORDS + 500


@pytest.mark.parametrize(
    "operator",
    [
        MapOperator(made),
        FlatMapOperator(lambda n: [made(n)]),
        FlatMapOperator(lambda n: (made(n) for _ in range(1))),
        FlatMapOperator(lambda n: iter([made(n)])),
        FlatMapOperator(lambda n: [] if n == 0 else [made(n)]),
    ],
)
async def test_arrow_record_batches_are_emitted_as_they_are_made(operator: Operator) -> None:
    """A batch of a thousand of them would take much memory."""
    async with Harness(operator) as harness:
        await harness.process(*range(4))

    assert len(harness.records) >= 3
    assert {len(batch) for batch in harness.batches} == {1}


# -- failures ------------------------------------------------------------------------------------


def fail_on_two(value: Any, *context: Any) -> Any:
    if value == (2,):
        raise ValueError("two is too much")
    return [value]


def fail_on_two_later(value: Any) -> Iterator[Any]:
    yield value
    if value == (2,):
        raise ValueError("two is too much")


async def fail_on_two_awaited(value: Any) -> Any:
    return fail_on_two(value)


@pytest.mark.parametrize(
    "operator",
    [
        partial(MapOperator, fail_on_two),
        partial(MapOperator, fail_on_two_awaited),
        partial(FilterOperator, fail_on_two),
        partial(FlatMapOperator, fail_on_two),
        partial(FlatMapOperator, fail_on_two_later),
        partial(ProcessOperator, fail_on_two),
        partial(CallableSinkOperator, fail_on_two),
        partial(CallableSinkOperator, fail_on_two_awaited),
    ],
)
async def test_failing_function(operator: Callable[[], Operator]) -> None:
    """The error names the operator, the subtask and the type of the record that failed."""
    async with Harness(operator()) as harness:
        with pytest.raises(JobFailedError) as caught:
            await harness.process(1, "b", (2,), 4.0, None)

    assert str(caught.value) == (
        'operator "tested" (1/1) failed on a record of type tuple, (2,): '
        "ValueError: two is too much"
    )
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize(
    "operator", [MapOperator, FilterOperator, FlatMapOperator, CallableSinkOperator]
)
async def test_stop_iteration_loses_no_record(
    operator: Callable[[Any], Operator], failing: int
) -> None:
    """An escaped StopIteration must not look like the end of the batch."""

    def next_of_nothing(value: int) -> Any:
        return next(iter([])) if value == failing else [value]

    async with Harness(operator(next_of_nothing)) as harness:
        with pytest.raises(JobFailedError, match="on a record of type int, "):
            await harness.process(0, 1, 2)


async def test_flat_map_that_returns_no_iterable() -> None:
    async with Harness(FlatMapOperator(lambda n: n)) as harness:
        with pytest.raises(JobFailedError, match="'int' object is not iterable"):
            await harness.process(7)


async def test_error_behind_the_operator_is_not_its_own() -> None:
    class FullError(Exception):
        pass

    async def refuse(records: list[Any]) -> None:
        raise FullError

    for operator in (MapOperator(lambda n: n), MapOperator(tenfold)):
        async with Harness(operator):
            operator.connect(refuse)
            with pytest.raises(FullError):
                await operator.process([1])


# -- the life cycle of a function ----------------------------------------------------------------


class Diary(MapFunction):
    """A function that records its calls."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.entries.append(("open", runtime_context.get_task_name_with_subtasks()))

    def map(self, value: Any) -> Any:
        self.entries.append(value)
        return value

    def close(self) -> None:
        self.entries.append("close")


class AsyncDiary(Diary, SinkFunction):
    """The same function, with coroutines."""

    async def open(self, runtime_context: RuntimeContext) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().open(runtime_context)

    async def invoke(self, value: Any) -> None:
        await asyncio.sleep(0)
        self.map(value)

    async def close(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().close()


@pytest.mark.parametrize(
    ("diary", "operator"), [(Diary, MapOperator), (AsyncDiary, CallableSinkOperator)]
)
async def test_life_of_a_function(diary: type[Diary], operator: Callable[[Any], Operator]) -> None:
    function = diary()
    async with Harness(operator(function)) as harness:
        await harness.process(1, 2)

    assert function.entries == [("open", "Source: test -> tested (1/1)"), 1, 2, "close"]


class Summing(ProcessFunction):
    """Emits only the sum, at the end, in any way of emitting."""

    def __init__(self, finish: Callable[[int], Any]) -> None:
        self.say = finish
        self.sum = 0

    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        self.sum += value

    def finish(self) -> Any:
        return self.say(self.sum)


async def awaited(value: int) -> list[int]:
    await asyncio.sleep(0)
    return [value]


async def streamed(value: int) -> AsyncIterator[int]:
    await asyncio.sleep(0)
    yield value


@pytest.mark.parametrize(
    ("finish", "expected"),
    [(lambda n: [n], [6]), (awaited, [6]), (streamed, [6]), (lambda n: None, [])],
)
async def test_last_records(finish: Callable[[int], Any], expected: list[int]) -> None:
    async with Harness(ProcessOperator(Summing(finish))) as harness:
        assert await harness.process(1, 2, 3) == []
        assert await harness.end_of_input() == expected


async def test_many_last_records_come_in_batches() -> None:
    async with Harness(ProcessOperator(Summing(countdown_generator))) as harness:
        await harness.process(2 * BATCH_RECORDS + 1)
        await harness.end_of_input()

    assert [len(batch) for batch in harness.batches] == [BATCH_RECORDS, BATCH_RECORDS, 1]


async def test_failing_finish() -> None:
    def fail(value: int) -> Any:
        raise ValueError("no sum")

    def fail_later(value: int) -> Iterator[int]:
        yield value
        raise ValueError("no sum")

    for finish in (fail, fail_later):
        async with Harness(ProcessOperator(Summing(finish))) as harness:
            with pytest.raises(JobFailedError, match=r"failed in finish\(\): ValueError: no sum"):
                await harness.end_of_input()


async def test_failing_open_and_close() -> None:
    class Broken(Tenfold):
        def open(self, runtime_context: RuntimeContext) -> None:
            raise OSError("no such device")

        close = open  # type: ignore[assignment]

    operator = MapOperator(Broken())
    with pytest.raises(JobFailedError, match=r'"tested" \(1/1\) failed in open\(\): OSError: no s'):
        await operator.open(Harness(operator).context)
    with pytest.raises(JobFailedError, match=r"failed in close\(\)"):
        await operator.close()


async def test_state_needs_a_key() -> None:
    class Stateful(Tenfold):
        def open(self, runtime_context: RuntimeContext) -> None:
            from flinknet.datastream import ValueStateDescriptor

            runtime_context.get_state(ValueStateDescriptor("sum"))

    operator = MapOperator(Stateful())
    with pytest.raises(ConfigurationError, match='"tested" requests keyed state'):
        await operator.open(Harness(operator).context)


Deque = type("deque", (), {})
"""A class that reprlib takes for another one."""


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("no number", "a record of type str, 'no number'"),
        ("two\nlines", "a record of type str, 'two\\nlines'"),
        (tuple(range(1000)), "a record of type tuple, (0, 1, 2, 3, 4, 5, 6, 7, ...)"),
        (Deque(), "a record of type deque, whose repr() raised TypeError"),
    ],
)
def test_an_error_shows_the_record_in_a_line(record: Any, said: str) -> None:
    assert on_records((record,)) == f"on {said}"
    assert len(on_records(("x" * 10**6,))) < 150


@pytest.mark.parametrize("end", [Stopped, GeneratorExit])
def test_the_end_of_a_subtask_is_no_error_of_its_function(end: type[BaseException]) -> None:
    """A mail that ends the subtask with a savepoint may be run where the subtask waits for a
    source."""
    raised = end()
    with pytest.raises(end) as passed:
        Operator().fail(raised, "on a record")
    assert passed.value is raised
