"""Sources: shares, laziness, closing, and the open-loop schedule."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

from flinknet.datastream import (
    CollectionSource,
    GeneratorSource,
    RateLimitedSource,
    RuntimeContext,
    Source,
    append_time,
)
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.task.mailbox import Mailbox
from flinknet.task.operators import BATCH_RECORDS
from flinknet.task.source import SourceOperator, read
from tests.unit.task.harness import Harness, context


class Letters(Source):
    """Yields batches of letters, and notes when it is closed."""

    closed = False

    def batches(self, context: RuntimeContext) -> Iterator[list[str]]:
        try:
            yield ["a", "b"]
            yield []
            yield ["c"]
        finally:
            Letters.closed = True


class LettersLater(Letters):
    """Does so asynchronously."""

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[str]]:  # type: ignore[override]
        for batch in super().batches(context):
            await asyncio.sleep(0)
            yield batch


async def records_of(source: Source, index: int = 0, parallelism: int = 1) -> list[Any]:
    async with Harness(
        SourceOperator(source), context(index=index, parallelism=parallelism)
    ) as harness:
        operator = harness.operator
        assert isinstance(operator, SourceOperator)
        await operator.run(Mailbox("tested", 1))
        assert operator.records_read == len(harness.records)
        return harness.records


async def test_collection_is_dealt_out() -> None:
    source = CollectionSource(range(3000))

    shares = [await records_of(source, index, 3) for index in range(3)]

    assert [len(share) for share in shares] == [1000] * 3
    assert sorted(record for share in shares for record in share) == list(range(3000))
    assert shares[1][:3] == [1, 4, 7]


async def test_generator_numbers_are_dealt_out() -> None:
    source = GeneratorSource(lambda number: number * 10, 2501)

    shares = [await records_of(source, index, 2) for index in range(2)]

    assert shares[0] == list(range(0, 25010, 20))
    assert shares[1] == list(range(10, 25010, 20))


async def test_endless_generator_makes_records_as_they_are_taken() -> None:
    made: list[int] = []
    source = GeneratorSource(made.append)

    (batch,) = islice(source.batches(context()), 1)
    first_three = list(islice(batch, 3))

    assert len(batch) == BATCH_RECORDS
    assert first_three == [None] * 3
    assert made == [0, 1, 2]


async def test_arrow_record_batches_are_read_one_by_one() -> None:
    """They are made as they are taken: all of a source's batch would be a lot of memory."""
    made = 0

    def make(number: int) -> pa.RecordBatch:
        nonlocal made
        made += 1
        return pa.record_batch({"number": [number]})

    seen: list[tuple[int, int]] = []

    async def look(records: list[Any]) -> None:
        seen.append((made, len(records)))

    operator = SourceOperator(GeneratorSource(make, 5))
    async with Harness(operator):
        operator.connect(look)
        await operator.run(Mailbox("tested", 1))

    assert seen == [(number, 1) for number in range(1, 6)]
    assert operator.records_read == 5


@pytest.mark.parametrize("source", [Letters(), LettersLater()])
async def test_any_iterator_of_batches(source: Source) -> None:
    assert await records_of(source) == ["a", "b", "c"]


@pytest.mark.parametrize("source", [Letters(), LettersLater(), RateLimitedSource(Letters(), 1e9)])
async def test_a_source_that_is_left_is_closed(source: Source) -> None:
    Letters.closed = False
    reading = read(source, context())
    await anext(reading)

    await reading.aclose()

    assert Letters.closed


async def test_failing_source() -> None:
    def fail_on_five(number: int) -> int:
        if number == BATCH_RECORDS + 5:
            raise OSError("disk gone")
        return number

    with pytest.raises(
        JobFailedError,
        match=rf'"tested" \(1/1\) failed after {BATCH_RECORDS} records: OSError: disk',
    ):
        await records_of(GeneratorSource(fail_on_five, 3 * BATCH_RECORDS))


class Noting(Source):
    """Waits for each of two batches, and notes in which tasks it runs."""

    def __init__(self, fails: bool = False) -> None:
        self.tasks: list[asyncio.Task[Any] | None] = []
        self.released = asyncio.Event()
        self.fails = fails

    async def batches(self, context: RuntimeContext) -> AsyncIterator[list[int]]:
        try:
            for number in range(2):
                await self.released.wait()
                self.released.clear()
                self.tasks.append(asyncio.current_task())
                yield [number]
        finally:
            self.tasks.append(asyncio.current_task())
            if self.fails:
                raise OSError("in closing")


async def test_mails_are_run_while_an_asynchronous_source_makes_a_batch() -> None:
    """And all that the source does runs in one task, so that it may hold a timeout or a group."""
    source, mailbox = Noting(), Mailbox("tested", 1)
    async with Harness(SourceOperator(source)) as harness:
        operator = harness.operator
        assert isinstance(operator, SourceOperator)
        running = asyncio.create_task(operator.run(mailbox))
        for number in range(2):
            assert await mailbox.submit(harness.records.copy) == list(range(number))
            source.released.set()
            while len(harness.records) == number:
                await asyncio.sleep(0)
        await running
    assert len(source.tasks) == 3
    assert len(set(source.tasks)) == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_an_asynchronous_source_is_closed_with_its_subtask(fails: bool) -> None:
    source = Noting(fails)
    async with Harness(SourceOperator(source)) as harness:
        operator = harness.operator
        assert isinstance(operator, SourceOperator)
        running = asyncio.create_task(operator.run(Mailbox("tested", 1)))
        source.released.set()
        while not harness.records:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(OSError if fails else asyncio.CancelledError):
            await running
    assert len(source.tasks) == 2


async def test_other_subtasks_run_between_batches() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await records_of(GeneratorSource(lambda number: number, 10 * BATCH_RECORDS))
    task.cancel()

    assert turns >= 10


# -- the schedule --------------------------------------------------------------------------------


@pytest.mark.parametrize("precise", [False, True])
async def test_intended_times_follow_the_schedule(precise: bool) -> None:
    """Record i is intended at start + i / rate, in whole nanoseconds, whenever it leaves."""
    source = GeneratorSource(lambda number: (number,), 500)
    limited = RateLimitedSource(source, 30_000, stamp=append_time, precise=precise)

    records = await records_of(limited)

    assert [number for number, _ in records] == list(range(500))
    start = records[0][1]
    assert [time_ns - start for _, time_ns in records] == [
        round(number * 1e9 / 30_000) for number in range(500)
    ]


async def test_no_record_leaves_before_its_time() -> None:
    source = GeneratorSource(lambda number: (number,), 200)
    limited = RateLimitedSource(source, 20_000, stamp=append_time)

    async for batch in limited.batches(context()):
        assert max(time_ns for _, time_ns in batch) <= time.monotonic_ns()


async def test_subtasks_share_the_schedule() -> None:
    """Subtask k of p sends the records k, k + p, ... of one schedule."""
    source = RateLimitedSource(
        GeneratorSource(lambda number: (number,), 30), 3000, stamp=append_time
    )

    for index in range(3):
        before = time.monotonic_ns()
        records = await records_of(source, index, 3)
        offset = round(index * 1e9 / 3000)

        assert [number for number, _ in records] == list(range(index, 30, 3))
        assert before + offset <= records[0][1] <= time.monotonic_ns()
        assert [time_ns - records[0][1] for _, time_ns in records] == [
            number * 1_000_000 for number in range(10)
        ]


async def test_a_late_source_sends_everything_that_is_due() -> None:
    """The schedule does not slow down: what was held back keeps the times it was intended for."""
    source = GeneratorSource(lambda number: (number,), 400)
    batches = RateLimitedSource(source, 100_000, stamp=append_time).batches(context())
    first = await anext(batches)
    start = first[0][1]
    while time.monotonic_ns() < start + 400 * 10_000:
        pass  # held back, as by backpressure, until all 400 records are due

    second = await anext(batches)

    assert len(first) + len(second) == 400
    assert [time_ns - start for _, time_ns in second] == [
        number * 10_000 for number in range(len(first), 400)
    ]
    await batches.aclose()  # type: ignore[attr-defined]


async def test_generated_records_are_made_when_they_are_due() -> None:
    made_ns: list[int] = []

    def note(number: int) -> tuple[int]:
        made_ns.append(time.monotonic_ns())
        return (number,)

    limited = RateLimitedSource(GeneratorSource(note, 20), 10_000, stamp=append_time)

    records = await records_of(limited)

    assert all(made >= intended for made, (_, intended) in zip(made_ns, records, strict=True))


async def test_any_source_can_be_limited() -> None:
    assert await records_of(RateLimitedSource(LettersLater(), 1e6)) == ["a", "b", "c"]


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_rate_that_is_none(rate: float) -> None:
    with pytest.raises(ConfigurationError, match=r"records_per_s is .*: choose a positive rate"):
        RateLimitedSource(Letters(), rate)


def test_wrong_generators() -> None:
    with pytest.raises(ConfigurationError, match="the generator is a int, not callable"):
        GeneratorSource(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="count is -1"):
        GeneratorSource(str, -1)


def test_source_that_is_none() -> None:
    with pytest.raises(ConfigurationError, match="from_source needs a Source, not list"):
        SourceOperator([1])  # type: ignore[arg-type]
