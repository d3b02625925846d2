"""Buffers that no writer makes: any content, marks and order, on channels with a shared account.

Each buffer is consistent in itself, because the codec accepts no other. Hypothesis chooses the
rest, in part from real records, so that deeper states are reached.
"""

from __future__ import annotations

from pathlib import Path

import msgpack
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.errors import RemoteProtocolError, SerializationError
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import UNPACK_ERRORS, RecordDeserializer
from flinknet.records.serialization.spanning_record import SpanningRecord
from tests.unit.records.columns.arrow_batches import batch_of, content_of_batch
from tests.unit.records.columns.cutting import (
    Content,
    Cut,
    cut_packed,
    make_memory,
    make_unpacker,
    read,
)

CHANNELS = 3
REFUSED = (RemoteProtocolError, *UNPACK_ERRORS)
VALUES = (
    st.none()
    | st.text(max_size=40)
    | st.binary(max_size=90)
    | st.lists(st.integers(-9, 2**40), max_size=9)
)


def extension(code: int, content: bytes) -> bytes:
    """Return a packed extension; 127 is the code of an Arrow record batch."""
    packed: bytes = msgpack.packb(msgpack.ExtType(code, content))
    return packed


PACKED = VALUES.map(RecordPacker().pack) | st.builds(
    extension, st.integers(0, 127) | st.just(127), st.binary(max_size=90)
)
"""Valid values, and extensions of any code with arbitrary content."""

CONTENTS = [content_of_batch(batch_of(*names)) for names in (("integers",), ("dictionary",), ())]


@st.composite
def any_buffers(draw: st.DrawFn) -> Cut:
    """Draw a buffer of noise or records, with any marks that the codec accepts."""
    content = draw(st.binary(max_size=60) | st.lists(PACKED, max_size=4).map(b"".join))
    size = len(content)
    continued = draw(st.sampled_from([0, size]) | st.integers(0, size))
    unfinished = draw(st.just(0) | st.integers(0, size - continued))
    if unfinished:
        return Cut(content, continued, unfinished, clear_end=False)
    return Cut(content, continued, 0, clear_end=continued < size or draw(st.booleans()))


@st.composite
def real_buffers(draw: st.DrawFn) -> list[Cut]:
    """Draw records cut by a writer, with one buffer missing in some cases."""
    buffers = cut_packed(draw(st.lists(PACKED, max_size=5)), draw(st.integers(1, 60)))
    lost: bool = draw(st.booleans())
    if buffers and lost:
        del buffers[draw(st.integers(0, len(buffers) - 1))]
    return buffers


STREAMS = st.lists(st.lists(any_buffers(), max_size=4) | real_buffers(), max_size=3).map(
    lambda parts: [buffer for part in parts for buffer in part]
)


@settings(max_examples=400)
@given(
    st.lists(STREAMS, min_size=CHANNELS, max_size=CHANNELS),
    st.lists(st.integers(0, CHANNELS - 1), max_size=30),
    st.integers(0, 80),
    st.integers(0, 150),
)
def test_any_buffers_are_records_or_an_error(
    streams: list[list[Cut]], order: list[int], record_spill_bytes: int, memory_bytes: int
) -> None:
    """A5, A6: a refused channel disturbs no other.

    The account is consistent after every buffer and empty at the end. No file is left open, which
    would raise a warning.
    """
    memory = make_memory(
        reassembly_memory_bytes=memory_bytes,
        record_spill_bytes=record_spill_bytes,
        record_bytes_max=100,
    )
    unpacker = make_unpacker(record_elements_max=50)
    deserializers = [RecordDeserializer(unpacker, memory) for _ in streams]
    came: list[list[object]] = [[] for _ in streams]
    queues = [list(stream) for stream in streams]
    while any(queues):
        channel = order.pop() if order else max(range(CHANNELS), key=lambda n: len(queues[n]))
        if not queues[channel]:
            continue
        try:
            came[channel] += read(deserializers[channel], queues[channel].pop(0))
        except REFUSED as error:
            came[channel].append(type(error))
            queues[channel].clear()
        memory.check_invariants()
        inside = sum(deserializer.inside_record for deserializer in deserializers)
        assert memory.statistics().records == inside
    expected = [outcomes(stream) for stream in streams]
    assert repr(came) == repr(expected), "as text, because a NaN equals nothing"
    for deserializer in deserializers:
        deserializer.release()
    memory.check_invariants()
    assert memory.statistics().records == 0


def outcomes(stream: list[Cut]) -> list[object]:
    """Return the records and the error of a channel that is alone and uses no disk."""
    deserializer = RecordDeserializer(
        make_unpacker(record_elements_max=50), make_memory(record_bytes_max=100)
    )
    came: list[object] = []
    for buffer in stream:
        try:
            came += read(deserializer, buffer)
        except REFUSED as error:
            return [*came, type(error)]
    return came


@settings(max_examples=200)
@given(
    st.sampled_from(CONTENTS),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=9)), max_size=3),
    st.none() | st.integers(0, 1 << 16),
    st.integers(50, 9_000),
)
def test_any_changed_batch_is_a_batch_or_an_error(
    content: bytes, changes: list[tuple[int, bytes]], cut_off: int | None, segment_bytes: int
) -> None:
    """A changed batch is accepted or refused with an error, in one buffer or many.

    An accepted batch can be written again, and the record behind it is intact.
    """
    changed = bytearray(content)
    for place, octets in changes:
        place %= len(content)
        changed[place : place + len(octets)] = octets
    if cut_off is not None:
        del changed[cut_off % len(changed) :]
    memory = make_memory(record_spill_bytes=2_000)
    unpacker = make_unpacker()
    deserializer = RecordDeserializer(unpacker, memory)
    packed = (b"\xa6before", extension(127, bytes(changed)), b"\xa6behind")
    buffers = cut_packed(packed, segment_bytes)
    try:
        came = [record for buffer in buffers for record in read(deserializer, buffer)]
    except ValueError:
        pass  # any other member of UNPACK_ERRORS fails the test
    else:
        assert (came[0], came[2]) == ("before", "behind")
        RecordPacker().pack(came[1])
        if not changes and cut_off is None:
            assert content_of_batch(came[1]) == content
    deserializer.release()
    assert read(RecordDeserializer(unpacker, memory), Cut(b"\x05")) == [5]
    assert memory.statistics().records == 0


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60), st.booleans()), max_size=30))
def test_a_disk_that_refuses_at_any_time(steps: list[tuple[int, int, bool]]) -> None:
    """The record that needs the disk gets one documented error, and the account stays right."""
    memory = make_memory(
        reassembly_memory_bytes=100, record_spill_bytes=50, spill_directory=Path("/dev/null")
    )
    records = [SpanningRecord(memory) for _ in range(4)]
    for number, size, ends in steps:
        record = records[number]
        held = record.size
        try:
            if ends:
                content = record.complete(memoryview(b"x" * size), size, Content())
                assert content == b"x" * (held + size)
            else:
                record.append(memoryview(b"x" * size), 0, size)
        except SerializationError:
            assert record.size == (0 if ends else held)
        memory.check_invariants()
    memory.close()
    assert memory.statistics().records == 0
