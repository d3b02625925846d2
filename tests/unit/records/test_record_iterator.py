"""The iterator over records: those that are there, those that are waited for, and the end."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from flinknet.records import record_iterator
from tests.plain_module import plain_module
from tests.unit.records.raising import new_exceptions

FORMS = {
    module.__file__: module.RecordIterator
    for module in (record_iterator, plain_module("flinknet.records.record_iterator"))
}


class Batches:
    """What an iterator goes on with: lists, after a wait for each, an error, or the end."""

    def __init__(self, make: Callable[..., Any], *batches: list[Any] | Exception) -> None:
        self.iterator = make(self._next_of_another)
        self.waiting = asyncio.Event()
        self.go_on = asyncio.Event()
        self._batches = iter(batches)

    async def _next_of_another(self) -> Any:
        self.waiting.set()
        await self.go_on.wait()
        batch = next(self._batches, None)
        if batch is None:
            raise StopAsyncIteration
        if isinstance(batch, Exception):
            raise batch
        return self.iterator.hand_out(tuple(batch))


@pytest.fixture(params=FORMS.values(), ids=[str(path).rpartition(".")[2] for path in FORMS])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


async def all_of(records: AsyncIterator[Any]) -> list[Any]:
    return [record async for record in records]


async def test_records_come_in_order_to_the_end(make: Any) -> None:
    batches = Batches(make, [(1,), None, StopIteration(2)], ["last"])
    batches.go_on.set()
    first, second, third, last = await all_of(batches.iterator)
    assert (first, second, last) == ((1,), None, "last")
    assert isinstance(third, StopIteration)
    assert await all_of(batches.iterator) == []


async def test_an_iteration_that_was_left_goes_on(make: Any) -> None:
    batches = Batches(make, [1, 2, 3])
    batches.go_on.set()
    async for record in batches.iterator:
        assert record == 1
        break
    assert batches.iterator.take_left() == (2, 3)
    assert batches.iterator.take_left() == ()
    assert batches.iterator.hand_out((4, 5)) == 4
    assert await anext(batches.iterator) == 5


async def test_a_task_can_be_made_of_the_next(make: Any) -> None:
    batches = Batches(make, [1, 2])
    waiting = asyncio.create_task(batches.iterator.__anext__())
    await batches.waiting.wait()
    assert not waiting.done()
    batches.go_on.set()
    assert await waiting == 1
    assert await asyncio.wait_for(anext(batches.iterator), 60) == 2
    assert await asyncio.wait_for(anext(batches.iterator, "end"), 60) == "end"


async def test_a_wait_that_is_cancelled_loses_nothing(make: Any) -> None:
    batches = Batches(make, [1, 2])
    for _ in range(2):
        waiting = asyncio.create_task(batches.iterator.__anext__())
        await batches.waiting.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        batches.waiting.clear()
    batches.go_on.set()
    assert await all_of(batches.iterator) == [1, 2]


async def test_a_task_that_is_cancelled_before_it_begins_takes_no_record(make: Any) -> None:
    batches = Batches(make)
    assert batches.iterator.hand_out((0, 1)) == 0
    waiting = asyncio.create_task(batches.iterator.__anext__())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await anext(batches.iterator) == 1


async def test_an_error_is_raised_once(make: Any) -> None:
    batches = Batches(make, ZeroDivisionError("on purpose"), [1])
    batches.go_on.set()
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        await anext(batches.iterator)
    assert await anext(batches.iterator) == 1


async def test_one_that_is_closed_while_it_waits_can_be_used_again(make: Any) -> None:
    batches = Batches(make, [1])
    waiting = batches.iterator.__anext__()
    assert waiting.send(None) is not None
    waiting.close()
    batches.go_on.set()
    assert await anext(batches.iterator) == 1


async def test_what_next_has_raised_stays_as_it_is(make: Any) -> None:
    """Who calls next() on an awaitable may keep the StopIteration with the record."""
    iterator = Batches(make).iterator
    assert iterator.hand_out((0, "first", "second", "third")) == 0
    kept = [stopped_by(iterator) for _ in range(3)]
    assert [end.value for end in kept] == ["first", "second", "third"]
    assert iterator.take_left() == ()
    assert [end.value for end in kept] == ["first", "second", "third"]


def stopped_by(iterator: Any) -> StopIteration:
    with pytest.raises(StopIteration) as caught:
        next(iterator.__anext__().__await__())
    return caught.value


class Held:
    """A record that can be looked for."""


async def test_no_record_of_a_batch_is_kept_when_it_is_over(make: Any) -> None:
    iterator = Batches(make).iterator
    iterator.hand_out((0, Held()))
    held = weakref.ref(await anext(iterator))
    assert iterator.take_left() == ()
    gc.collect()
    assert held() is None


async def test_a_record_is_awaited_without_an_exception_of_its_own() -> None:
    """From CPython 3.12 on ``await`` takes a result out of a StopIteration: a new one for each
    record took three quarters of the time."""
    iterator = Batches(record_iterator.RecordIterator).iterator
    iterator.hand_out(tuple(range(100)))
    with new_exceptions() as raised:
        received = [await iterator.__anext__() for _ in range(99)]
    assert received == list(range(1, 100))
    assert len(raised) <= 1
