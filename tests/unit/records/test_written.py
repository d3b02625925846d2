"""The value that ``emit`` returns for a record that is written already."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

import pytest

from flinknet.records.written import WRITTEN
from tests.plain_module import plain_module
from tests.unit.records.raising import new_exceptions
from tests.unit.records.writing import Arranged, sized

written: Any = WRITTEN
plain: Any = plain_module("flinknet.records.written").WRITTEN


async def test_the_plain_form_is_the_same() -> None:
    assert [await plain for _ in range(3)] == [None] * 3
    assert await asyncio.create_task(plain) is None


async def test_it_can_be_awaited_as_often_as_one_likes() -> None:
    assert [await written for _ in range(3)] == [None] * 3


async def test_it_is_awaited_without_an_exception() -> None:
    with new_exceptions() as raised:
        assert [await written for _ in range(3)] == [None] * 3
    assert raised == []


async def test_it_is_a_coroutine_for_all_checks() -> None:
    assert asyncio.iscoroutine(WRITTEN)
    assert isinstance(WRITTEN, Coroutine)
    assert await asyncio.create_task(written) is None
    assert list(await asyncio.gather(WRITTEN, written)) == [None, None]
    assert await asyncio.wait_for(written, 60) is None
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        tasks = [group.create_task(WRITTEN) for _ in range(3)]
    assert [task.result() for task in tasks] == [None] * 3


async def test_a_task_of_it_can_be_cancelled() -> None:
    task = asyncio.create_task(WRITTEN)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_by_hand_it_is_over_at_once() -> None:
    with pytest.raises(StopIteration) as ended:
        WRITTEN.send(None)
    assert ended.value.value is None
    with pytest.raises(ZeroDivisionError):
        WRITTEN.throw(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        WRITTEN.throw(ZeroDivisionError)
    WRITTEN.close()
    assert next(written.__await__(), "over") == "over"
    with pytest.raises(StopIteration):
        next(written.__await__())


def test_a_record_is_written_by_the_call() -> None:
    """It may be awaited later, in another order, or not at all."""
    arranged = Arranged()
    arranged.emit("opens a buffer")
    first = arranged.writer.emit("first")
    second: Any = arranged.writer.emit("second")
    assert first is second is WRITTEN
    arranged.writer.flush()
    assert arranged.take() == ["opens a buffer", "first", "second"]
    assert arranged.writer.records_out == 3


def test_python_warns_of_an_emit_without_await_that_lets_the_loop_turn() -> None:
    """Records are written without the await, so the mistake shows after a few buffers of them."""
    arranged = Arranged(segment_bytes=64, segments=64)
    coroutines = [arranged.writer.emit(sized(20))]
    while coroutines[-1] is WRITTEN:
        coroutines.append(arranged.writer.emit(sized(20)))
    assert arranged.writer.buffers_opened == 5
    assert arranged.take() == [sized(20)] * arranged.writer.records_out

    def forget() -> None:
        coroutines.clear()
        gc.collect()

    with pytest.warns(RuntimeWarning, match=r"emit_lets_loop_turn.* was never awaited"):
        forget()


def test_python_warns_of_a_record_without_await_when_memory_is_missing() -> None:
    """The record is not written."""
    arranged = Arranged(segment_bytes=64, segments=2)
    while arranged.partition.availability.available:
        arranged.emit(sized(60))
    waiting = [arranged.writer.emit(sized(60))]

    def forget() -> None:
        waiting.clear()
        gc.collect()

    with pytest.warns(RuntimeWarning, match=r"RecordAppender\._append.* was never awaited"):
        forget()
