"""The iterator over records: available records, awaited records, and the end."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from itertools import cycle
from operator import length_hint
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.compiled_modules import COMPILED
from flinknet.errors import RemoteProtocolError
from flinknet.records import record_iterator
from flinknet.records.serialization.serializer import UNPACK_ERRORS, RecordUnpacker
from tests.plain_module import plain_module
from tests.unit.records.raising import new_exceptions
from tests.unit.records.serialization.flat_records import FLAT, NUMBERS, OTHERS

MODULES = (record_iterator, plain_module("flinknet.records.record_iterator"))
FORMS = {module.__file__: module.RecordIterator for module in MODULES}
ARRIVED = {module.RecordIterator: module.ArrivedRecords for module in MODULES}


def unpack_none(*_: Any) -> tuple[Any, ...]:
    raise AssertionError("there is nothing to unpack")


def arrived(iterator: Any) -> Any:
    """Return the iterator over the available records, which does not wait."""
    return ARRIVED[type(iterator)](iterator)


def hand_out(iterator: Any, *records: Any) -> Any:
    """Hand out unpacked records through the iterator; return the first."""
    content = memoryview(b"")
    iterator.have(content, 0, 0, 0, unpacked=records, length_max=1_000, unpack=unpack_none)
    return next(arrived(iterator))


class Batches:
    """The continuation of an iterator: lists, with a wait before each, then an error or the end."""

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
        return hand_out(self.iterator, *batch)


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
    assert arrived(batches.iterator).take_all() == (2, 3)
    assert arrived(batches.iterator).take_all() == ()
    assert hand_out(batches.iterator, 4, 5) == 4
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
    assert hand_out(batches.iterator, 0, 1) == 0
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


async def test_an_iterator_closed_while_waiting_can_be_used_again(make: Any) -> None:
    batches = Batches(make, [1])
    waiting = batches.iterator.__anext__()
    assert waiting.send(None) is not None
    waiting.close()
    batches.go_on.set()
    assert await anext(batches.iterator) == 1


async def test_a_raised_stop_iteration_keeps_its_record(make: Any) -> None:
    """A caller of next() on an awaitable may keep the StopIteration with the record."""
    iterator = Batches(make).iterator
    assert hand_out(iterator, 0, "first", "second", "third") == 0
    kept = [stopped_by(iterator) for _ in range(3)]
    assert [end.value for end in kept] == ["first", "second", "third"]
    assert arrived(iterator).take_all() == ()
    assert [end.value for end in kept] == ["first", "second", "third"]


def stopped_by(iterator: Any) -> StopIteration:
    with pytest.raises(StopIteration) as caught:
        next(iterator.__anext__().__await__())
    return caught.value


class Held:
    """A record that supports weak references."""


async def test_no_record_of_a_batch_is_kept_when_it_is_over(make: Any) -> None:
    iterator = Batches(make).iterator
    hand_out(iterator, 0, Held())
    held = weakref.ref(await anext(iterator))
    assert arrived(iterator).take_all() == ()
    gc.collect()
    assert held() is None


async def test_a_record_is_awaited_without_an_exception_of_its_own() -> None:
    """Since CPython 3.12, ``await`` takes a result out of a StopIteration.

    A new one for each record took three quarters of the time.
    """
    iterator = Batches(record_iterator.RecordIterator).iterator
    hand_out(iterator, *range(100))
    with new_exceptions() as raised:
        received = [await iterator.__anext__() for _ in range(99)]
    assert received == list(range(1, 100))
    assert len(raised) <= 1


# -- out of a buffer -------------------------------------------------------------------------------

ROOM = b"\0" * 5
UNPACKER = RecordUnpacker(record_bytes_max=1_000, record_elements_max=1_000)


class Stored:
    """The records of one buffer in an iterator, and the records that were unpacked for it."""

    way = "awaited"

    def __init__(
        self, make: Callable[..., Any], packed: bytes, number: int, *spanning: Any
    ) -> None:
        self.iterator = make(self._no_other)
        self.unpacked: list[int] = []
        self.content = memoryview(bytearray(ROOM + packed))
        self._number = number
        self._spanning = spanning

    @property
    def is_held(self) -> bool:
        """Whether the content has not been released yet."""
        try:
            return self.content.nbytes >= 0
        except ValueError:
            return False

    def begin(self) -> Any:
        self.iterator.have(
            self.content,
            len(ROOM),
            len(self.content),
            self._number,
            unpacked=self._spanning,
            length_max=UNPACKER.length_max,
            unpack=self._unpack,
        )
        return next(arrived(self.iterator))

    async def rest(self) -> list[Any]:
        taken: list[Any] = []
        await self.move_rest(taken)
        return taken

    async def move_rest(self, taken: list[Any]) -> None:
        """Take the remaining records, up to an error, in the way ``way``."""
        end = object()
        ways = {"awaited": [True], "arrived": [False], "in turn": [True, False, False]}[self.way]
        for waits in cycle(ways):
            if waits:
                record = await anext(self.iterator, end)
            else:
                record = next(arrived(self.iterator), end)
            if record is end:
                return
            taken.append(record)

    def _unpack(self, content: memoryview, start: int, end: int, number: int) -> tuple[Any, ...]:
        self.unpacked.append(number)
        return UNPACKER.whole_records(content, start, end, number)

    async def _no_other(self) -> Any:
        raise StopAsyncIteration


@pytest.fixture(params=["awaited", "arrived", "in turn"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the remaining records in each of the ways."""
    monkeypatch.setattr(Stored, "way", request.param)


def stored(make: Callable[..., Any], *records: Any) -> Stored:
    return Stored(make, b"".join(map(msgpack.packb, records)), len(records))


RECORDS: list[list[Any]] = [
    [(1, 2_000, 0.5), (70_000, -1, 1e300), (0, 2**40, -0.5)],
    [1, 300, -70_000, 2**63, 0.25],
    [("text", None, True), ("", ("a", "nested"), False), ()],
    [(1, 2), {"not": "flat"}, (3, 4), b"nor this", (5, 6)],
    [(1, 2), (3, 4), {"last": None}],
    [{"first": None}, (1, 2)],
    ["alone"],
    [(1, 2)],
]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("records", RECORDS, ids=str)
async def test_the_records_of_a_buffer_come_in_order(make: Any, records: list[Any]) -> None:
    buffer = stored(make, *records)
    assert [buffer.begin(), *await buffer.rest()] == records
    assert not buffer.is_held
    assert await buffer.rest() == []


@pytest.mark.usefixtures("way")
async def test_the_record_that_ends_in_a_buffer_comes_first(make: Any) -> None:
    buffer = Stored(make, msgpack.packb((1, 2)) + msgpack.packb((3, 4)), 2, "spanning")
    assert buffer.begin() == "spanning"
    assert await buffer.rest() == [(1, 2), (3, 4)]
    alone = Stored(make, b"", 0, "spanning")
    assert alone.begin() == "spanning"
    assert await alone.rest() == []
    assert not alone.is_held


@pytest.mark.usefixtures("way")
async def test_flat_records_are_unpacked_when_they_are_asked_for(make: Any) -> None:
    """Compiled: at most three of them exist at a time.

    From the first record that is not flat on, ``unpack`` handles the rest.
    """
    buffer = stored(make, *((number, 0.5) for number in range(1_000, 1_100)), {}, (1, 2))
    places = {id(buffer.begin())}
    for _ in range(99):
        places.add(id(await anext(buffer.iterator)))
    if make is record_iterator.RecordIterator and COMPILED:
        assert buffer.unpacked == []
        assert buffer.is_held
        assert len(places) <= 3
    assert await buffer.rest() == [{}, (1, 2)]
    assert not buffer.is_held


async def test_the_rest_of_a_buffer_can_be_taken(make: Any) -> None:
    buffer = stored(make, (1, 2), (3, 4), (5, 6))
    assert buffer.begin() == (1, 2)
    assert await anext(buffer.iterator) == (3, 4)
    assert arrived(buffer.iterator).take_all() == ((5, 6),)
    assert not buffer.is_held
    assert arrived(buffer.iterator).take_all() == ()
    before = Stored(make, msgpack.packb(1) + msgpack.packb(2), 2, "spanning")
    assert before.begin() == "spanning"
    assert arrived(before.iterator).take_all() == (1, 2)


async def test_the_rest_of_a_buffer_can_be_dropped(make: Any) -> None:
    buffer = stored(make, (1, 2), (3, 4), (5, 6))
    assert buffer.begin() == (1, 2)
    buffer.iterator.drop()
    assert not buffer.is_held
    assert await buffer.rest() == []
    again = stored(make, "other")
    again.iterator = buffer.iterator
    assert again.begin() == "other"


@pytest.mark.parametrize("records", RECORDS, ids=str)
async def test_a_synchronous_caller_knows_the_number_and_the_last_record(
    make: Any, records: list[Any]
) -> None:
    buffer = Stored(make, b"".join(map(msgpack.packb, records)), len(records), "spanning")
    there = arrived(buffer.iterator)
    assert (length_hint(there), there.last) == (0, None)
    assert buffer.begin() == "spanning"
    for left, record in zip(range(len(records), 0, -1), records, strict=True):
        assert length_hint(there) == left
        assert next(iter(there)) == record == there.last
    assert (next(there, "end"), length_hint(there), there.last) == ("end", 0, records[-1])
    buffer.iterator.drop()
    assert there.last is None


async def test_which_was_last_is_known_of_those_that_were_awaited(make: Any) -> None:
    buffer = stored(make, *RECORDS[3])
    assert buffer.begin() == arrived(buffer.iterator).last
    for record in RECORDS[3][1:]:
        assert await anext(buffer.iterator) == record == arrived(buffer.iterator).last


async def test_which_was_last_is_known_where_an_error_ends_them(make: Any) -> None:
    """An operator names this record in a function's failure."""
    buffer = Stored(make, msgpack.packb((1, 2)) * 3 + b"\xc1", 4)
    with pytest.raises((*UNPACK_ERRORS, RemoteProtocolError)):
        buffer.begin()
        list(arrived(buffer.iterator))
    assert arrived(buffer.iterator).last in ((1, 2), None)


@pytest.mark.usefixtures("way")
async def test_a_buffer_takes_the_place_of_the_one_before(make: Any) -> None:
    first, second = stored(make, (1, 2), (3, 4)), stored(make, (5, 6), (7, 8))
    second.iterator = first.iterator
    assert first.begin() == (1, 2)
    assert second.begin() == (5, 6)
    assert not first.is_held
    assert await second.rest() == [(7, 8)]


async def test_an_iterator_that_goes_lets_go_of_its_buffer(make: Any) -> None:
    buffer = stored(make, (1, 2), (3, 4), (5, 6))
    assert buffer.begin() == (1, 2)
    del buffer.iterator
    buffer.content.release()  # which it would refuse


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("wrong", "behind"),
    [
        (b"\xc1", b""),
        (b"\xc1" * 9, b"\x92\x07\x08"),
        (b"\x92\x01", b""),
        (b"\x92\x01", b"\x01"),
        (b"\x92\x01\xc1", b"\x92\x07\x08"),
        (b"\xcd\x01", b""),
        (b"\xcd\x01", b"\x01"),
    ],
)
@pytest.mark.parametrize("left", [False, True])
async def test_an_invalid_record_is_refused_when_it_is_reached(
    make: Any, wrong: bytes, behind: bytes, left: bool
) -> None:
    """The records before it may have been handed out, the records behind it never are."""
    number = 3 + bool(behind)
    buffer = Stored(make, b"".join(map(msgpack.packb, [(1, 2), (3, 4)])) + wrong + behind, number)
    taken = []
    with pytest.raises((*UNPACK_ERRORS, RemoteProtocolError)):
        taken.append(buffer.begin())
        if left:
            taken.extend(arrived(buffer.iterator).take_all())
        await buffer.move_rest(taken)
    assert taken == [(1, 2), (3, 4)][: len(taken)]
    assert not buffer.is_held
    assert await buffer.rest() == []


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("numbered", [0, 1, 2, 4, 5, 50])
async def test_a_wrong_number_of_records_is_refused(make: Any, numbered: int) -> None:
    """The last record is handed out only after the bytes behind it were checked."""
    buffer = Stored(make, b"".join(map(msgpack.packb, [(1, 2), (3, 4), (5, 6)])), numbered)
    taken = []
    with pytest.raises((*UNPACK_ERRORS, RemoteProtocolError)):
        taken.append(buffer.begin())
        await buffer.move_rest(taken)
    assert taken == [(1, 2), (3, 4), (5, 6)][: len(taken)]
    assert len(taken) < max(numbered, 1)
    assert not buffer.is_held


@pytest.mark.usefixtures("way")
async def test_more_records_than_elements_are_left_to_the_unpacker(make: Any) -> None:
    buffer = stored(make, *range(1_001))
    try:
        taken = [buffer.begin(), *await buffer.rest()]
    except UNPACK_ERRORS:
        taken = list(range(1_001))
    assert taken == list(range(1_001))
    assert buffer.unpacked == [1_001]
    assert not buffer.is_held


@pytest.mark.usefixtures("way")
async def test_an_unpacker_may_come_back_for_the_next(make: Any) -> None:
    """Unpacking may run any code, so nothing is left to hand out meanwhile."""
    inside = []

    def unpack(content: memoryview, start: int, end: int, number: int) -> tuple[Any, ...]:
        inside.append(arrived(buffer.iterator).take_all())
        return UNPACKER.whole_records(content, start, end, number)

    buffer = stored(make, (1, 2), {"not": "flat"}, (3, 4))
    buffer._unpack = unpack  # type: ignore[method-assign]
    assert [buffer.begin(), *await buffer.rest()] == [(1, 2), {"not": "flat"}, (3, 4)]
    assert inside == [()]
    assert not buffer.is_held


@given(
    records=st.lists(FLAT | NUMBERS | OTHERS, min_size=1, max_size=12),
    kept=st.lists(st.sampled_from(["record", "inner", None]), min_size=12, max_size=12),
)
@pytest.mark.parametrize("form", FORMS)
async def test_retained_records_of_a_buffer_do_not_change(
    form: str, records: list[Any], kept: list[str | None]
) -> None:
    """Records or values out of them may be kept for any time."""
    buffer = stored(FORMS[form], *records)
    held: list[Any] = []
    before: list[str] = []
    read: list[str] = []

    def look_at(record: Any) -> None:
        read.append(repr(record))
        way = kept[len(read) - 1]
        inner = record[-1] if isinstance(record, tuple) and record else record
        if way is not None:
            held.append(inner if way == "inner" else record)
            before.append(repr(held[-1]))
        assert list(map(repr, held)) == before

    look_at(buffer.begin())
    async for record in buffer.iterator:
        look_at(record)
    assert read == list(map(repr, records))
    assert list(map(repr, held)) == before
