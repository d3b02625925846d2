"""Reassembly of records that span buffers: in memory up to a bound, beyond it on disk.

Theory of operation (Flink's SpillingAdaptiveSpanningRecordDeserializer, with one account for all
channels of a worker). A *spanning record* takes the pieces of one record of one channel. It stays
*in memory* until it is longer than ``record_spill_bytes`` or the account cannot reserve its next
piece. It then moves *to disk* with all its bytes, and stays there. After its last piece, its
content is unpacked in place, and it is released.

The first piece of a *large* record tells its length. If the account can reserve all of it, each
piece is copied to its final place. If a peer sends more or fewer bytes than announced, the bytes
are gathered like those of any other record, which finds the error.

The bytes so far can be returned as data that a barrier has overtaken, and restored into a new
spanning record (Flink's getUnconsumedBuffer).

``ReassemblyMemory`` owns the counters. The reserved bytes are the bytes of the records in memory,
including the missing bytes of a large record. They never exceed ``reassembly_memory_bytes``,
however many channels are inside a record. The last piece of any other record is not reserved,
because the record is released before another channel can reserve memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from mmap import mmap
from typing import Any, NamedTuple, Protocol, Self

from flinknet.config import NetworkConfig
from flinknet.errors import LocalProtocolError
from flinknet.records.serialization.elements import Serialised
from flinknet.records.serialization.large_content import LargeContent
from flinknet.records.serialization.large_record import large_parts
from flinknet.records.serialization.spill_file import SpillFile

__all__ = ["ReassemblyMemory", "ReassemblyStatistics", "SpanningRecord"]


_PIECE_BYTES = 32_768
"""Size of the pieces of ``unconsumed``."""


class ReassemblyStatistics(NamedTuple):
    """Number and size of the records that are being reassembled."""

    records: int
    memory_bytes: int
    memory_bytes_max: int
    spilled_records: int
    spilled_bytes: int
    records_spilled_before: int
    """Number of records that moved to disk so far, including the ones above."""


class ReassemblyMemory:
    """Memory account of all records of a worker that are being reassembled.

    The arguments have the names of the fields of ``NetworkConfig``.
    """

    def __init__(
        self,
        *,
        reassembly_memory_bytes: int,
        record_spill_bytes: int,
        record_bytes_max: int,
        spill_directory: str,
    ) -> None:
        self.record_bytes_max = record_bytes_max
        self.record_spill_bytes = min(record_spill_bytes, record_bytes_max)
        self.memory_bytes_max = reassembly_memory_bytes
        self.spill_file = SpillFile(spill_directory, record_bytes_max)
        self.reserved = 0
        self.records_spilled = 0
        self.records: set[SpanningRecord] = set()

    @classmethod
    def of(cls, config: NetworkConfig) -> Self:
        """Return the account of a worker."""
        return cls(
            reassembly_memory_bytes=config.reassembly_memory_bytes,
            record_spill_bytes=config.record_spill_bytes,
            record_bytes_max=config.record_bytes_max,
            spill_directory=config.spill_directory,
        )

    def close(self) -> None:
        """Drop all records; idempotent."""
        for record in list(self.records):
            record.release()

    def check_size(self, size: int) -> None:
        """Raise ValueError if a size exceeds the limit of a record."""
        if size > self.record_bytes_max:
            raise ValueError(f"it has more than {self.record_bytes_max} bytes")

    def statistics(self) -> ReassemblyStatistics:
        """Return the number and size of the records, in memory and on disk."""
        return ReassemblyStatistics(
            records=len(self.records),
            memory_bytes=self.reserved,
            memory_bytes_max=self.memory_bytes_max,
            spilled_records=self.spill_file.extents,
            spilled_bytes=sum(record.size for record in self.records if record.is_on_disk),
            records_spilled_before=self.records_spilled,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError unless the counters equal the sums over the records."""
        in_memory = [record for record in self.records if not record.is_on_disk]
        assert self.reserved == sum(record.reserved for record in in_memory)
        assert self.reserved <= self.memory_bytes_max
        assert self.spill_file.extents == len(self.records) - len(in_memory)
        self.spill_file.check_invariants()


def _pieces(content: bytearray | mmap) -> Iterator[bytes]:
    for start in range(0, len(content), _PIECE_BYTES):
        yield bytes(content[start : start + _PIECE_BYTES])


class WholeRecords(Protocol):
    """Unpacker of complete records."""

    def large_record(self, head: bytearray, content: bytes) -> Any:
        """Return the large record with this head and content."""

    def record(self, content: Serialised) -> Any:
        """Return the record with this content."""


class SpanningRecord:
    """The incomplete record of one channel, of which ``size`` bytes have arrived.

    It is empty between two records.
    """

    __slots__ = ("_extent", "_gathered", "_large", "_memory", "size")

    def __init__(self, memory: ReassemblyMemory) -> None:
        self.size = 0
        self._memory = memory
        self._gathered = bytearray()
        """The bytes that have arrived; the head of a large record."""
        self._large: LargeContent | None = None
        self._extent: int | None = None

    @property
    def is_on_disk(self) -> bool:
        """Whether the record has moved to disk."""
        return self._extent is not None

    @property
    def reserved(self) -> int:
        """Bytes reserved for the record in memory."""
        if self._large is not None:
            return len(self._gathered) + self._large.length
        return 0 if self.is_on_disk else self.size

    def append(self, data: memoryview, start: int, end: int) -> None:
        """Append a copy of a piece, if more pieces will follow.

        Raises ValueError if the record exceeds ``record_bytes_max``, and SerializationError if the
        disk fails.
        """
        if self._large is not None:
            if end - start <= self._large.length - self._large.size:
                self._large.append(data, start, end)
                self.size += end - start
                return
            self._gather()
        elif not self.size and self._begin_large(data, start, end):  # a head is in the first piece
            return
        memory = self._memory
        size = self.size + end - start
        if self._extent is None:
            reserved = memory.reserved + end - start
            if size <= memory.record_spill_bytes and reserved <= memory.memory_bytes_max:
                memory.records.add(self)
                memory.reserved = reserved
                self._gathered += data[start:end]
                self.size = size
                return
            memory.check_size(size)
            self._extent = self._move_to_disk()
        else:
            memory.check_size(size)
        memory.spill_file.write(self._extent, self.size, data, start, end)
        self.size = size

    def _begin_large(self, data: memoryview, start: int, end: int) -> bool:
        """Begin a large record; return False if it is not large or there is no memory for it."""
        parts = large_parts(data, start, end)
        if parts is None:
            return False
        head_bytes, length = parts
        memory = self._memory
        whole = head_bytes + length
        reserved = memory.reserved + whole
        if (
            whole > memory.record_spill_bytes
            or reserved > memory.memory_bytes_max
            or end - start > whole  # more than announced: unpacking finds the error
        ):
            return False
        self._large = LargeContent(length)
        memory.records.add(self)
        memory.reserved = reserved
        content = start + head_bytes
        self._gathered += data[start:content]
        self._large.append(data, content, end)
        self.size = end - start
        return True

    def _gather(self) -> None:
        """Continue as any other record: the length differs from the announced one."""
        # The missing bytes are no longer reserved.
        self._memory.reserved -= self.reserved - self.size
        large, self._large = self._large, None
        assert large is not None
        self._gathered += large.part(0, large.size)

    def unconsumed(self) -> Iterator[bytes]:
        """Return the bytes that have arrived, in pieces, without removing them.

        Iterate over them before appending more. Raises SerializationError if the disk fails.
        """
        if not self.size:
            return
        if self._large is not None:
            head_bytes = len(self._gathered)
            yield bytes(self._gathered) + self._large.part(0, _PIECE_BYTES - head_bytes)
            for start in range(_PIECE_BYTES, self.size, _PIECE_BYTES):
                end = start + _PIECE_BYTES
                yield self._large.part(start - head_bytes, end - head_bytes)
        elif self._extent is None:
            yield from _pieces(self._gathered)
        else:
            with self._memory.spill_file.map(self._extent, self.size) as mapping:
                yield from _pieces(mapping)

    def restore(self, pieces: Iterable[bytes]) -> None:
        """Restore the pieces of ``unconsumed``.

        Raises the errors of ``append``, and LocalProtocolError if the record is not empty.
        """
        if self.size:
            raise LocalProtocolError(
                f"a channel cannot be restored: it is inside a record, {self.size} bytes after the "
                "record's beginning"
            )
        for piece in pieces:
            with memoryview(piece) as data:
                self.append(data, 0, len(piece))

    def complete(self, data: memoryview, end: int, unpacker: WholeRecords) -> Any:
        """Append the last piece, and return the unpacked record.

        The piece begins at the start of ``data``. The spanning record is then empty, also after an
        error. Raises the errors of ``append`` and of ``unpacker``.
        """
        memory, large = self._memory, self._large
        if large is not None:
            if end == large.length - large.size:
                large.append(data, 0, end)
                head = self._gathered
                self.release()
                return unpacker.large_record(head, large.take())
            self._gather()
        if self._extent is None:
            # The last piece is not reserved: no other channel can reserve memory in between.
            gathered = self._gathered
            self.release()
            memory.check_size(len(gathered) + end)
            with data[:end] as rest:
                gathered += rest
            return unpacker.record(gathered)
        try:
            memory.check_size(self.size + end)
            memory.spill_file.write(self._extent, self.size, data, 0, end)
            with memory.spill_file.map(self._extent, self.size + end) as mapping:
                return unpacker.record(mapping)
        finally:
            self.release()

    def release(self) -> None:
        """Drop all bytes; idempotent."""
        memory = self._memory
        memory.records.discard(self)
        if self._extent is None:
            memory.reserved -= self.reserved
            self._gathered = bytearray()
            self._large = None
        else:
            memory.spill_file.release(self._extent)
            self._extent = None
        self.size = 0

    def _move_to_disk(self) -> int:
        memory = self._memory
        extent = memory.spill_file.acquire()
        try:
            with memoryview(self._gathered) as gathered:
                memory.spill_file.write(extent, 0, gathered, 0, self.size)
        except BaseException:
            memory.spill_file.release(extent)
            raise
        memory.records.add(self)
        memory.records_spilled += 1
        memory.reserved -= self.size
        self._gathered = bytearray()
        return extent
