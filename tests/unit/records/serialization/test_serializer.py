from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from random import Random
from typing import Any, Literal

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.config import NetworkConfig
from flinknet.errors import RemoteProtocolError, SerializationError
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES
from flinknet.records.serialization.large_record import large_form
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import (
    UNPACK_ERRORS,
    RecordDeserializer,
    RecordUnpacker,
)
from tests.naming import spelled
from tests.traced_memory import traced_memory
from tests.unit.records.columns.cutting import (
    KIB,
    Cut,
    cut,
    cut_packed,
    make_deserializer,
    make_memory,
    make_unpacker,
    read,
    read_all,
    read_each,
    records_of,
)
from tests.unit.records.serialization.scalars import scalars

VALUES = scalars(8, 60)

RECORDS = (
    VALUES
    | st.tuples(VALUES, VALUES)
    | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), st.tuples(VALUES), max_size=2)
)

few_examples = settings(max_examples=40)


@dataclass(frozen=True)
class Shouting:
    text: str

    def __hash__(self) -> int:
        return hash(self.text.upper())


# -- kinds of records ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "arrives"),
    [
        (None, None),
        (True, True),
        (-(2**63), -(2**63)),
        (2**64 - 1, 2**64 - 1),
        (1.5, 1.5),
        ("flügel", "flügel"),
        (b"\x00\xff", b"\x00\xff"),
        (bytearray(b"bytes"), b"bytes"),
        ([1, [2, (3,)]], (1, (2, (3,)))),
        ((), ()),
        ({"a": [1], 2: "b", (1, 2): None}, {"a": (1,), 2: "b", (1, 2): None}),
        (datetime(2026, 11, 21, 9, 30, tzinfo=UTC), datetime(2026, 11, 21, 9, 30, tzinfo=UTC)),
        (datetime(1901, 1, 1, 0, 0, 0, 123456, UTC), datetime(1901, 1, 1, 0, 0, 0, 123456, UTC)),
    ],
    ids=spelled,
)
def test_a_record_arrives_as_a_value(record: object, arrives: object) -> None:
    data = RecordPacker().pack(record)
    (value,) = read(make_deserializer(), Cut(data))
    assert value == arrives
    assert type(value) is type(arrives)


def test_a_refused_record_leaves_nothing_in_the_packer() -> None:
    pack = RecordPacker().pack
    for refused in ([1, 2, {3j}], {"key": object()}, ["x" * 100, 2**64]):
        with pytest.raises(SerializationError):
            pack(refused)
        assert pack((1, 2)) == b"\x92\x01\x02"


def test_the_packer_copies() -> None:
    """The caller may change its record afterwards."""
    record = [1, 2]
    data = RecordPacker().pack(record)
    record[0] = 99
    assert data == b"\x92\x01\x02"


def test_the_limits_are_those_of_the_configuration() -> None:
    config = NetworkConfig(
        record_bytes_max=1 << 16, record_elements_max=33_024, record_keys_max=500
    )
    unpack = RecordUnpacker.of(config, [Shouting]).record
    pack = RecordPacker([Shouting]).pack
    row = b"x" * COUNTED_FROM_BYTES
    for passes in (
        b"x" * (1 << 16),
        (0,) * 32_000,
        (row, dict.fromkeys(range(500))),
        Shouting("a"),
    ):
        assert unpack(pack(passes)) == passes
    for refused, limit in (
        (b"x" * ((1 << 16) + 1), "max_bin_len"),
        ((0,) * 33_100, "more than 33024 elements in total|max_array_len.33024"),
        ((row, dict.fromkeys(range(501))), "501 keys in total .* more than 500"),
    ):
        with pytest.raises(ValueError, match=limit):
            unpack(pack(refused))


def test_any_msgpack_library_reads_the_stream() -> None:
    pack = RecordPacker().pack
    stream = b"".join(map(pack, [1, "two", [3.0], {"four": b"4"}]))
    unpacker = msgpack.Unpacker()
    unpacker.feed(stream)
    assert list(unpacker) == [1, "two", [3.0], {"four": b"4"}]


# -- records over buffers --------------------------------------------------------------------------


@pytest.mark.parametrize("segment_bytes", [5, 16, 32, 33, 64, 1000])
def test_integers_over_many_buffers(segment_bytes: int) -> None:
    """A1: buffer sizes that are a multiple of the record's, and others."""
    numbers = list(range(2**16, 2**16 + 1_000))
    assert {len(RecordPacker().pack(number)) for number in numbers} == {5}
    completed = read_each(make_deserializer(), cut(numbers, segment_bytes))
    assert [record for records in completed for record in records] == numbers
    assert len(completed) == -(-5_000 // segment_bytes)


@few_examples
@given(st.lists(RECORDS, max_size=12), st.integers(1, 100))
def test_records_of_any_shape_over_buffers_of_any_size(
    records: list[Any], segment_bytes: int
) -> None:
    """A2: each record comes with the buffer that has its last byte."""
    deserializer = make_deserializer()
    buffers = cut(records, segment_bytes)
    completed = read_each(deserializer, buffers)
    assert [record for part in completed for record in part] == records
    assert not deserializer.inside_record
    ends = list(accumulate(len(RecordPacker().pack(record)) for record in records))
    position = 0
    for buffer, part in zip(buffers, completed, strict=True):
        end = position + len(buffer.content)
        assert len(part) == sum(position < bound <= end for bound in ends)
        position = end


@pytest.mark.parametrize("size", [100, 5_000, 300_000])
@pytest.mark.parametrize("record_spill_bytes", [50, 1 << 20], ids=["on disk", "in memory"])
def test_small_records_among_huge_ones(size: int, record_spill_bytes: int) -> None:
    """A2, A5, A6: they far exceed a segment, with other records in their first and last buffers.

    No record is lost or torn.
    """
    random = Random(size)
    records = [
        random.randbytes(random.randrange(size, size * 2)) if number % 5 == 2 else number
        for number in range(25)
    ]
    memory = make_memory(record_spill_bytes=record_spill_bytes)
    assert read_all(make_deserializer(memory), cut(records, 4_096)) == records
    counts = memory.statistics()
    assert (counts.records, counts.memory_bytes, counts.spilled_records) == (0, 0, 0)


@pytest.mark.parametrize("record", ["x" * 300, (1, "two", {"three": (4.0, None)}), b"y" * 70_000])
@pytest.mark.parametrize("record_spill_bytes", [2, 1 << 20], ids=["on disk", "in memory"])
def test_a_record_cut_at_every_byte(record: object, record_spill_bytes: int) -> None:
    """A3, A4: the cut may be inside its length. The record comes once, with its last byte."""
    data = RecordPacker().pack(record)
    memory = make_memory(record_spill_bytes=record_spill_bytes)
    deserializer = make_deserializer(memory)
    for at in [*range(1, min(len(data), 400)), *range(len(data) - 3, len(data))]:
        assert read(deserializer, Cut(data[:at], 0, at, clear_end=False)) == []
        assert deserializer.inside_record
        assert memory.statistics().spilled_bytes == (at if at > record_spill_bytes else 0)
        assert read(deserializer, Cut(data[at:], len(data) - at)) == [record]
        assert not deserializer.inside_record
        memory.check_invariants()


@pytest.mark.parametrize("record_spill_bytes", [40, 1 << 20], ids=["on disk", "in memory"])
def test_a_record_fed_byte_by_byte(record_spill_bytes: int) -> None:
    """A4: after each byte all received bytes are held once, in memory or on disk."""
    record = (1, "two", b"three" * 50)
    memory = make_memory(record_spill_bytes=record_spill_bytes)
    deserializer = make_deserializer(memory)
    buffers = cut([record], 1)
    for number, buffer in enumerate(buffers[:-1], 1):
        assert read(deserializer, buffer) == []
        counts = memory.statistics()
        spilled = number > record_spill_bytes
        assert (counts.memory_bytes, counts.spilled_bytes) == (
            (0, number) if spilled else (number, 0)
        )
    assert read(deserializer, buffers[-1]) == [record]
    assert memory.statistics().records == 0


def test_a_buffer_ends_a_record_holds_others_and_begins_one() -> None:
    """A13: the marks of the buffer tell, with and without each of the three parts."""
    deserializer = make_deserializer()
    assert read(deserializer, Cut(b"\x01\xa4ab", 0, 3, clear_end=False)) == [1]
    assert read(deserializer, Cut(b"cd\x02\x03\xa2e", 2, 2, clear_end=False)) == ["abcd", 2, 3]
    assert read(deserializer, Cut(b"f\xa2g", 1, 2, clear_end=False)) == ["ef"]
    assert read(deserializer, Cut(b"h", 1)) == ["gh"]
    assert read(deserializer, Cut(b"\x04")) == [4]
    assert read(deserializer, Cut(b"")) == []


# -- the shared unpacker ---------------------------------------------------------------------------


@few_examples
@given(
    st.lists(st.tuples(st.integers(0, 3), RECORDS), max_size=20),
    st.integers(1, 40),
    st.integers(0, 60),
)
def test_channels_that_share_an_unpacker_do_not_mix(
    writes: list[tuple[int, Any]], segment_bytes: int, record_spill_bytes: int
) -> None:
    """A2: each channel has its own deserializer, and buffers come from the channels in turn.

    Some records spill, others do not.
    """
    memory = make_memory(
        reassembly_memory_bytes=2 * record_spill_bytes, record_spill_bytes=record_spill_bytes
    )
    unpacker = make_unpacker()
    deserializers = [RecordDeserializer(unpacker, memory) for _ in range(4)]
    written = [[record for to, record in writes if to == channel] for channel in range(4)]
    queues = [cut(records, segment_bytes) for records in written]
    received: list[list[Any]] = [[], [], [], []]
    while any(queues):
        for channel, queue in enumerate(queues):
            if queue:
                received[channel] += read(deserializers[channel], queue.pop(0))
                memory.check_invariants()
    assert received == written
    assert memory.statistics().records == 0


def test_a_refused_record_leaves_nothing_in_the_unpacker() -> None:
    """Neither it nor the records before it are left; another channel goes on."""
    unpacker, memory = make_unpacker(), make_memory()
    for refused in (b"\x01\x92\x02", b"\x01\xc1", b"\xa1\xff", b"\x01\xdd\xff\xff\xff\xff"):
        with pytest.raises((RemoteProtocolError, *UNPACK_ERRORS)):
            read(RecordDeserializer(unpacker, memory), Cut(refused))
        assert read(RecordDeserializer(unpacker, memory), Cut(b"\x05")) == [5]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x81\x80\x01", "unhashable"),
        (b"\x81\xc7\x03\x09\x92\x00\x05\x01", "'int' object has no attribute 'upper'"),
    ],
    ids=["a map", "an object whose own hash fails"],
)
def test_a_key_that_has_no_hash_is_an_error_of_the_record(content: bytes, reason: str) -> None:
    unpacker = RecordUnpacker.of(NetworkConfig(), [Shouting])
    with pytest.raises((TypeError, ValueError), match=reason):
        read(RecordDeserializer(unpacker, make_memory()), Cut(content))


CUT_OFF = [
    b"\x92\x01", b"\xa5abc", b"\xa1", b"\xd9", b"\xc4\x01", b"\x81\xa1k", b"\xcd\x01", b"\xd7\xff",
    b"\xd7\xff" + b"\0" * 7, b"\xc7", b"\x91" * 100, b"\xdc\x00", b"\xdb\x00\x00\xff\xff",
]  # fmt: skip


@pytest.mark.parametrize("cut_off", CUT_OFF, ids=bytes.hex)
def test_a_cut_record_announced_as_whole_is_found(cut_off: bytes) -> None:
    """An unpacker left inside it would corrupt the next channel's data."""
    unpacker, memory = make_unpacker(), make_memory()
    with pytest.raises(RemoteProtocolError, match="sent an incomplete record"):
        read(RecordDeserializer(unpacker, memory), Cut(b"\x01" + cut_off))
    assert read(RecordDeserializer(unpacker, memory), Cut(b"\x05")) == [5]


@pytest.mark.parametrize("continued", [b"", b"\xa1"], ids=["at the start", "behind another's end"])
@pytest.mark.parametrize("number", [0, 1, 3, 4, 1_000])
def test_a_wrong_number_of_records_is_found(number: int, continued: bytes) -> None:
    """There may be more or fewer."""
    content = Cut(b"x" * len(continued) + b"\x01\xa1b", len(continued)).room_and_content
    deserializer = make_deserializer()
    if continued:
        read(deserializer, Cut(continued, 0, 1, clear_end=False))
    with pytest.raises(RemoteProtocolError, match="or a wrong number of records"):
        records_of(deserializer, content, len(continued), 0, number, clear_end=True)
    with pytest.raises(RemoteProtocolError, match="or a wrong number of records"):
        records_of(deserializer, Cut(b"").room_and_content, 0, 0, number + 1, clear_end=True)


NO_BATCH = b"\xc9" + (20_000).to_bytes(4, "big") + b"\x7f" + bytes(20_000)


@pytest.mark.parametrize(
    "buffers",
    [
        [Cut(b"\x01\xc1")],
        [Cut(b"\xa1", 0, 1, clear_end=False), Cut(b"x\xc1", 1)],
        [Cut(b"\x92", 0, 1, clear_end=False), Cut(b"\x01\xc1", 2)],
        [Cut(NO_BATCH)],
        [Cut(NO_BATCH[:99], 0, 99, clear_end=False), Cut(NO_BATCH[99:], len(NO_BATCH) - 99)],
    ],
    ids=["whole", "behind another's end", "put together", "large", "large, put together"],
)
def test_a_refused_buffer_can_be_reused_at_once(buffers: list[Cut]) -> None:
    """This holds although the error is kept, with the frames of all the code at work."""
    *before, last = buffers
    deserializer = make_deserializer()
    assert read_all(deserializer, before) == []
    memory = bytearray(last.room_and_content)
    with memoryview(memory) as view, pytest.raises(UNPACK_ERRORS) as refused:
        records_of(deserializer, view, last.continued, 0, last.records, clear_end=True)
    memory.clear()  # a BufferError if the memory is still referenced
    assert refused.tb is not None


def test_more_records_than_a_record_may_have_elements_are_refused() -> None:
    """This comes before room is made for them. A writer's buffers never have so many."""
    deserializer = RecordDeserializer(make_unpacker(record_elements_max=8), make_memory())
    assert read(deserializer, Cut(bytes(8))) == [0] * 8
    with pytest.raises(UNPACK_ERRORS, match="max_array_len"):
        read(deserializer, Cut(bytes(9)))


@pytest.mark.parametrize(
    "content",
    [*(cut_off for cut_off in CUT_OFF if len(cut_off) > 1), b"\x01\x02", b"\x91\x01\x91"],
    ids=bytes.hex,
)
@pytest.mark.parametrize("record_spill_bytes", [0, 1 << 20], ids=["on disk", "in memory"])
def test_a_record_put_together_wrongly_is_found(content: bytes, record_spill_bytes: int) -> None:
    """Bytes are missing or left over. None of them is kept."""
    memory = make_memory(record_spill_bytes=record_spill_bytes)
    deserializer = make_deserializer(memory)
    assert read(deserializer, Cut(content[:1], 0, 1, clear_end=False)) == []
    with pytest.raises(RemoteProtocolError, match="sent an incomplete record"):
        read(deserializer, Cut(content[1:], len(content) - 1))
    assert not deserializer.inside_record
    assert memory.statistics().records == 0
    memory.check_invariants()


@given(RECORDS, st.data())
def test_any_cut_announced_as_whole_is_found(record: Any, data: st.DataObject) -> None:
    packed = RecordPacker().pack(record)
    position = data.draw(st.integers(1, len(packed)))
    if position == len(packed):
        assert read(make_deserializer(), Cut(packed)) == [record]
    else:
        with pytest.raises(RemoteProtocolError):
            read(make_deserializer(), Cut(packed[:position]))


@pytest.mark.parametrize(
    "buffer",
    [Cut(b"\x01"), Cut(b"\x01\xa2a", 0, 2, clear_end=False), Cut(b"")],
    ids=["whole records", "another beginning", "nothing"],
)
def test_a_record_that_is_not_continued_is_an_error(buffer: Cut) -> None:
    deserializer = make_deserializer()
    read(deserializer, Cut(b"\xa5abc", 0, 4, clear_end=False))
    with pytest.raises(RemoteProtocolError, match="sent an incomplete record: it did not"):
        read(deserializer, buffer)


@pytest.mark.parametrize(
    "buffer",
    [Cut(b"\x01", 1), Cut(b"\x01\x02", 1), Cut(b"a", 1, 0, clear_end=False),
     Cut(b"", clear_end=False), Cut(b"a\xa2", 1, 1, clear_end=False)],
    ids=["its end", "its end and a record", "its middle", "an empty middle", "and a beginning"],
)  # fmt: skip
def test_a_continuation_of_nothing_is_an_error(buffer: Cut) -> None:
    memory = make_memory()
    with pytest.raises(RemoteProtocolError, match="continued a record that it did not begin"):
        read(make_deserializer(memory), buffer)
    assert memory.statistics().records == 0


@pytest.mark.parametrize("record_spill_bytes", [3, 1 << 20], ids=["on disk", "in memory"])
def test_a_record_that_is_not_complete_goes_on_in_another_deserializer(
    record_spill_bytes: int,
) -> None:
    """It goes on from a copy of the existing bytes, which stay where they are, too."""
    memory = make_memory(record_spill_bytes=record_spill_bytes)
    deserializers = [make_deserializer(memory) for _ in range(2)]
    assert list(deserializers[0].unconsumed()) == []
    read(deserializers[0], Cut(b"\x01\xa5abc", 0, 4, clear_end=False))
    deserializers[1].restore(deserializers[0].unconsumed())
    for deserializer in deserializers:
        assert read(deserializer, Cut(b"de\x02", 2)) == ["abcde", 2]
        assert list(deserializer.unconsumed()) == []
    assert memory.statistics().records == 0


def test_dropping_a_record_that_is_not_complete() -> None:
    memory = make_memory(record_spill_bytes=3)
    deserializers = [make_deserializer(memory) for _ in range(2)]
    for deserializer, part in zip(deserializers, (b"\xa5a", b"\xa5abc"), strict=True):
        read(deserializer, Cut(part, 0, len(part), clear_end=False))
    counts = memory.statistics()
    assert (counts.records, counts.memory_bytes, counts.spilled_bytes) == (2, 2, 4)
    for deserializer in (*deserializers, *deserializers):
        deserializer.release()
        assert not deserializer.inside_record
    counts = memory.statistics()
    assert (counts.records, counts.memory_bytes, counts.spilled_records) == (0, 0, 0)


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "refused"),
    [
        (b"\xdd\xff\xff\xff\xff", "exceeds max_array_len"),
        (b"\xdf\xff\xff\xff\xff", "exceeds max_map_len"),
        (b"\xc9\xff\xff\xff\xff\x01", "exceeds max_ext_len"),
        (b"\xdb\xff\xff\xff\xff", "sent an incomplete record"),
        (b"\xc6\xff\xff\xff\xff", "sent an incomplete record"),
    ],
    ids=["array", "map", "ext", "str", "bin"],
)
def test_a_claim_of_what_is_not_there_is_refused(claim: bytes, refused: str) -> None:
    """A claim of 4 G elements or bytes allocates nothing, in one buffer or over two."""
    with pytest.raises((ValueError, RemoteProtocolError), match=refused):
        read(make_deserializer(), Cut(claim))
    deserializer = make_deserializer()
    read(deserializer, Cut(claim[:3], 0, 3, clear_end=False))
    with pytest.raises((ValueError, RemoteProtocolError), match=refused):
        read(deserializer, Cut(claim[3:], len(claim) - 3))


@pytest.mark.parametrize("record_spill_bytes", [100, 1 << 20], ids=["on disk", "in memory"])
def test_a_record_that_never_ends_is_refused_at_the_limit(record_spill_bytes: int) -> None:
    """The held bytes never exceed record_bytes_max, in memory or on disk."""
    memory = make_memory(record_bytes_max=1_000, record_spill_bytes=record_spill_bytes)
    deserializer = make_deserializer(memory)
    read(deserializer, Cut(b"\xdb\xff\xff\xff\xff", 0, 5, clear_end=False))
    for _ in range(15):
        assert read(deserializer, Cut(b"x" * 64, 64, 0, clear_end=False)) == []
    for buffer in (Cut(b"x" * 64, 64, 0, clear_end=False), Cut(b"x" * 64, 64)):
        with pytest.raises(ValueError, match="more than 1000 bytes"):
            read(deserializer, buffer)
    deserializer.release()
    assert memory.statistics().records == 0


def test_a_record_at_the_limit_passes_and_one_over_it_does_not() -> None:
    memory = make_memory(record_bytes_max=1_000)
    at_the_limit, over_it = "x" * 997, "x" * 998
    assert read_all(make_deserializer(memory), cut([at_the_limit], 100)) == [at_the_limit]
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        read_all(make_deserializer(memory), cut([over_it], 100))


def nested(elements: int, size: int) -> tuple[Any, ...]:
    """Return a record with this many elements, in arrays and maps of at most nine, and of ``size``
    bytes."""
    arrays = [({"key": None}, (), *range(5)) for _ in range(elements // 9)]
    record = (*arrays, *[0] * (elements - 1 - 9 * len(arrays)))
    missing = size - len(RecordPacker().pack((*record, b""))) - 1
    return (*record, b"\0" * missing)


@pytest.mark.parametrize("segment_bytes", [300, 5_000])
def test_the_elements_of_a_record_are_limited_together(segment_bytes: int) -> None:
    """64 MiB of empty maps would take 4 GiB.

    All elements of a long record count together, not each array's. A record with no more bytes than
    allowed elements is never counted.
    """
    unpacker, memory = make_unpacker(record_elements_max=200), make_memory()
    for elements in (99, 200):
        record = nested(elements, 4_000)
        assert read_all(RecordDeserializer(unpacker, memory), cut([record], segment_bytes))
    if segment_bytes == 300:
        with pytest.raises(ValueError, match="more than 200 elements in total"):
            read_all(RecordDeserializer(unpacker, memory), cut([nested(201, 4_000)], segment_bytes))


def test_a_bomb_of_empty_maps_is_refused_before_it_is_made() -> None:
    """This also holds on disk, and when each of its arrays is within the limit."""
    row = b"\xdc\x00\x40" + b"\x80" * 64
    bomb = b"\xdc\x40\x00" + row * 0x4000
    memory = make_memory(record_bytes_max=1 << 21, record_spill_bytes=100 * KIB)
    spanning = make_deserializer(memory)
    half = len(bomb) // 2
    with traced_memory() as traced:
        read(spanning, Cut(bomb[:half], 0, half, clear_end=False))
        assert memory.statistics().spilled_records == 1
        with pytest.raises(ValueError, match="elements in total"):
            read(spanning, Cut(bomb[half:], len(bomb) - half))
        peak = traced.peak
    assert peak < 4 * len(bomb), "a million dictionaries take far more"


@settings(max_examples=300)
@given(st.binary(max_size=80), st.data())
def test_any_bytes_are_records_or_an_error(content: bytes, data: st.DataObject) -> None:
    """Invariant I10: a deserializer returns records or raises one of the expected errors."""
    unfinished = data.draw(st.integers(0, len(content)))
    with suppress(RemoteProtocolError, *UNPACK_ERRORS):
        read(make_deserializer(), Cut(content, 0, unfinished, clear_end=not unfinished))


# -- large bytes -----------------------------------------------------------------------------------

LARGE_SIZES = [16_383, 16_384, 65_535, 65_536, 200_000]


@pytest.mark.parametrize("items", ["B", "b", "i", "d"])
def test_a_large_view_of_any_items_arrives_as_its_bytes(
    items: Literal["B", "b", "i", "d"],
) -> None:
    """This includes views of several dimensions."""
    view = memoryview(Random(items).randbytes(40_000)).cast(items)
    shaped = view.cast("B").cast(items, [len(view) // 4, 4])
    for record in (view, shaped):
        assert read_all(make_deserializer(), cut([record], 3_000)) == [view.tobytes()]


def test_an_arrow_batch_arrives_however_short_it_is() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    for rows in (1, 10_000):
        batch = pyarrow.record_batch({"a": list(range(rows))})
        form = large_form(batch)
        assert form is not None
        for segment_bytes in (7, 5_000, 100_000):
            (arrived,) = read_all(make_deserializer(), cut_packed([b"".join(form)], segment_bytes))
            assert arrived.equals(batch)


@pytest.mark.parametrize("segment_bytes", [3, 4, 6, 4_000, 16_384, 17_000, 70_000, 300_000])
@pytest.mark.parametrize("size", LARGE_SIZES)
def test_large_bytes_arrive_however_they_are_cut(size: int, segment_bytes: int) -> None:
    """A3, A4: a cut may be in the middle of their head, and they may be alone in a buffer or
    not."""
    record = Random(size).randbytes(size)
    for records in ([record], ["before", record], [record, record, "behind"], [[record]]):
        arrived = read_all(make_deserializer(), cut(records, segment_bytes))
        assert arrived == [tuple(each) if isinstance(each, list) else each for each in records]
        assert all(type(each) is not bytearray for each in arrived)


def test_a_record_that_resembles_large_bytes_is_read_unchanged() -> None:
    """Many bytes follow a small record that begins like a large one."""
    records: list[object] = [b"y" * 300, "x" * 20_000, b"z" * 16_000]
    for segment_bytes in (1_000, 16_400, 50_000):
        assert read_all(make_deserializer(), cut(records, segment_bytes)) == records


@pytest.mark.parametrize("segment_bytes", [17_000, 90_000])
def test_large_bytes_over_the_limit_are_refused(segment_bytes: int) -> None:
    memory = make_memory(record_bytes_max=20_000)
    deserializer = RecordDeserializer(make_unpacker(record_bytes_max=20_000), memory)
    buffers = cut([b"x" * 20_001], segment_bytes)
    with pytest.raises(UNPACK_ERRORS):
        read_all(deserializer, buffers)


# -- extension types -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 17, 300, 20_000, 70_000])
@pytest.mark.parametrize("code", [-128, -2, 0, 11, 126])
def test_other_extension_types_are_refused(code: int, size: int) -> None:
    """This holds for every length, alone or inside a record, in one buffer or over several.

    The unpacker keeps no part of it.
    """
    extension = msgpack.ExtType(code, bytes(size)) if code >= 0 else None
    packed = msgpack.packb(extension) if extension else negative_extension(code, size)
    for data in (packed, b"\x92\x01" + packed):
        for at in (len(data), len(data) // 2):
            memory = make_memory()
            deserializer = make_deserializer(memory)
            with pytest.raises(ValueError, match=f"{code} is not an extension type of records"):
                if at == len(data):
                    read(deserializer, Cut(data))
                else:
                    read(deserializer, Cut(data[:at], 0, at, clear_end=False))
                    read(deserializer, Cut(data[at:], len(data) - at))
            assert read(deserializer, Cut(b"\x05")) == [5]
            assert memory.statistics().records == 0


def negative_extension(code: int, size: int) -> bytes:
    """Return an extension of a type that belongs to msgpack, which its packer does not write."""
    return struct.pack(">BIb", 0xC9, size, code) + bytes(size)


def test_a_date_is_still_a_date() -> None:
    """This covers its three lengths. msgpack handles its own extension type by itself."""
    dates = [
        datetime(2026, 11, 21, tzinfo=UTC),
        datetime(2026, 11, 21, 0, 0, 0, 5, tzinfo=UTC),
        datetime(9999, 1, 1, 0, 0, 0, 5, tzinfo=UTC),
    ]
    assert {len(RecordPacker().pack(date)) for date in dates} == {6, 10, 15}
    for segment_bytes in (3, 100):
        assert read_all(make_deserializer(), cut(dates, segment_bytes)) == dates
