from __future__ import annotations

import pytest

from flinknet.buffer.buffer import Buffer, DataType, make_pooled_buffer
from flinknet.buffer.builder import BufferBuilder
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.buffer.segment import ARRAY_HEADER_BYTES, MemorySegment
from tests.unit.arrangements import Recycler, assert_everything_returned, builder_of, content_of

ORDINALS = [
    "NONE",
    "DATA_BUFFER",
    "EVENT_BUFFER",
    "PRIORITIZED_EVENT_BUFFER",
    "ALIGNED_CHECKPOINT_BARRIER",
    "TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER",
    "RECOVERY_COMPLETION",
    "END_OF_SEGMENT",
    "DATA_BUFFER_WITH_CLEAR_END",
    "END_OF_DATA",
    "END_OF_PARTITION",
    "RECOVERY_METADATA",
]
"""In Flink's order."""


def test_data_types_have_the_ordinals_of_flink() -> None:
    """A14: the ordinals are part of the wire format."""
    assert [data_type.name for data_type in sorted(DataType)] == ORDINALS
    assert [data_type.name for data_type in DataType] == ORDINALS


@pytest.mark.parametrize("data_type", DataType)
def test_a_data_type_is_data_or_an_event_or_nothing(data_type: DataType) -> None:
    kinds = data_type.is_buffer + data_type.is_event
    assert kinds == (data_type is not DataType.NONE)
    assert data_type.is_event or not (data_type.has_priority or data_type.is_blocking_upstream)


def test_data_types_with_priority_and_data_types_that_block() -> None:
    """A14: aligned barriers and the end of recovery block the producer, unaligned barriers
    overtake."""
    assert [data_type for data_type in DataType if data_type.has_priority] == [
        DataType.PRIORITIZED_EVENT_BUFFER
    ]
    assert [data_type for data_type in DataType if data_type.is_blocking_upstream] == [
        DataType.ALIGNED_CHECKPOINT_BARRIER,
        DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
        DataType.RECOVERY_COMPLETION,
    ]


@pytest.mark.parametrize("holders", [1, 2, 5])
def test_the_last_holder_returns_the_segment(holders: int) -> None:
    """A7, A18: a shared buffer is recycled once, after its last holder has released it."""
    recycler = Recycler()
    segment = MemorySegment(16)
    buffer = Buffer(DataType.DATA_BUFFER, segment, recycler, 16, references=holders)
    for _ in range(holders):
        assert recycler.segments == []
        buffer.recycle()
    assert recycler.segments == [segment]


@pytest.mark.parametrize("sliced", [False, True])
def test_retaining_a_buffer_adds_a_reference(sliced: bool) -> None:
    """A18: the reference is to the whole buffer, or to the buffer that a slice is cut from."""
    recycler = Recycler()
    builder = builder_of(b"content", recycler=recycler)
    buffer = builder.take(0, 0) if sliced else builder.seal()
    if sliced:
        builder.seal(7, 1).recycle()
    retained = buffer.retained()
    buffer.recycle()
    assert recycler.segments == []
    assert (content_of(retained), retained.records) == (b"content", 1)
    retained.recycle()
    assert len(recycler.segments) == 1
    with pytest.raises(AssertionError, match="a recycled buffer was retained"):
        retained.retained()


def test_recycling_once_too_often_is_a_programming_error() -> None:
    recycler = Recycler()
    buffer = Buffer(DataType.DATA_BUFFER, MemorySegment(16), recycler, 16)
    buffer.recycle()
    with pytest.raises(AssertionError, match="more often than it was held"):
        buffer.recycle()
    assert len(recycler.segments) == 1


def test_an_event_is_a_few_bytes_of_ordinary_memory() -> None:
    """A14, A18: every holder reads the same bytes, and no segment has to be recycled."""
    event = Buffer.event(DataType.END_OF_DATA, b"\x91\x01", references=2)
    assert (event.size, event.data_type) == (2, DataType.END_OF_DATA)
    assert event.view() == b"\x91\x01"
    event.recycle()
    assert event.view() == b"\x91\x01"
    event.recycle()
    with pytest.raises(AssertionError):
        event.recycle()


def test_a_buffer_shows_what_is_in_it_and_no_more() -> None:
    segment = MemorySegment(16)
    segment.writer()(b"twelve bytes----")
    assert content_of(Buffer(DataType.DATA_BUFFER, segment, Recycler(), 12)) == b"twelve bytes"


def test_a_pooled_buffer_is_made_with_one_reference() -> None:
    recycler, segment = Recycler(), MemorySegment(16)
    segment.writer()(b"twelve bytes----")
    buffer = make_pooled_buffer(DataType.DATA_BUFFER, segment, recycler, 12, 1, 2, 3)
    assert content_of(buffer) == b"twelve bytes"
    assert buffer.data_type is DataType.DATA_BUFFER
    assert (buffer.continued, buffer.unfinished, buffer.records) == (1, 2, 3)
    buffer.recycle()
    assert recycler.segments == [segment]
    with pytest.raises(AssertionError):
        buffer.recycle()


def test_in_front_of_the_content_is_room_for_the_header_of_an_array() -> None:
    segment = MemorySegment(8)
    segment.writer()(b"content!")
    buffer = Buffer(DataType.DATA_BUFFER, segment, Recycler(), 7)
    with buffer.view_with_room() as view:
        assert bytes(view[ARRAY_HEADER_BYTES:]) == b"content"
        view[:ARRAY_HEADER_BYTES] = b"array"
    assert bytes(segment.view(8)) == b"content!"
    segment.renew()
    assert len(buffer.view_with_room()) == ARRAY_HEADER_BYTES + 7


def test_a_segment_that_a_socket_looks_at_is_safe_to_reuse() -> None:
    """The socket may still hold a view of the old memory, so the next user gets new memory."""
    pool = NetworkBufferPool(1, 16)
    local = pool.create_local_pool(1, owner="test")
    segment = local.request()
    assert segment is not None
    segment.writer()(b"in the socket")
    buffer = Buffer(DataType.DATA_BUFFER, segment, local, 13, references=2)
    view = buffer.view()
    buffer.recycle_sent()
    buffer.recycle()
    again = local.request()
    assert again is segment
    again.writer()(b"somebody else's")
    assert bytes(view) == b"in the socket"
    local.recycle(again)
    local.destroy()
    assert_everything_returned(pool)


def slices_of(*contents: bytes) -> tuple[BufferBuilder, list[Buffer], Recycler]:
    """Make slices of one segment, each of which has bytes behind it."""
    recycler = Recycler()
    builder = builder_of(recycler=recycler)
    slices: list[Buffer] = []
    for content in contents:
        builder.resume()
        builder.append(memoryview(content))
        slices.append(builder.take(sum(part.size for part in slices), len(slices)))
    return builder, slices, recycler


def test_a_writer_continues_behind_a_slice_with_an_open_view() -> None:
    """A socket may hold its view of a slice for any time."""
    builder, slices, _ = slices_of(b"first", b"second")
    views = [*(part.view() for part in slices), *(part.view_with_room() for part in slices)]
    builder.resume()
    builder.append(memoryview(b"third"))
    contents = [bytes(view) for view in views]
    assert contents[:2] == [b"first", b"second"]
    assert [content[ARRAY_HEADER_BYTES:] for content in contents[2:]] == contents[:2]


def test_writing_in_front_of_a_slice_does_not_change_the_previous_slice() -> None:
    """Only the first slice has room in front.

    The bytes before the other slices belong to earlier slices.
    """
    _, slices, _ = slices_of(b"first", b"second", b"third")
    for part in slices:
        with part.view_with_room() as view:
            view[:ARRAY_HEADER_BYTES] = b"array"
    assert [content_of(part) for part in slices] == [b"first", b"second", b"third"]


def test_a_segment_of_slices_that_a_socket_looks_at_is_safe_to_reuse() -> None:
    pool = NetworkBufferPool(1, 5_000)
    local = pool.create_local_pool(1, owner="test")
    segment = local.request()
    assert segment is not None
    builder = BufferBuilder(segment, local)
    builder.append(memoryview(b"1" * 2_000))
    slices: list[Buffer] = [builder.take(0, 0)]
    builder.resume()
    builder.append(memoryview(b"2" * 2_000))
    slices.append(builder.seal(2_000, 1))
    views = [part.view() for part in slices]
    for part in slices:
        part.recycle_sent()
    again = local.request()
    assert again is segment
    again.writer()(b"somebody else's" * 300)
    assert [bytes(view) for view in views] == [b"1" * 2_000, b"2" * 2_000]
    local.recycle(again)
    local.destroy()
    assert_everything_returned(pool)


def test_a_slice_is_recycled_once_however_that_is_said() -> None:
    builder, slices, recycler = slices_of(b"sent", b"read")
    slices[0].recycle_sent()
    slices[1].recycle()
    for part in slices:
        with pytest.raises(AssertionError, match="more often than it was held"):
            part.recycle()
    assert recycler.segments == []
    builder.seal(17, 3).recycle()
    assert len(recycler.segments) == 1
