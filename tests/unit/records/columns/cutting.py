"""Cut serialized records into buffers, like a writer with buffers of any size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgpack

from flinknet.buffer.buffer import DataType
from flinknet.buffer.segment import ARRAY_HEADER_BYTES
from flinknet.records.serialization.elements import Serialised
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.serializer import RecordDeserializer, RecordUnpacker
from flinknet.records.serialization.spanning_record import ReassemblyMemory

KIB = 1024


class Cut(NamedTuple):
    """A buffer and its marks about the records in it; see ``Buffer``."""

    content: bytes
    continued: int = 0
    unfinished: int = 0
    clear_end: bool = True

    @property
    def room_and_content(self) -> memoryview:
        """The memory that a deserializer reads from and writes to."""
        return memoryview(bytearray(ARRAY_HEADER_BYTES) + self.content)

    @property
    def records(self) -> int:
        """The number of whole records, by their first bytes."""
        return records_in(self.content[self.continued : len(self.content) - self.unfinished])

    @property
    def data_type(self) -> DataType:
        """The data type that a producer would give the buffer."""
        return DataType.DATA_BUFFER_WITH_CLEAR_END if self.clear_end else DataType.DATA_BUFFER


def records_in(content: bytes) -> int:
    """Count msgpack values; an invalid or incomplete value counts as one."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(content) + 1)
    unpacker.feed(content)
    number = 0
    while unpacker.tell() < len(content):
        number += 1
        try:
            unpacker.skip()
        except (ValueError, msgpack.UnpackException):
            break
    return number


def cut(records: Iterable[Any], segment_bytes: int) -> list[Cut]:
    """Serialize records and cut their bytes every ``segment_bytes``."""
    return cut_packed([RecordPacker().pack(record) for record in records], segment_bytes)


def cut_packed(packed: Sequence[bytes], segment_bytes: int) -> list[Cut]:
    """Cut records that are serialized already."""
    stream = b"".join(packed)
    bounds = [0]
    for data in packed:
        bounds.append(bounds[-1] + len(data))
    return [
        cut_at(stream, bounds, start, min(start + segment_bytes, len(stream)))
        for start in range(0, len(stream), segment_bytes)
    ]


def cut_at(stream: bytes, bounds: list[int], start: int, end: int) -> Cut:
    """Cut one buffer out of a stream with records that begin and end at ``bounds``."""
    inside = [bound for bound in bounds if start <= bound <= end]
    if not inside:
        return Cut(stream[start:end], end - start, 0, clear_end=False)
    unfinished = end - inside[-1]
    return Cut(stream[start:end], inside[0] - start, unfinished, clear_end=not unfinished)


class Content:
    """A type for the bytes of a record, which may be refused."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses

    def large_record(self, head: bytearray, content: bytes) -> bytes:
        return self.record(head + content)

    def record(self, content: Serialised) -> bytes:
        if self.refuses:
            raise ZeroDivisionError(len(content))
        return bytes(content)


def make_unpacker(
    *, record_bytes_max: int = 1 << 20, record_elements_max: int = 1 << 16
) -> RecordUnpacker:
    """Make an unpacker with limits above any buffer of a test."""
    return RecordUnpacker(
        record_bytes_max=record_bytes_max,
        record_elements_max=record_elements_max,
    )


def make_memory(
    *,
    reassembly_memory_bytes: int = 1 << 20,
    record_spill_bytes: int = 1 << 20,
    record_bytes_max: int = 1 << 20,
    spill_directory: object = "",
) -> ReassemblyMemory:
    """Make an account that by default spills nothing."""
    return ReassemblyMemory(
        reassembly_memory_bytes=reassembly_memory_bytes,
        record_spill_bytes=record_spill_bytes,
        record_bytes_max=record_bytes_max,
        spill_directory=str(spill_directory),
    )


def make_deserializer(memory: ReassemblyMemory | None = None) -> RecordDeserializer:
    """Make the deserializer of a channel."""
    return RecordDeserializer(make_unpacker(), memory if memory is not None else make_memory())


def read(deserializer: RecordDeserializer, buffer: Cut) -> list[Any]:
    """Feed one buffer; return the records that end in it."""
    records = records_of(
        deserializer,
        buffer.room_and_content,
        buffer.continued,
        buffer.unfinished,
        buffer.records,
        clear_end=buffer.clear_end,
    )
    return list(records)


def records_of(
    deserializer: RecordDeserializer,
    data: memoryview,
    continued: int,
    unfinished: int,
    whole: int,
    *,
    clear_end: bool,
) -> tuple[Any, ...]:
    """Return the records that end in a buffer, as a reader gets them."""
    records = deserializer.spanning_record(data, continued, unfinished, clear_end)
    start, end = ARRAY_HEADER_BYTES + continued, len(data) - unfinished
    if start < end or whole:
        records += deserializer._unpacker.whole_records(data, start, end, whole)
    return records


def read_each(deserializer: RecordDeserializer, buffers: Iterable[Cut]) -> list[list[Any]]:
    """Feed buffers; return the records that ended in each."""
    return [read(deserializer, buffer) for buffer in buffers]


def read_all(deserializer: RecordDeserializer, buffers: Iterable[Cut]) -> list[Any]:
    """Feed buffers; return all records."""
    return [record for buffer in buffers for record in read(deserializer, buffer)]
