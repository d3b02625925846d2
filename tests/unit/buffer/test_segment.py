from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from flinknet.buffer.segment import ARRAY_HEADER_BYTES, MemorySegment, allocate_segments
from flinknet.compiled_modules import COMPILED
from tests.plain_module import plain_module

Make = Callable[[int], MemorySegment]

KINDS = ["plain"] + ["compiled"] * COMPILED


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Both kinds of segment, with compiled modules in use or not."""
    found: str = request.param
    return found


@pytest.fixture
def make(kind: str) -> Make:
    """Return the constructor of that kind of segment."""
    if kind == "compiled":
        return MemorySegment
    made: Make = plain_module("flinknet.buffer.segment").MemorySegment
    return made


def test_writing_starts_at_the_first_byte_each_time(make: Make) -> None:
    segment = make(8)
    segment.writer()(b"old old!")
    write = segment.writer()
    write(b"ne")
    write(b"w")
    assert bytes(segment.view(3)) == b"new"
    assert bytes(segment.view(8)) == b"new old!"


def test_a_segment_has_all_its_memory_from_the_start(make: Make) -> None:
    segment = make(100)
    assert segment.capacity == 100
    assert len(segment.view(100)) == 100


def test_a_view_of_a_segment_is_its_memory(make: Make) -> None:
    segment = make(8)
    view = segment.view(4)
    view[:] = b"read"
    view.release()
    assert bytes(segment.view(4)) == b"read"


def test_writing_under_a_view_is_found_at_once(make: Make) -> None:
    """A segment that was recycled too early must never send the bytes of its next user."""
    segment = make(8)
    segment.writer()(b"sending!")
    view = segment.view(8)
    assert segment.is_locked()
    with pytest.raises(BufferError):
        segment.writer()(b"next")
    assert bytes(view) == b"sending!"
    view.release()
    assert not segment.is_locked()
    segment.writer()(b"next")
    assert bytes(segment.view(4)) == b"next"


def test_renewed_memory_leaves_the_old_to_its_viewer(make: Make) -> None:
    segment = make(8)
    segment.writer()(b"sending!")
    view = segment.view(8)
    segment.renew()
    segment.writer()(b"next")
    assert bytes(view) == b"sending!"
    assert bytes(segment.view(4)) == b"next"


@pytest.mark.parametrize("size", [4, 1_024, 1_025])
def test_writing_continues_behind_a_part_with_an_open_view(
    make: Make, kind: str, size: int
) -> None:
    """A long compiled part is a view, not a copy.

    It blocks a restart of the segment, not appending to it.
    """
    segment = make(2 + size + 6)
    write = segment.writer()
    write(b"c" * (2 + size))
    part = segment.part(2, size)
    write(b"behind")
    assert part == b"c" * size
    assert bytes(segment.part(2 + size, 6)) == b"behind"
    lent = kind == "compiled" and size > 1_024
    assert isinstance(part, memoryview) == lent
    assert segment.is_locked() == lent
    if isinstance(part, memoryview):
        assert part.readonly
        view = segment.view(2)
        with pytest.raises(BufferError):
            segment.writer()(b"")
        view.release()
        segment.writer()(b"next")
        part.release()
        assert not segment.is_locked()


def test_room_in_front_of_the_content_is_seen_if_asked_for(make: Make) -> None:
    segment = make(8)
    segment.writer()(memoryview(b"content!"))
    with segment.view_with_room(7) as view:
        assert bytes(view[ARRAY_HEADER_BYTES:]) == b"content"
        view[:ARRAY_HEADER_BYTES] = b"array"
    assert bytes(segment.view(8)) == b"content!"


@pytest.mark.skipif(not COMPILED, reason="a BytesIO looks after itself")
def test_compiled_nothing_is_read_or_written_outside_the_memory() -> None:
    segment = MemorySegment(8)
    write = segment.writer()
    write(b"seven..")
    longer: list[Any] = [b"to", bytearray(2), memoryview(b"to")]
    for refused in longer:
        with pytest.raises(ValueError, match="do not fit"):
            write(refused)
    write(b"!")
    assert segment.part(0, 8) == b"seven..!"
    for start, size in ((-1, 1), (0, 9), (1, 8), (9, 0), (0, -1)):
        with pytest.raises(ValueError, match="there are no"):
            segment.part(start, size)
    for wrong in (9, -6, 1 << 62):
        with pytest.raises(ValueError, match="there are no"):
            segment.view(wrong)
    with pytest.raises(ValueError, match="a segment of -1"):
        MemorySegment(-1)


@pytest.mark.skipif(not COMPILED, reason="a BytesIO looks after itself")
def test_compiled_a_segment_is_pickled_with_its_content() -> None:
    """The model search pickles every object of its worlds."""
    segment = MemorySegment(8)
    write = segment.writer()
    write(b"four")
    again, append = pickle.loads(pickle.dumps((segment, write)))
    append(b"more")
    assert again.part(0, 8) == b"fourmore"
    assert segment.part(0, 8) == b"four\0\0\0\0"
    restore: Any = segment.__reduce__()[0]
    with pytest.raises(ValueError, match="no segment"):
        restore(8, b"short", 0)


# -- the segments of a pool ------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "capacity"), [(3, 100), (40, 100_000)], ids=["few", "many"])
def test_segments_of_a_pool_share_no_byte(kind: str, number: int, capacity: int) -> None:
    """Segments stand close together, from the room in front of each to its last byte."""
    allocate = allocate_segments
    if kind != "compiled":
        allocate = plain_module("flinknet.buffer.segment").allocate_segments
    segments = allocate(number, capacity)
    assert [segment.capacity for segment in segments] == [capacity] * number
    for segment in segments:
        assert not any(segment.part(0, capacity))
    for index, segment in enumerate(segments):
        with segment.view_with_room(capacity) as view:
            view[:] = bytes((index + 1,)) * len(view)
    for index, segment in enumerate(segments):
        with segment.view_with_room(capacity) as view:
            assert bytes(view) == bytes((index + 1,)) * (ARRAY_HEADER_BYTES + capacity)


def test_the_memory_of_a_pool_stays_as_long_as_a_view_is_open(kind: str) -> None:
    allocate = allocate_segments
    if kind != "compiled":
        allocate = plain_module("flinknet.buffer.segment").allocate_segments
    segments = allocate(40, 100_000)
    segments[7].writer()(b"here")
    view = segments[7].view(4)
    segments[7].renew()
    segments[7].writer()(b"gone")
    del segments
    gc.collect()
    assert bytes(view) == b"here"
