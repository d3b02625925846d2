"""How a source is run: batches, closing, and mails in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.datastream import (
    GeneratorSource,
    RateLimitedSource,
    RuntimeContext,
    Source,
)
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.calls import BATCH_RECORDS
from flinknet.operators.mailbox import Mailbox
from flinknet.operators.source import Share, SourceOperator, read, shares_of
from flinknet.wire.events import LatencyMarker
from tests.unit.operators.harness import Harness, context
from tests.unit.operators.letters import Letters, LettersLater, mails_and_slices, records_of
from tests.unit.operators.manual_time import ManualTime


async def test_arrow_record_batches_are_read_one_by_one() -> None:
    """They are made as they are taken, as all of a source's batch would take much memory."""
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
        await operator.run(*mails_and_slices())

    assert seen == [(number, 1) for number in range(1, 6)]
    assert operator.records_read == 5


class OneBatch(Source):
    """A source with all its records in one list."""

    def batches(self, context: RuntimeContext) -> Iterator[list[int]]:
        yield list(range(2 * BATCH_RECORDS + 1))


async def test_a_large_batch_is_taken_in_pieces() -> None:
    """A mail is run between them. A barrier would otherwise wait for the whole batch."""
    operator, mailbox = SourceOperator(OneBatch()), Mailbox("tested", 1)
    asked: list[int] = []
    async with Harness(operator) as harness:
        mailbox.post(lambda: mailbox.post(lambda: asked.append(operator.records_read)))
        await operator.run(*mails_and_slices(mailbox), cuts=False)
    assert list(map(len, harness.batches)) == [BATCH_RECORDS, BATCH_RECORDS, 1]
    assert harness.records == list(range(2 * BATCH_RECORDS + 1))
    assert asked == [BATCH_RECORDS]


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
    """A source that waits before each of two batches, and records the tasks in which it runs."""

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
    """All code of the source runs in one task, so that it may use a time-out or a task group."""
    source, mailbox = Noting(), Mailbox("tested", 1)
    async with Harness(SourceOperator(source)) as harness:
        operator = harness.operator
        assert isinstance(operator, SourceOperator)
        running = asyncio.create_task(operator.run(*mails_and_slices(mailbox)))
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
        running = asyncio.create_task(operator.run(*mails_and_slices()))
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


# -- refused arguments ---------------------------------------------------------------------------


def test_source_that_is_none() -> None:
    with pytest.raises(ConfigurationError, match="from_source needs a Source, not list"):
        SourceOperator([1])  # type: ignore[arg-type]


def saved_by(*places: tuple[int, int]) -> list[bytes]:
    """Return the state of sources in a checkpoint that is taken before they read."""
    parts = []
    for index, parallelism in places:
        operator = SourceOperator(GeneratorSource(str, 9))
        place = context(index=index, parallelism=parallelism, checkpointed=True)
        asyncio.run(operator.open(place))
        operator.prepare_snapshot(1)
        snapshot = place.state.snapshot(1, 0)
        for _ in snapshot.slices():
            pass
        parts.append(b"".join(snapshot.operator_pieces()))
    return parts


def read_after(parts: list[bytes], index: int, parallelism: int) -> list[Any]:
    """Return the records that a source reads when it continues from this state."""
    place = context(index=index, parallelism=parallelism, checkpointed=True)
    for _ in place.state.restore(1, [], parts):
        pass

    async def read_all() -> list[Any]:
        operator = SourceOperator(GeneratorSource(int, 9))
        async with Harness(operator, place) as harness:
            await operator.run(*mails_and_slices())
            return harness.records

    return asyncio.run(read_all())


def test_shares_are_dealt_out_anew_at_another_parallelism() -> None:
    two = saved_by((0, 2), (1, 2))
    assert read_after(two, 0, 1) == [0, 2, 4, 6, 8, 1, 3, 5, 7]
    assert [read_after(two, index, 3) for index in range(3)] == [
        [0, 4, 8],
        [1, 3, 5, 7],
        [2, 6],
    ]


def test_a_finished_share_is_not_read_again() -> None:
    """O2: the unread records of the other subtasks are distributed, at any parallelism."""
    one = [b"", *saved_by((1, 2))]
    assert read_after(one, 1, 2) == [1, 3, 5, 7]
    assert read_after(one, 0, 1) == [1, 3, 5, 7]
    assert [read_after(one, index, 3) for index in range(3)] == [[1, 7], [3], [5]]
    assert read_after([b"", b""], 0, 3) == []


async def test_a_source_emits_a_latency_marker_at_once_and_every_interval() -> None:
    """V6."""
    time = ManualTime(1_000)
    fields = {"processing_time": time, "latency_interval_ms": 100, "index": 3}
    async with Harness(SourceOperator(OneBatch()), context(**fields, operator_uid="s")) as harness:
        await time.advance(1_250)
        assert harness.event_time == [
            LatencyMarker(moment, "s", 3) for moment in (1_001, 1_102, 1_203)
        ]
    assert time.due_ms == []


async def test_a_source_emits_none_by_default() -> None:
    time = ManualTime()
    async with Harness(SourceOperator(OneBatch()), context(processing_time=time)):
        assert time.due_ms == []


END = 200


def left(shares: Iterable[Share]) -> list[int]:
    """Return the remaining numbers of a sequence that was dealt out one by one."""
    return sorted(
        number
        for index, parallelism, position in shares
        for number in range(index + position * parallelism, END, parallelism)
    )


def at_parallelism(shares: list[Share], parallelism: int, *, can_be_cut: bool) -> list[list[Share]]:
    return [
        shares_of(shares, index, parallelism, can_be_cut=can_be_cut) for index in range(parallelism)
    ]


def test_fewer_subtasks_read_several() -> None:
    shares = [Share(0, 3, 5), Share(1, 3), Share(2, 3, 1)]
    for can_be_cut in (False, True):
        assert at_parallelism(shares, 2, can_be_cut=can_be_cut) == [
            [Share(0, 3, 5), Share(2, 3, 1)],
            [Share(1, 3)],
        ]


def test_an_empty_source_has_no_shares() -> None:
    assert at_parallelism([], 2, can_be_cut=True) == [[], []]


def test_more_subtasks_read_parts() -> None:
    shares = [Share(0, 2, 5), Share(1, 2)]
    assert at_parallelism(shares, 3, can_be_cut=True) == [
        [Share(2, 4, 2)],  # 10, 14, ...
        [Share(1, 2)],
        [Share(0, 4, 3)],  # 12, 16, ...
    ]


def test_a_source_that_cannot_be_cut_is_read_by_some_subtasks() -> None:
    shares = [Share(0, 2, 5), Share(1, 2)]
    assert at_parallelism(shares, 3, can_be_cut=False) == [[shares[0]], [shares[1]], []]


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=6),
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
)
def test_nothing_is_lost_and_nothing_read_twice(positions: list[int], steps: list[int]) -> None:
    """This holds for repeated changes of the parallelism, too."""
    shares = [Share(index, len(positions), at) for index, at in enumerate(positions)]
    for parallelism in steps:
        dealt = at_parallelism(shares, parallelism, can_be_cut=True)
        assert all(dealt), "everybody has something"
        before, shares = left(shares), [share for some in dealt for share in some]
        assert left(shares) == before
