"""The buffer builder: one writer appends serialised records to a segment, and readers take them.

A builder combines Flink's BufferBuilder with its BufferConsumers. It is *open* or *sealed*. A
reader that takes from an open builder gets a *slice*: a buffer over the bytes written since its
last take, with one reference to the segment. The writer goes on behind the slice. Sealing gives
each reader the rest, as a slice if any reader took one before, and else as one buffer that all
readers share. The segment returns to its pool once the builder is sealed and every part of it is
recycled.

The writer seals a builder that is full, or that an event must follow. A reader seals a builder that
is more than half written.

A take *pauses* an open builder until the writer resumes it. ``remaining`` is 0 while paused, as in
a sealed builder. Records are never empty, so the next append does not fit and takes the slow path.
There the writer requests a flush for the record it is about to write and calls ``resume``. The cost
per record therefore stays at one comparison, and no flush timer runs for an idle writer.

``records`` counts the whole records since the last take. Only this module changes the counters,
except for one route that cannot afford a call of ``append_whole`` per record and inlines it
(``records/route.py``).

A broadcast builder is shared by ``sharers`` readers. Each reader has its own position in it, so it
passes the amount it has taken already, and calls ``seal`` once.
"""

from __future__ import annotations

from collections.abc import Callable

from flinknet.buffer.buffer import Buffer, BufferRecycler, BufferSlice, DataType
from flinknet.buffer.segment import MemorySegment

__all__ = ["NO_BUILDER", "BufferBuilder"]

_DATA = DataType.DATA_BUFFER
_DATA_WITH_CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END
_WRITTEN_SHARE = 2
"""A reader seals a builder of which more than one half is written. The data up to the next flush
would often not fit the rest and be split in two. (Slices pay off with many channels. Compared with
sealing at every flush, a record over 1,000 channels takes 0.53 of the CPU time with a buffer
timeout of 0, and 0.91 with one of 1 ms.)"""
_LARGE_RECORDS_MAX = 64
"""Above this number of records, filling and reading a buffer costs more than handing it on.
(Measured with default buffers. With records of 1 KiB, 31 to a buffer, 32 buffers have 1.5 times the
throughput of 10; with records of 8 to 64 KB, a third more. With records of 130 bytes, 250 to a
buffer, there is no difference.)"""


class BufferBuilder:
    """Appends to one segment.

    ``append_whole`` writes data that fits entirely, and ``append`` writes as much as fits. Both
    load ``write`` into a local before they call it: CPython 3.11 runs a load and a call fast, but
    not a call through a slot attribute.
    """

    __slots__ = (
        "_capacity",
        "_continued",
        "_records_taken",
        "_recycler",
        "_segment",
        "_shared",
        "_unfinished",
        "_whole",
        "end",
        "inside_record",
        "records",
        "remaining",
        "sealed",
        "sharers",
        "write",
    )

    write: Callable[[bytes | memoryview], int]
    sealed: bool
    """Whether the builder is closed for appends."""
    end: int
    """End of the usable room, or of the written bytes while the builder is paused or sealed. ``end
    - remaining`` equals ``size``, for callers that cannot afford a property."""

    def __init__(
        self,
        segment: MemorySegment,
        recycler: BufferRecycler,
        capacity: int | None = None,
        sharers: int = 1,
    ) -> None:
        self._segment = segment
        self._recycler = recycler
        self._whole: Buffer | None = None
        self._shared: Buffer | None = None
        self._capacity = segment.capacity if capacity is None else min(capacity, segment.capacity)
        self.end = self.remaining = self._capacity
        self.write = segment.writer()
        self.sealed = False
        self.inside_record = False
        self.records = 0
        self.sharers = sharers
        self._continued = 0
        self._unfinished = 0
        self._records_taken = 0

    @property
    def size(self) -> int:
        """Bytes appended so far, whether or not the builder is sealed."""
        return self.end - self.remaining

    @property
    def capacity(self) -> int:
        """Maximum number of bytes that may be written."""
        return self._capacity

    # -- the writer's side ------------------------------------------------------------------------

    def append_whole(self, data: bytes | memoryview, head: bytes = b"", records: int = 1) -> bool:
        """Write ``head`` and then ``data``, which hold ``records`` whole records.

        Records are never empty. Returns False, and writes nothing, if the bytes do not fit.
        """
        remaining = self.remaining - len(data) - len(head)
        if remaining < 0:
            return False
        self.remaining = remaining
        write = self.write
        if head:
            write(head)
        write(data)
        self.records += records
        return True

    def append(self, data: memoryview, head: bytes = b"", continues: bool = False) -> int:
        """Write as much of a record as fits, and return the number of bytes taken from ``data``.

        ``head`` holds the record's first bytes if ``data`` does not include them. If there is no
        room for ``head`` and at least one more byte, nothing is written and the result is 0.
        ``continues`` marks a record that the previous builder began. Afterwards ``inside_record``
        tells whether the record continues in the next builder.
        """
        size = min(len(data), self.remaining - len(head))
        if size <= 0:
            return 0
        if head:
            self.write(head)
        self.write(data[:size])
        self.inside_record = size < len(data)
        written = size + len(head)
        self.remaining -= written
        if continues:
            self._continued = written
        elif self.inside_record:
            self._unfinished = written
        else:
            self.records += 1
        return size

    def expand(self, size: int) -> None:
        """Make room for ``size`` more bytes beyond the capacity, as far as the segment has them."""
        missing = min(size, self._segment.capacity - self.size) - self.remaining
        if not self.sealed and missing > 0:
            self.remaining += missing
            self._capacity += missing
            self.end += missing

    @property
    def paused(self) -> bool:
        """Whether a reader has taken all written bytes and room is left behind them."""
        return self.end < self._capacity and not self.sealed

    def resume(self) -> None:
        """Allow appends again behind the bytes that readers have taken."""
        if not self.sealed:
            self.remaining += self._capacity - self.end
            self.end = self._capacity

    def has_large_records(self) -> bool:
        """Whether the segment is more than half full with few records, or with part of one.

        Buffers that debloating keeps small never count as such.
        """
        return (
            self.records + self._records_taken <= _LARGE_RECORDS_MAX
            and (self.end - self.remaining) * _WRITTEN_SHARE > self._segment.capacity
        )

    # -- the readers' side ------------------------------------------------------------------------

    def take(self, start: int, records: int) -> Buffer:
        """Take the bytes behind the caller's first ``start`` bytes and ``records`` records.

        The builder is sealed if it is more than half written. If it is sealed on return, this was
        the caller's last take.
        """
        size = self.end - self.remaining
        if self.sealed or size * _WRITTEN_SHARE > self._capacity:
            return self.seal(start, records)
        self._records_taken += self.records
        self.records = 0
        # Pause the builder: nothing fits until the writer resumes it.
        self.end, self.remaining = size, 0
        return self._shared_slice(start, records)

    def peek(self, start: int, records: int) -> Buffer:
        """Return the buffer that ``take`` would return now, with its own reference.

        The bytes remain to be taken, and the writer is not paused.
        """
        if self._whole is not None:
            return self._whole.retained()
        return self._shared_slice(start, records)

    def _shared_slice(self, start: int, records: int) -> BufferSlice:
        if self._shared is None:
            self._shared = self._make_buffer()
        self._shared.references += 1
        return self._slice(self._shared, start, records)

    def seal(self, start: int = 0, records: int = 0) -> Buffer:
        """Seal the builder and return the rest for the caller, which may be empty.

        If no reader has taken a slice before, all readers get the same buffer.
        """
        if not self.sealed:
            self.sealed = True
            self.end, self.remaining = self.end - self.remaining, 0
            # After a slice, the shared buffer exists already, and the rest is a slice too.
            if self._shared is None:
                self._whole = self._make_buffer()
        if self._whole is not None:
            return self._whole
        assert self._shared is not None, "a sealed builder has no buffer"
        return self._slice(self._shared, start, records)

    def _make_buffer(self) -> Buffer:
        """Make the buffer of the whole segment, with one reference for each reader."""
        return Buffer(
            _DATA if self.inside_record else _DATA_WITH_CLEAR_END,
            self._segment,
            self._recycler,
            self.end,
            b"",
            self.sharers,
            self._continued,
            self._unfinished,
            self.records,
        )

    def _slice(self, shared: Buffer, start: int, records: int) -> BufferSlice:
        """Make a buffer of the bytes behind ``start``; it owns one reference to ``shared``."""
        return BufferSlice(
            _DATA if self.inside_record else _DATA_WITH_CLEAR_END,
            shared,
            start,
            self.end - self.remaining - start,
            # Only the first slice can continue a record of the previous builder.
            continued=0 if start else self._continued,
            unfinished=self._unfinished,
            # Each reader has its own position, so its earlier records are subtracted.
            records=self._records_taken + self.records - records,
        )


class _NoRecycler:
    def recycle(self, segment: MemorySegment) -> None:
        """Never called: this recycler's builder has no bytes to take."""


def _no_builder() -> BufferBuilder:
    builder = BufferBuilder(MemorySegment(0), _NoRecycler())
    builder.sealed = True
    return builder


NO_BUILDER = _no_builder()
"""Placeholder while no builder is open: nothing fits, so the writer takes its slow path."""
