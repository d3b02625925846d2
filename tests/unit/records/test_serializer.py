from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.errors import RemoteProtocolError, SerializationError
from flinknet.records.serializer import (
    PACK_ERRORS,
    UNPACK_ERRORS,
    RecordDeserializer,
    UnpackerPool,
    explain_unserializable,
    record_packer,
)

VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=60)
)

RECORDS = (
    VALUES
    | st.tuples(VALUES, VALUES)
    | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), st.tuples(VALUES), max_size=2)
)

few_examples = settings(max_examples=40)


def unpacker_pool(record_bytes_max: int = 1 << 20, segment_bytes: int = 64) -> UnpackerPool:
    return UnpackerPool(record_bytes_max, 1 << 16, segment_bytes)


def cut(stream: bytes, records: list[bytes], segment_bytes: int) -> list[tuple[bytes, bool]]:
    """Cut a byte stream into buffers; each with whether it ends with a record."""
    ends, position = {0}, 0
    for record in records:
        position += len(record)
        ends.add(position)
    return [
        (stream[start : start + segment_bytes], min(start + segment_bytes, len(stream)) in ends)
        for start in range(0, len(stream), segment_bytes)
    ]


def read_buffers(
    deserializer: RecordDeserializer, buffers: list[tuple[bytes, bool]]
) -> list[list[Any]]:
    """Feed buffers; return the records that each completed."""
    completed = []
    for content, clear_end in buffers:
        completed.append(deserializer.records(content, clear_end=clear_end))
    return completed


# -- what a record can be --------------------------------------------------------------------------


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
        (
            datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5))),
            datetime(2025, 12, 31, 19, tzinfo=UTC),
        ),
    ],
    ids=repr,
)
def test_a_record_arrives_as_a_value(record: object, arrives: object) -> None:
    data = record_packer()(record)
    (value,) = RecordDeserializer(unpacker_pool()).records(data, clear_end=True)
    assert value == arrives
    assert type(value) is type(arrives)


@pytest.mark.parametrize(
    "record",
    [{1}, object(), 2**64, -(2**63) - 1, datetime(2026, 1, 1), "\ud800", [1, [2, {3}]],
     {"a": print}, memoryview(b"abcd")[::2]],
    ids=repr,
)  # fmt: skip
def test_what_is_no_record_is_explained(record: object) -> None:
    with pytest.raises(PACK_ERRORS) as refused:
        record_packer()(record)
    error = explain_unserializable(record, refused.value)
    assert isinstance(error, SerializationError)
    assert f"a record of type {type(record).__name__} cannot be serialised" in str(error)
    assert str(refused.value) in str(error)


def test_a_refused_record_leaves_nothing_in_the_packer() -> None:
    pack = record_packer()
    for refused in ([1, 2, {3}], {"key": object()}, ["x" * 100, 2**64]):
        with pytest.raises((TypeError, OverflowError)):
            pack(refused)
        assert pack((1, 2)) == b"\x92\x01\x02"


def test_the_packer_copies() -> None:
    """The caller may go on with its record."""
    record = [1, 2]
    data = record_packer()(record)
    record[0] = 99
    assert data == b"\x92\x01\x02"


def test_any_msgpack_library_reads_the_stream() -> None:
    pack = record_packer()
    stream = b"".join(map(pack, [1, "two", [3.0], {"four": b"4"}]))
    unpacker = msgpack.Unpacker()
    unpacker.feed(stream)
    assert list(unpacker) == [1, "two", [3.0], {"four": b"4"}]


# -- records over buffers --------------------------------------------------------------------------


@pytest.mark.parametrize("segment_bytes", [5, 16, 32, 33, 64, 1000])
def test_integers_over_many_buffers(segment_bytes: int) -> None:
    """A1: buffer sizes that are and are not a multiple of the record's."""
    numbers = list(range(2**16, 2**16 + 1_000))
    packed = [record_packer()(number) for number in numbers]
    assert {len(data) for data in packed} == {5}
    buffers = cut(b"".join(packed), packed, segment_bytes)
    read = read_buffers(RecordDeserializer(unpacker_pool()), buffers)
    assert [record for records in read for record in records] == numbers
    assert len(read) == -(-5_000 // segment_bytes)


@few_examples
@given(st.lists(RECORDS, max_size=12), st.integers(1, 100))
def test_records_of_any_shape_over_buffers_of_any_size(
    records: list[Any], segment_bytes: int
) -> None:
    """A2: each record comes with the buffer that has its last byte."""
    packed = [record_packer()(record) for record in records]
    deserializer = RecordDeserializer(unpacker_pool())
    buffers = cut(b"".join(packed), packed, segment_bytes)
    read = read_buffers(deserializer, buffers)
    assert [record for completed in read for record in completed] == records
    assert not deserializer.inside_record
    position = 0
    ends = [sum(map(len, packed[: number + 1])) for number in range(len(packed))]
    for (content, _), completed in zip(buffers, read, strict=True):
        due = sum(position < end <= position + len(content) for end in ends)
        assert len(completed) == due
        position += len(content)


@pytest.mark.parametrize("size", [100, 5_000, 300_000])
def test_small_records_among_huge_ones(size: int) -> None:
    """A2, A5, A6: far over the segment's size; none is lost or torn."""
    random = Random(size)
    records = [
        b"x" * random.randrange(size, size * 2) if number % 5 == 2 else number
        for number in range(25)
    ]
    packed = [record_packer()(record) for record in records]
    buffers = cut(b"".join(packed), packed, 4_096)
    read = read_buffers(RecordDeserializer(unpacker_pool()), buffers)
    assert [record for completed in read for record in completed] == records


@pytest.mark.parametrize("record", ["x" * 300, (1, "two", {"three": (4.0, None)}), b"y" * 70_000])
def test_a_record_cut_at_every_byte(record: object) -> None:
    """A3, A4: also inside its length; it comes once, with its last byte."""
    data = record_packer()(record)
    for position in [*range(1, min(len(data), 400)), *range(len(data) - 3, len(data))]:
        deserializer = RecordDeserializer(unpacker_pool())
        assert deserializer.records(data[:position], clear_end=False) == []
        assert deserializer.inside_record
        assert deserializer.records(data[position:], clear_end=True) == [record]
        assert not deserializer.inside_record


def test_a_record_fed_byte_by_byte() -> None:
    """A4."""
    record = (1, "two", b"three" * 50)
    data = record_packer()(record)
    deserializer = RecordDeserializer(unpacker_pool())
    read = read_buffers(
        deserializer, [(data[at : at + 1], at == len(data) - 1) for at in range(len(data))]
    )
    assert read == [[]] * (len(data) - 1) + [[record]]


# -- shared unpackers ------------------------------------------------------------------------------


def test_a_channel_holds_an_unpacker_only_inside_a_record() -> None:
    """Thousands of idle channels cost nothing."""
    pool = unpacker_pool()
    first = pool.acquire()
    pool.release(first)
    assert pool.acquire() is first
    pool.release(first)
    data = record_packer()(["a", "b"])
    inside = RecordDeserializer(pool)
    assert inside.records(data[:2], clear_end=False) == []
    others = [RecordDeserializer(pool) for _ in range(100)]
    for other in others:
        assert other.records(data, clear_end=True) == [("a", "b")]
    assert inside.records(data[2:], clear_end=True) == [("a", "b")]
    assert len({id(pool.acquire()) for _ in range(2)} | {id(first)}) == 2, "two were ever made"


@few_examples
@given(st.lists(st.tuples(st.integers(0, 3), RECORDS), max_size=20), st.integers(1, 40))
def test_channels_that_share_unpackers_do_not_mix(
    writes: list[tuple[int, Any]], segment_bytes: int
) -> None:
    """A2: one deserializer per channel, buffers of the channels in turn."""
    pool = unpacker_pool()
    deserializers = [RecordDeserializer(pool) for _ in range(4)]
    written: list[list[Any]] = [
        [record for to, record in writes if to == channel] for channel in range(4)
    ]
    queues = []
    for records in written:
        packed = [record_packer()(record) for record in records]
        queues.append(cut(b"".join(packed), packed, segment_bytes))
    read: list[list[Any]] = [[], [], [], []]
    while any(queues):
        for channel, queue in enumerate(queues):
            if queue:
                (completed,) = read_buffers(deserializers[channel], [queue.pop(0)])
                read[channel] += completed
    assert read == written


@pytest.mark.parametrize(
    "cut_off",
    [b"\x92\x01", b"\xa5abc", b"\xa1", b"\xd9", b"\xc4\x01", b"\x81\xa1k", b"\xcd\x01", b"\xd7\xff",
     b"\xd7\xff" + b"\0" * 7, b"\xc7", b"\x91" * 100, b"\xdc\x00"],
    ids=bytes.hex,
)  # fmt: skip
def test_a_cut_record_announced_as_whole_is_found(cut_off: bytes) -> None:
    """An unpacker left inside it would spoil the next channel's data."""
    pool = unpacker_pool()
    deserializer = RecordDeserializer(pool)
    with pytest.raises(RemoteProtocolError, match="cut a record"):
        deserializer.records(b"\x01" + cut_off, clear_end=True)
    assert RecordDeserializer(pool).records(b"\x05", clear_end=True) == [5]


@given(RECORDS, st.data())
def test_any_cut_announced_as_whole_is_found(record: Any, data: st.DataObject) -> None:
    packed = record_packer()(record)
    position = data.draw(st.integers(1, len(packed)))
    deserializer = RecordDeserializer(unpacker_pool())
    if position == len(packed):
        assert deserializer.records(packed, clear_end=True) == [record]
    else:
        with pytest.raises(RemoteProtocolError):
            deserializer.records(packed[:position], clear_end=True)


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "claim",
    [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01"],
    ids=["array", "map", "ext"],
)
def test_a_claim_over_the_limits_is_refused_on_its_head(claim: bytes) -> None:
    """A claim of 4 G elements allocates nothing."""
    deserializer = RecordDeserializer(unpacker_pool())
    with pytest.raises(ValueError, match="exceeds max_"):
        deserializer.records(claim, clear_end=False)


@pytest.mark.parametrize(
    "claim", [b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"], ids=["str", "bin"]
)
def test_a_claim_of_bytes_gets_as_many_as_a_record_may_have(claim: bytes) -> None:
    deserializer = RecordDeserializer(unpacker_pool(record_bytes_max=1_000))
    assert deserializer.records(claim, clear_end=False) == []
    fed = 0
    with pytest.raises(msgpack.BufferFull):
        while fed < 10_000:
            assert deserializer.records(b"x" * 64, clear_end=False) == []
            fed += 64
    assert fed <= 1_000 + 2 * 64


def test_a_record_at_the_limit_passes_and_one_over_it_does_not() -> None:
    pool = UnpackerPool(1_000, 10, 64)
    pack = record_packer()
    assert RecordDeserializer(pool).records(pack("x" * 1_000), clear_end=False) == ["x" * 1_000]
    with pytest.raises(ValueError, match="exceeds max_str_len"):
        RecordDeserializer(pool).records(pack("x" * 1_001), clear_end=False)
    assert RecordDeserializer(pool).records(pack([0] * 10), clear_end=False) == [(0,) * 10]
    with pytest.raises(ValueError, match="exceeds max_array_len"):
        RecordDeserializer(pool).records(pack([0] * 11), clear_end=False)


def test_a_record_put_together_is_bounded() -> None:
    """Not only each of its parts."""
    deserializer = RecordDeserializer(UnpackerPool(1_000, 100, 64))
    part = record_packer()("x" * 60)
    assert deserializer.records(b"\xdc\x00\x64", clear_end=False) == []
    fed = 0
    with pytest.raises(msgpack.BufferFull):
        while fed < 10_000:
            assert deserializer.records(part, clear_end=False) == []
            fed += len(part)
    assert fed <= 1_000 + 2 * 64


@settings(max_examples=300)
@given(st.binary(max_size=80))
def test_any_bytes_are_records_or_an_error(content: bytes) -> None:
    """Invariant I10: nothing else comes out of a deserializer than what its reader expects."""
    deserializer = RecordDeserializer(unpacker_pool())
    clear_end = len(content) % 2 == 0
    try:
        deserializer.records(content, clear_end=clear_end)
    except UNPACK_ERRORS:
        return
    except RemoteProtocolError:
        assert clear_end
