"""The buffer builder: one writer appends serialised records to a segment, readers take them.

Theory of operation (Flink's BufferBuilder and its BufferConsumers). A builder is *open* or
*sealed*. A reader that takes what is there before the builder is full gets a *slice*: a buffer of
its own over the bytes since it took last, with one reference to the segment, and the writer goes on
behind it. Sealing gives every reader the rest, if it has taken something, or else one buffer for
all. So a segment goes back once the builder is sealed and every part of it recycled.

The writer seals a builder that is full, or behind which something else must follow. A reader does
if it takes from one that is more than half written: what is written until the next flush would
often not fit, and leave in two parts. (Slices pay with many channels: over 1,000 a record takes
0.53 of the CPU of sealing at every flush with a buffer timeout of 0, and 0.91 with one of 1 ms.)

An open builder is *paused* from the time that somebody takes from it until the writer comes by:
``remaining`` is 0, as in a sealed one. A record is never empty, so the next append does not fit and
takes the slow path, where the writer asks for the flush of what it begins to write, and has
``resume`` give the room back. That keeps the per-record work at one comparison, and no timer runs
for a writer that has nothing to say.

``records`` counts the whole records since somebody took last. Nobody else writes to the counters,
but for the one route that cannot afford the call of ``append_whole`` for every record, and spells
it out (``records/route.py``).

A broadcast builder is shared: each of the ``sharers`` has its own place in it, so the caller says
how much it has taken, and calls ``seal`` once.
"""

from __future__ import annotations

from collections.abc import Callable

from flinknet.buffer.buffer import Buffer, BufferRecycler, BufferSlice, DataType
from flinknet.buffer.segment import MemorySegment

__all__ = ["NO_BUILDER", "BufferBuilder"]

_DATA = DataType.DATA_BUFFER
_DATA_WITH_CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END
_WRITTEN_SHARE = 2
"""A builder of which more than one half is written does not go on."""
_LARGE_RECORDS_MAX = 64
"""A buffer with more records than these costs more to fill and to read than to hand on. (Measured
in default buffers: with records of 1 KiB, so 31 to a buffer, half as much again goes through 32
buffers as through 10, with 8 to 64 KB a third more; with 130 bytes, so 250 to a buffer, the
same.)"""


class BufferBuilder:
    """Appends to one segment.

    ``append_whole`` writes what fits, ``append`` as much as fits. For every record ``write`` is
    loaded before it is called: CPython 3.11 is quick with either, but not with the call of what
    stands in a slot.
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
    """Whether nothing can be appended any more."""
    end: int
    """Up to where there is room, or what is written if there is none now: ``end - remaining`` is
    ``size``, for whom a property takes too long."""

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
        """Bytes appended so far, whether sealed or not."""
        return self.end - self.remaining

    @property
    def capacity(self) -> int:
        """Bytes that may be written altogether."""
        return self._capacity

    # -- the writer's side ------------------------------------------------------------------------

    def append_whole(self, data: bytes | memoryview, head: bytes = b"", records: int = 1) -> bool:
        """Write so many whole records, if they fit: ``head``, then ``data``; False if they do not.
        They are never empty."""
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
        """Write as much of a record as fits; return how many bytes of ``data`` that was.

        ``head`` is the record's first bytes, if they do not stand in ``data``; unless there is room
        for them and more, nothing is written. ``continues`` says that the builder before this one
        holds the beginning of the record; ``inside_record`` says afterwards whether what stands
        here goes on in the next one.
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
        """Have room for ``size`` more bytes if the segment has, though the capacity was smaller."""
        missing = min(size, self._segment.capacity - self.size) - self.remaining
        if not self.sealed and missing > 0:
            self.remaining += missing
            self._capacity += missing
            self.end += missing

    @property
    def paused(self) -> bool:
        """Whether a reader has taken what was there, and there is room behind it."""
        return self.end < self._capacity and not self.sealed

    def resume(self) -> None:
        """Go on behind what readers have taken."""
        if not self.sealed:
            self.remaining += self._capacity - self.end
            self.end = self._capacity

    def has_large_records(self) -> bool:
        """Whether the segment is more than half full with a few records, or a part of one. Buffers
        that debloating keeps small never are."""
        return (
            self.records + self._records_taken <= _LARGE_RECORDS_MAX
            and (self.end - self.remaining) * _WRITTEN_SHARE > self._segment.capacity
        )

    # -- the readers' side ------------------------------------------------------------------------

    def take(self, start: int, records: int) -> Buffer:
        """Return what stands behind the ``start`` bytes and ``records`` records that the caller has
        taken; if the builder is sealed then, that was its last."""
        size = self.end - self.remaining
        if self.sealed or size * _WRITTEN_SHARE > self._capacity:
            return self.seal(start, records)
        self._records_taken += self.records
        self.records = 0
        self.end, self.remaining = size, 0
        return self._shared_slice(start, records)

    def peek(self, start: int, records: int) -> Buffer:
        """Return what ``take`` would return now, with a reference of its own, and leave that to be
        taken; the writer is not paused."""
        if self._whole is not None:
            return self._whole.retained()
        return self._shared_slice(start, records)

    def _shared_slice(self, start: int, records: int) -> BufferSlice:
        if self._shared is None:
            self._shared = self._make_buffer()
        self._shared.references += 1
        return self._slice(self._shared, start, records)

    def seal(self, start: int = 0, records: int = 0) -> Buffer:
        """Close the builder, and return what is left for the caller, which may be nothing; as long
        as nobody has taken anything, the same buffer for everyone."""
        if not self.sealed:
            self.sealed = True
            self.end, self.remaining = self.end - self.remaining, 0
            if self._shared is None:
                self._whole = self._make_buffer()
        if self._whole is not None:
            return self._whole
        assert self._shared is not None, "a sealed builder has no buffer"
        return self._slice(self._shared, start, records)

    def _make_buffer(self) -> Buffer:
        """Make the buffer of the whole segment, with a reference for everyone who will seal."""
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
        """Make a buffer of what stands behind ``start``, which has a reference to ``shared``."""
        return BufferSlice(
            _DATA if self.inside_record else _DATA_WITH_CLEAR_END,
            shared,
            start,
            self.end - self.remaining - start,
            continued=0 if start else self._continued,
            unfinished=self._unfinished,
            records=self._records_taken + self.records - records,
        )


class _NoRecycler:
    def recycle(self, segment: MemorySegment) -> None:
        """Nothing is ever taken from there, so nothing comes back."""


def _no_builder() -> BufferBuilder:
    builder = BufferBuilder(MemorySegment(0), _NoRecycler())
    builder.sealed = True
    return builder


NO_BUILDER = _no_builder()
"""Stands where no builder is open: nothing fits, so the writer takes its slow path."""
