"""A batch in slices: their lengths, the mails between them, and the records not begun."""

from __future__ import annotations

import asyncio
from typing import Any

import msgpack
import pytest

from flinknet.buffer.availability import Availability
from flinknet.environment.task_thread import OnLoop
from flinknet.errors import SerializationError
from flinknet.metrics.task_times import TaskTimes
from flinknet.net.task_clock import task_time
from flinknet.operators import record_slices
from flinknet.operators.mailbox import Mailbox
from flinknet.operators.record_slices import (
    PRESSED_S,
    RECORDS_FIRST,
    RECORDS_MAX,
    SLICE_S,
    RecordSlices,
    SliceSize,
)
from flinknet.records.serialization.packer import RecordPacker


def test_a_slice_is_as_long_as_it_takes() -> None:
    size = SliceSize()
    size.took(RECORDS_FIRST, SLICE_S / 10)
    assert size.records == 2 * RECORDS_FIRST
    size.took(RECORDS_FIRST, SLICE_S / 10)
    assert size.records == 2 * RECORDS_FIRST, "that was the end of a batch"
    size.took(2 * RECORDS_FIRST, SLICE_S * 8)
    assert size.records == RECORDS_FIRST // 4
    for _ in range(30):
        size.took(size.records, 0.0)
    assert size.records == RECORDS_MAX


def test_slices_under_backpressure_begin_with_one_record_and_grow_slowly() -> None:
    waited, stood = SliceSize(), SliceSize()
    waited.waited(PRESSED_S)
    assert waited.records == RECORDS_FIRST, "that is nothing unusual"
    waited.waited(2 * PRESSED_S)
    stood.took(RECORDS_FIRST, RECORDS_FIRST * PRESSED_S)
    for size in waited, stood:
        for records in range(1, RECORDS_FIRST):
            assert size.records == records
            size.took(records, 0.0)
        size.took(RECORDS_FIRST, 0.0)
        assert size.records == 2 * RECORDS_FIRST, "the pressure is over"


async def test_a_long_wait_for_memory_makes_slices_short(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(record_slices, "task_time", lambda: now)
    output = Availability()
    arranged = Arranged(output)
    slices: list[int] = []

    async def work(some: list[Any]) -> None:
        slices.append(len(some))

    output.set(True)
    await arranged.slices.work_off([*range(3)], work)
    output.set(False)
    working = asyncio.create_task(arranged.slices.work_off([*range(6)], work))
    await asyncio.sleep(0)
    now += 2 * PRESSED_S
    output.set(True)
    await working
    assert slices == [3, 1, 2, 3]


class Arranged:
    """Slices of a subtask without inputs, with the records processed in them."""

    def __init__(self, *outputs: Availability) -> None:
        self.mailbox = Mailbox("subtask", 10)
        self.times = TaskTimes("subtask", task_time())
        packer = RecordPacker()
        self.slices = RecordSlices(self.mailbox, outputs, self.times, None, packer, OnLoop())
        self.done: list[Any] = []

    async def work(self, records: list[Any]) -> None:
        self.done += records

    def rest(self, channel: int) -> list[Any]:
        return [msgpack.unpackb(record) for record in self.slices.rest_of(channel)]


async def test_mails_are_run_between_slices_and_see_the_rest() -> None:
    arranged = Arranged()
    records = list(range(3 * RECORDS_FIRST))
    seen: list[Any] = []

    async def work(some: list[Any]) -> None:
        await arranged.work(some)
        if len(arranged.done) == RECORDS_FIRST:
            arranged.mailbox.post(
                lambda: seen.append((len(arranged.done), arranged.rest(1), arranged.rest(0)))
            )

    await arranged.slices.work_off(records, work, 1)
    assert arranged.done == records
    assert seen == [(RECORDS_FIRST, records[RECORDS_FIRST:], [])]
    assert not arranged.rest(1), "all of it has begun"


async def test_the_loop_turns_between_slices() -> None:
    arranged = Arranged()
    turns: list[int] = []

    async def others() -> None:
        while True:
            turns.append(len(arranged.done))
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    await arranged.slices.work_off(list(range(4 * RECORDS_FIRST)), arranged.work)
    other.cancel()
    assert RECORDS_FIRST in turns


async def test_other_work_is_interrupted_for_mails_but_a_mail_is_not() -> None:
    arranged = Arranged()
    seen: list[str] = []

    async def long() -> None:
        arranged.mailbox.post(lambda: seen.append("the next one"))
        await arranged.slices.interrupt()
        seen.append("a long one")

    arranged.mailbox.post(long)
    await arranged.slices.interrupt()
    assert seen == ["a long one"]
    await arranged.slices.interrupt()
    assert seen == ["a long one", "the next one"]


async def test_records_without_memory_wait_and_mails_do_not() -> None:
    """The waiting time counts as backpressure; the time of the mail does not."""
    output = Availability()
    arranged = Arranged(output)
    working = asyncio.create_task(arranged.slices.work_off([1, 2], arranged.work))
    answer = await arranged.mailbox.submit(lambda: arranged.rest(-1))
    assert (answer, arranged.done) == ([1, 2], [])
    await asyncio.sleep(0)
    assert arranged.times.statistics(task_time()).is_backpressured
    output.set(True)
    await working
    assert arranged.done == [1, 2]
    assert not arranged.times.statistics(task_time()).is_backpressured
    assert not output.waiting


async def test_a_batch_that_fails_or_is_cancelled_leaves_no_rest() -> None:
    output = Availability()
    arranged = Arranged(output)
    working = asyncio.create_task(arranged.slices.work_off([1, 2], arranged.work, 0))
    await asyncio.sleep(0)
    assert output.waiting == 1
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert not output.waiting
    output.set(True)

    async def failing(records: list[Any]) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await arranged.slices.work_off([1, 2], failing, 0)
    assert not arranged.rest(0)


async def test_a_record_that_cannot_be_packed_again_says_so() -> None:
    arranged = Arranged()
    refused: list[str] = []

    def pack_rest() -> None:
        with pytest.raises(SerializationError) as raised:
            list(arranged.slices.rest_of(0))
        refused.append(str(raised.value))

    arranged.mailbox.post(pack_rest)
    await arranged.slices.work_off([object()], arranged.work, 0)
    assert "a record of type object cannot be serialised" in refused[0]
