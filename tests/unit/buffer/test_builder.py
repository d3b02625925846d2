from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.buffer.builder import NO_BUILDER, BufferBuilder
from flinknet.buffer.segment import MemorySegment
from tests.unit.arrangements import Recycler, builder_of, content_of


def test_an_empty_builder_has_room_for_its_segment() -> None:
    builder = builder_of(capacity=64)
    assert (builder.size, builder.remaining, builder.sealed) == (0, 64, False)


def test_appending_writes_only_what_fits_and_says_how_much() -> None:
    """A9."""
    builder = builder_of(b"12345678", capacity=12)
    assert builder.append(memoryview(b"abcdefgh")) == 4
    assert (builder.size, builder.remaining) == (12, 0)
    assert builder.append(memoryview(b"efgh")) == 0
    assert content_of(builder.seal()) == b"12345678abcd"


@pytest.mark.parametrize("written", [0, 7, 16], ids=["empty", "part full", "full"])
def test_sealing_closes_a_builder_with_what_is_in_it(written: int) -> None:
    """A8, A11: its bytes become one buffer, and every caller gets the same buffer."""
    builder = builder_of(b"0123456789abcdef"[:written], capacity=16)
    buffer = builder.seal()
    assert builder.sealed
    assert (buffer.size, builder.size) == (written, written)
    assert builder.seal() is buffer
    assert content_of(buffer) == b"0123456789abcdef"[:written]


def test_nothing_fits_a_sealed_builder() -> None:
    """A writer learns from it, without a check of its own, that a reader took its builder."""
    builder = builder_of(b"1234")
    buffer = builder.seal()
    assert builder.remaining == 0
    assert builder.append(memoryview(b"more")) == 0
    builder.expand(10)
    assert builder.remaining == 0
    assert content_of(buffer) == b"1234"


@pytest.mark.parametrize(("asked", "given_capacity"), [(5, 5), (16, 16), (17, 16), (None, 16)])
def test_a_capacity_is_at_most_the_segment(asked: int | None, given_capacity: int) -> None:
    """A12."""
    builder = BufferBuilder(MemorySegment(16), Recycler(), capacity=asked)
    assert builder.remaining == given_capacity


def test_expanding_keeps_what_is_written() -> None:
    """A12, D9: a small capacity can be raised for the next bytes, up to the size of the segment."""
    builder = BufferBuilder(MemorySegment(20), Recycler(), capacity=12)
    assert builder.append(memoryview(b"twelve bytes, and eight")) == 12
    builder.expand(0)
    assert (builder.size, builder.remaining, builder.capacity) == (12, 0, 12)
    builder.expand(5)
    assert (builder.size, builder.remaining, builder.capacity) == (12, 5, 17)
    builder.expand(4)
    assert (builder.size, builder.remaining) == (12, 5)
    builder.expand(21)
    assert (builder.size, builder.remaining, builder.capacity) == (12, 8, 20)
    assert builder.append(memoryview(b", and eight")) == 8
    assert content_of(builder.seal()) == b"twelve bytes, and ei"


@pytest.mark.parametrize(
    ("records", "data_type"),
    [
        ([b"0123456789"], DataType.DATA_BUFFER_WITH_CLEAR_END),
        ([b"0123456789abcdef"], DataType.DATA_BUFFER_WITH_CLEAR_END),
        ([b"0123456789abcdef", b"g"], DataType.DATA_BUFFER_WITH_CLEAR_END),
        ([b"0123456789abcdefg"], DataType.DATA_BUFFER),
        ([b"0123456789", b"abcdefg"], DataType.DATA_BUFFER),
        ([b"0123456789", b"abcdef"], DataType.DATA_BUFFER_WITH_CLEAR_END),
    ],
    ids=[
        "inside",
        "to the end",
        "none of the next",
        "over the end",
        "second over the end",
        "second to the end",
    ],
)
def test_a_buffer_says_whether_it_ends_with_a_record(
    records: list[bytes], data_type: DataType
) -> None:
    """A13, D6: the buffer's type says it."""
    builder = builder_of(capacity=16)
    for record in records:
        builder.append(memoryview(record))
    assert builder.seal().data_type is data_type


@pytest.mark.parametrize(
    ("sizes", "marks"),
    [
        ([10, 6], [(0, 0, 2)]),
        ([16], [(0, 0, 1)]),
        ([17], [(0, 16, 0), (1, 0, 0)]),
        ([10, 10], [(0, 6, 1), (4, 0, 0)]),
        ([10, 22], [(0, 6, 1), (16, 0, 0)]),
        ([10, 40, 5], [(0, 6, 1), (16, 0, 0), (16, 0, 0), (2, 0, 1)]),
        ([10, 40, 14], [(0, 6, 1), (16, 0, 0), (16, 0, 0), (2, 0, 1)]),
        ([10, 40, 15], [(0, 6, 1), (16, 0, 0), (16, 0, 0), (2, 14, 0), (1, 0, 0)]),
        ([17, 3, 20], [(0, 16, 0), (1, 12, 1), (8, 0, 0)]),
    ],
    ids=str,
)
def test_a_buffer_says_how_much_of_it_is_part_of_a_record(
    sizes: list[int], marks: list[tuple[int, int, int]]
) -> None:
    """A13, D6: the bytes that continue a record of the buffer before, the bytes that begin a record
    of the next buffer, and the number of whole records. A record may fill several buffers and
    end exactly with one."""
    buffers = []
    builder = builder_of(capacity=16)
    for size in sizes:
        rest = memoryview(b"x" * size)
        rest = rest[builder.append(rest) :]
        while rest:
            continues = len(rest) < size
            buffers.append(builder.seal())
            builder = builder_of(capacity=16)
            rest = rest[builder.append(rest, continues=continues) :]
    buffers.append(builder.seal())
    said = [(buffer.continued, buffer.unfinished, buffer.records) for buffer in buffers]
    assert said == marks


def test_the_head_of_a_record_stands_before_its_data_or_not_at_all() -> None:
    """The head is never split: it goes into the next builder together with the data."""
    builder = builder_of(capacity=8)
    assert builder.append(memoryview(b"data"), head=b"head") == 4
    assert builder.append(memoryview(b"more"), head=b"head") == 0
    assert content_of(builder.seal()) == b"headdata"
    narrow = builder_of(capacity=4)
    assert narrow.append(memoryview(b"data"), head=b"head") == 0
    assert narrow.size == 0


@pytest.mark.parametrize("head", [b"", b"head "])
def test_whole_records_are_written_if_they_fit(head: bytes) -> None:
    """The head and the records are written and counted together, or nothing is written."""
    builder = builder_of(b"one", capacity=25)
    assert builder.append_whole(b"2and3", head, records=2)
    room = builder.remaining
    assert not builder.append_whole(b"x" * (room - len(head) + 1), head)
    assert (builder.remaining, builder.records) == (room, 3)
    assert builder.append_whole(memoryview(b"x" * (room - len(head))), head)
    buffer = builder.seal()
    assert content_of(buffer) == b"one" + head + b"2and3" + head + b"x" * (room - len(head))
    assert (buffer.records, builder.remaining) == (4, 0)
    assert not builder.append_whole(b"x")


def test_a_shared_builder_makes_one_buffer_for_all() -> None:
    """A18, A20: one segment, with one reference for each reader."""
    recycler = Recycler()
    builder = builder_of(b"for everyone", recycler=recycler, sharers=3)
    buffers = [builder.seal() for _ in range(3)]
    assert buffers[0] is buffers[1] is buffers[2]
    for buffer in buffers:
        assert recycler.segments == []
        buffer.recycle()
    assert len(recycler.segments) == 1


# -- readers that take from an open builder --------------------------------------------------------


def test_a_reader_takes_what_is_there_and_the_writer_goes_on_in_the_same_segment() -> None:
    """A8, A10, A11: no byte is read twice or before it is written; the segment is recycled with the
    last part."""
    recycler = Recycler()
    builder = builder_of(b"first", recycler=recycler)
    first = builder.take(0, 0)
    builder.resume()
    builder.append(memoryview(b"second"))
    builder.append(memoryview(b"third"))
    second = builder.take(5, 1)
    builder.resume()
    builder.append(memoryview(b"fourth"))
    last = builder.seal(16, 3)
    parts = [first, second, last]
    assert [content_of(part) for part in parts] == [b"first", b"secondthird", b"fourth"]
    assert [part.records for part in parts] == [1, 2, 1]
    assert builder.size == 22
    assert recycler.segments == []
    for part in parts:
        assert recycler.segments == []
        part.recycle()
    assert len(recycler.segments) == 1


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_a_segment_goes_back_when_its_builder_is_sealed_and_every_slice_recycled(
    order: tuple[int, ...],
) -> None:
    recycler = Recycler()
    builder = builder_of(b"one", recycler=recycler)
    slices = [builder.take(0, 0)]
    builder.resume()
    builder.append(memoryview(b"two"))
    slices.append(builder.take(3, 1))
    early = [index for index in order if index < 2][: order.index(2)]
    for index in early:
        slices[index].recycle()
    rest = builder.seal(6, 2)
    assert rest.size == 0
    late = [rest, *(part for index, part in enumerate(slices) if index not in early)]
    for part in late:
        assert recycler.segments == []
        part.recycle()
    assert len(recycler.segments) == 1


def test_taking_pauses_the_writer_and_loses_nothing() -> None:
    """The pause makes the writer pass the place where it asks for the next flush; one pass is
    enough."""
    builder = builder_of(b"1234", capacity=64)
    builder.resume()
    assert (builder.paused, builder.remaining) == (False, 60)
    builder.take(0, 0)
    assert (builder.paused, builder.remaining, builder.size) == (True, 0, 4)
    assert builder.append(memoryview(b"5678")) == 0
    builder.resume()
    assert (builder.paused, builder.remaining, builder.size) == (False, 60, 4)
    builder.take(4, 1)
    builder.seal(4, 1)
    builder.resume()
    assert (builder.paused, builder.remaining, builder.sealed) == (False, 0, True)


def test_peeking_changes_nothing() -> None:
    """Row 17: a peek does not pause the writer, and the same bytes can still be taken."""
    recycler = Recycler()
    builder = builder_of(b"one", recycler=recycler)
    builder.append(memoryview(b"two"))
    room = builder.remaining
    peeked = builder.peek(0, 0)
    assert (content_of(peeked), peeked.records, builder.remaining) == (b"onetwo", 2, room)
    taken = builder.take(0, 0)
    assert (content_of(taken), taken.records) == (b"onetwo", 2)
    builder.resume()
    builder.append(memoryview(b"three"))
    behind = builder.peek(6, 2)
    assert (content_of(behind), behind.records) == (b"three", 1)
    rest = builder.seal(6, 2)
    assert (content_of(rest), rest.records) == (b"three", 1)
    for buffer in (peeked, taken, behind, rest):
        assert recycler.segments == []
        buffer.recycle()
    assert len(recycler.segments) == 1


def test_a_sharer_can_peek_at_data_that_another_sharer_sealed() -> None:
    recycler = Recycler()
    builder = builder_of(b"content", recycler=recycler, sharers=2)
    sealed = builder.seal()
    peeked = builder.peek(0, 0)
    assert content_of(peeked) == b"content"
    for buffer in (sealed, peeked, builder.seal()):
        assert recycler.segments == []
        buffer.recycle()
    assert len(recycler.segments) == 1


@pytest.mark.parametrize(("written", "sealed"), [(32, False), (33, True), (64, True)])
def test_a_builder_that_is_more_than_half_written_does_not_go_on(
    written: int, sealed: bool
) -> None:
    """It is sealed and becomes one buffer for all readers, as if it had been taken only when
    full."""
    builder = builder_of(b"x" * written, capacity=64, sharers=2)
    buffers = [builder.take(0, 0), builder.take(0, 0)]
    assert builder.sealed is sealed
    assert (buffers[0] is buffers[1]) is sealed
    assert [content_of(buffer) for buffer in buffers] == [b"x" * written] * 2


@pytest.mark.parametrize(
    ("records", "has_large"),
    [
        ([], False),
        ([b"x" * 512], False),
        ([b"x" * 513], True),
        ([b"x" * 16] * 64, True),
        ([b"x" * 15] * 65, False),
        ([b"x" * 9, b"x" * 2000], True),
    ],
    ids=["nothing", "half full", "one", "64", "65", "a part of one"],
)
def test_a_buffer_that_a_few_records_fill_has_large_ones(
    records: list[bytes], has_large: bool
) -> None:
    builder = builder_of(capacity=1024)
    for record in records:
        builder.append(memoryview(record))
    assert builder.has_large_records() == has_large
    builder.seal()
    assert builder.has_large_records() == has_large


def test_records_that_readers_have_taken_count() -> None:
    """A flush between two records does not make the records count as larger."""
    builder = builder_of(capacity=1024)
    for record in range(64):
        builder.append(memoryview(bytes(8)))
        builder.take(8 * record, record)
        builder.resume()
    builder.append(memoryview(bytes(8)))
    assert builder.size > 512
    assert not builder.has_large_records()


def test_a_buffer_that_is_kept_small_has_no_large_records() -> None:
    """Debloating wants fewer bytes in flight, so it overrides the larger buffers of large
    records."""
    segment = MemorySegment(64)
    builder = BufferBuilder(segment, Recycler(), 32)
    builder.append(memoryview(bytes(40)))
    assert builder.remaining == 0
    assert not builder.has_large_records()


def test_no_builder_has_no_large_records() -> None:
    assert not NO_BUILDER.has_large_records()


def test_parts_of_records_are_said_of_the_slice_they_stand_in() -> None:
    """A13."""
    builder = builder_of(capacity=64)
    builder.append(memoryview(b"end"), continues=True)
    builder.append(memoryview(b"whole"))
    parts = [builder.take(0, 0)]
    builder.resume()
    builder.append(memoryview(b"second"))
    builder.append(memoryview(b"y" * 60))
    parts.append(builder.seal(8, 1))
    assert [(part.continued, part.records, part.unfinished) for part in parts] == [
        (3, 1, 0),
        (0, 1, 50),
    ]
    assert [part.data_type for part in parts] == [
        DataType.DATA_BUFFER_WITH_CLEAR_END,
        DataType.DATA_BUFFER,
    ]


def test_readers_of_a_shared_builder_take_at_their_own_pace() -> None:
    """A18, A20: each reader gets all bytes, in parts of its own; a reader may take nothing before
    the end."""
    recycler = Recycler()
    builder = builder_of(b"12", recycler=recycler, sharers=3)
    parts = [[builder.take(0, 0)], [], []]
    builder.resume()
    builder.append(memoryview(b"34"))
    parts[0].append(builder.take(2, 1))
    parts[1].append(builder.take(0, 0))
    builder.resume()
    builder.append(memoryview(b"56"))
    for taken in parts:
        start, records = sum(part.size for part in taken), sum(part.records for part in taken)
        taken.append(builder.seal(start, records))
    contents = [[content_of(part) for part in taken] for taken in parts]
    assert contents == [[b"12", b"34", b"56"], [b"1234", b"56"], [b"123456"]]
    assert [[part.records for part in taken] for taken in parts] == [[1, 1, 1], [2, 1], [3]]
    for part in (part for taken in parts for part in taken):
        assert recycler.segments == []
        part.recycle()
    assert len(recycler.segments) == 1


@given(
    st.lists(
        st.one_of(st.binary(min_size=1, max_size=9), st.integers(0, 2), st.just("recycle")),
        max_size=40,
    )
)
def test_slices_cut_a_byte_stream_without_losing_any(steps: list[bytes | int | str]) -> None:
    """A8, A10, A11: in any order of takes and recycles, every reader gets every byte and every
    record once and in order. The segment is recycled once, at the end."""
    recycler = Recycler()
    builder = builder_of(capacity=200, recycler=recycler, sharers=3)
    written, records = b"", 0
    read = [bytearray() for _ in range(3)]
    counted = [0] * 3
    done = [False] * 3
    held: list[Buffer] = []

    def keep(reader: int, buffer: Buffer) -> None:
        read[reader] += content_of(buffer)
        counted[reader] += buffer.records
        done[reader] = builder.sealed
        held.append(buffer)

    for step in steps:
        if isinstance(step, bytes):
            builder.resume()
            if builder.remaining >= len(step):
                builder.append(memoryview(step))
                written += step
                records += 1
        elif isinstance(step, int):
            if not done[step] and builder.size > len(read[step]):
                keep(step, builder.take(len(read[step]), counted[step]))
        elif held:
            held.pop(len(held) // 2).recycle()
        assert recycler.segments == [] or all(done)
    for reader in range(3):
        if not done[reader]:
            keep(reader, builder.seal(len(read[reader]), counted[reader]))
    assert read == [written] * 3
    assert counted == [records] * 3
    while held:
        assert recycler.segments == []
        held.pop().recycle()
    assert len(recycler.segments) == 1


def test_where_no_builder_is_open_nothing_fits() -> None:
    assert (NO_BUILDER.remaining, NO_BUILDER.sealed, NO_BUILDER.size) == (0, True, 0)
    assert not NO_BUILDER.paused
    assert not NO_BUILDER.append_whole(b"x")


@given(
    st.integers(1, 40),
    st.lists(st.binary(min_size=1, max_size=50), max_size=12),
    st.integers(0, 60),
)
def test_builders_cut_a_byte_stream_without_losing_any(
    capacity: int, records: list[bytes], hint: int
) -> None:
    """A9, A13: for any sizes, the buffers hold the records' bytes in order, and the marks show
    where records begin and end."""
    buffers = []
    builder = BufferBuilder(MemorySegment(capacity), Recycler(), capacity=hint)
    for record in records:
        rest = memoryview(record)
        while rest:
            rest = rest[builder.append(rest, continues=len(rest) < len(record)) :]
            if rest:
                buffers.append(builder.seal())
                builder = BufferBuilder(MemorySegment(capacity), Recycler(), capacity=hint)
                builder.expand(len(rest))
    buffers.append(builder.seal())
    stream = b"".join(records)
    assert b"".join(content_of(buffer) for buffer in buffers) == stream
    ends = {0}
    for record in records:
        ends.add(max(ends) + len(record))
    position = 0
    for buffer in buffers:
        start, position = position, position + buffer.size
        assert (buffer.data_type is DataType.DATA_BUFFER_WITH_CLEAR_END) == (position in ends)
        inside = [end for end in ends if start <= end <= position] or [position]
        assert buffer.continued == min(inside) - start
        assert buffer.unfinished == position - max(inside)
        assert buffer.records == len(inside) - 1
