"""Records that span buffers, while they are put together: in memory up to a bound, beyond on disk.

Theory of operation (Flink's SpillingAdaptiveSpanningRecordDeserializer, with one account for all
channels of a worker). A *spanning record* takes the pieces of one record of one channel. It is *in
memory* until it is longer than ``record_spill_bytes`` or the account cannot reserve its next
piece; then it moves *to disk* with everything it has, and stays there. When its last piece has
come its content is unpacked where it lies, and it is released.

Of a *large* record the first piece says how long it will be. If the account can reserve all of it,
its content goes where it will stay, piece by piece. A peer that sends more or less than it has said
is found out as with any other record: what is there is gathered like one.

What is there of a record can be handed out, as data that a barrier has overtaken, and be taken back
by a fresh one (Flink's getUnconsumedBuffer).

``ReassemblyMemory`` owns the counters. Reserved bytes are the bytes of the records in memory, of a
large one those to come among them, and never more than ``reassembly_memory_bytes``, however many
channels stand inside a record. The last piece of any other is not reserved, because the record is
gone before anybody else can ask.
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
"""What ``unconsumed`` copies at a time."""


class ReassemblyStatistics(NamedTuple):
    """Records that are being put together, and what they take."""

    records: int
    memory_bytes: int
    memory_bytes_max: int
    spilled_records: int
    spilled_bytes: int
    records_spilled_before: int
    """How many records have gone to disk so far, those above included."""


class ReassemblyMemory:
    """What all records of a worker that are being put together may take; the arguments are named
    as in ``NetworkConfig``."""

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
        """Make the account of a worker."""
        return cls(
            reassembly_memory_bytes=config.reassembly_memory_bytes,
            record_spill_bytes=config.record_spill_bytes,
            record_bytes_max=config.record_bytes_max,
            spill_directory=config.spill_directory,
        )

    def close(self) -> None:
        """Drop every record that is still there; idempotent."""
        for record in list(self.records):
            record.release()

    def check_size(self, size: int) -> None:
        """Raise ValueError if that is more than a record may have."""
        if size > self.record_bytes_max:
            raise ValueError(f"it has more than {self.record_bytes_max} bytes")

    def statistics(self) -> ReassemblyStatistics:
        """Say what the records that are being put together take, in memory and on disk."""
        return ReassemblyStatistics(
            records=len(self.records),
            memory_bytes=self.reserved,
            memory_bytes_max=self.memory_bytes_max,
            spilled_records=self.spill_file.extents,
            spilled_bytes=sum(record.size for record in self.records if record.is_on_disk),
            records_spilled_before=self.records_spilled,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError unless the counters are what the records take."""
        in_memory = [record for record in self.records if not record.is_on_disk]
        assert self.reserved == sum(record.reserved for record in in_memory)
        assert self.reserved <= self.memory_bytes_max
        assert self.spill_file.extents == len(self.records) - len(in_memory)
        self.spill_file.check_invariants()


def _pieces(content: bytearray | mmap) -> Iterator[bytes]:
    for start in range(0, len(content), _PIECE_BYTES):
        yield bytes(content[start : start + _PIECE_BYTES])


class WholeRecords(Protocol):
    """What makes a record of its bytes."""

    def large_record(self, head: bytearray, content: bytes) -> Any:
        """Take the large record that has such a head and content."""

    def record(self, content: Serialised) -> Any:
        """Take the record that ``content`` is."""


class SpanningRecord:
    """One record of one channel while its pieces come, of which ``size`` bytes are there; empty
    between two records."""

    __slots__ = ("_extent", "_gathered", "_large", "_memory", "size")

    def __init__(self, memory: ReassemblyMemory) -> None:
        self.size = 0
        self._memory = memory
        self._gathered = bytearray()
        """What is there, of a large record the head."""
        self._large: LargeContent | None = None
        self._extent: int | None = None

    @property
    def is_on_disk(self) -> bool:
        """Whether it has moved to disk."""
        return self._extent is not None

    @property
    def reserved(self) -> int:
        """What is reserved for it in memory."""
        if self._large is not None:
            return len(self._gathered) + self._large.length
        return 0 if self.is_on_disk else self.size

    def append(self, data: memoryview, start: int, end: int) -> None:
        """Add a piece of a buffer behind which more will come; it is copied.

        Raises ValueError if the record becomes longer than ``record_bytes_max``,
        SerializationError if the disk refuses.
        """
        if self._large is not None:
            if end - start <= self._large.length - self._large.size:
                self._large.append(data, start, end)
                self.size += end - start
                return
            self._gather()
        elif not self.size and self._begin_large(data, start, end):
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
        """Begin with a piece of a large record, if it is one for which there is memory."""
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
            or end - start > whole
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
        """Go on as with any other record: it is not as long as it was to be."""
        self._memory.reserved -= self.reserved - self.size
        large, self._large = self._large, None
        assert large is not None
        self._gathered += large.part(0, large.size)

    def unconsumed(self) -> Iterator[bytes]:
        """What is there, a piece at a time, which stays; to be iterated before anything is added.

        Raises SerializationError if the disk refuses."""
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
        """Begin with what ``unconsumed`` gave. Raises what ``append`` raises, and
        LocalProtocolError if something is there."""
        if self.size:
            raise LocalProtocolError(
                f"a channel cannot be restored: it stands inside a record, {self.size} bytes "
                f"behind its beginning"
            )
        for piece in pieces:
            with memoryview(piece) as data:
                self.append(data, 0, len(piece))

    def complete(self, data: memoryview, end: int, unpacker: WholeRecords) -> Any:
        """Add the last piece, which begins with its buffer, and return what ``unpacker`` makes of
        the whole; it is empty then.

        Raises what ``append`` and ``unpacker`` raise, and is empty all the same.
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
        """Drop what is there; idempotent."""
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
