"""Buffers: the unit that subpartitions, connections and input channels exchange.

A buffer is *pooled* or *unpooled*. A pooled buffer holds a memory segment that must return to its
recycler. An unpooled buffer holds an event: a few bytes of ordinary memory. A buffer starts with
one reference per holder. ``recycle`` drops one reference, and the last one returns the segment. One
recycle too many is a programming error and raises ``AssertionError``.

A *slice* is a buffer over a range of another buffer, to which it holds a reference. A flush makes
one when it takes bytes from a buffer that is not full yet. The writer may go on behind the slice,
but memory with an exported view cannot be written to. Readers of a slice therefore get a ``part``
(``segment.py``), which is a copy if it is short. A slice has no header room in front, because the
bytes of the previous slice are there.

The data type is Flink's ``Buffer.DataType``: an enum of booleans, so that rules read off a table.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol, Self

from flinknet.buffer.segment import ARRAY_HEADER_BYTES, MemorySegment

__all__ = ["Buffer", "BufferRecycler", "BufferSlice", "DataType", "make_pooled_buffer"]


class DataType(IntEnum):
    """Type of a buffer's content; the ordinals are Flink's and travel on the wire.

    Modules that handle every buffer keep the members they need in module constants, because an
    attribute lookup on the enum costs as much as a call.
    """

    is_buffer: bool
    is_event: bool
    has_priority: bool
    is_blocking_upstream: bool

    def __new__(cls, ordinal: int, traits: str) -> Self:
        member = int.__new__(cls, ordinal)
        member._value_ = ordinal
        member.is_buffer = "buffer" in traits
        member.is_event = "event" in traits
        member.has_priority = "priority" in traits
        member.is_blocking_upstream = "blocking" in traits
        return member

    NONE = 0, ""
    DATA_BUFFER = 1, "buffer"
    EVENT_BUFFER = 2, "event"
    PRIORITIZED_EVENT_BUFFER = 3, "event priority"
    ALIGNED_CHECKPOINT_BARRIER = 4, "event blocking"
    TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER = 5, "event blocking"
    RECOVERY_COMPLETION = 6, "event blocking"
    END_OF_SEGMENT = 7, "event"
    DATA_BUFFER_WITH_CLEAR_END = 8, "buffer"
    END_OF_DATA = 9, "event"
    END_OF_PARTITION = 10, "event"
    RECOVERY_METADATA = 11, "event"


class BufferRecycler(Protocol):
    """Takes a segment back when its buffer's last reference is dropped (Flink's BufferRecycler)."""

    def recycle(self, segment: MemorySegment) -> None:
        """Take the segment back; called exactly once for each segment handed out."""


class Buffer:
    """``size`` bytes of one data type, shared by ``references`` holders.

    The first ``continued`` bytes continue a record that an earlier buffer began (Flink's partial
    record length). The last ``unfinished`` bytes begin a record that continues in the next buffer.
    Between them are ``records`` whole records. A buffer in the middle of a long record has
    ``continued == size``.
    """

    __slots__ = (
        "_payload",
        "_recycler",
        "_segment",
        "_sent",
        "continued",
        "data_type",
        "records",
        "references",
        "size",
        "unfinished",
    )

    def __init__(
        self,
        data_type: DataType,
        segment: MemorySegment | None,
        recycler: BufferRecycler | None,
        size: int,
        payload: bytes = b"",
        references: int = 1,
        continued: int = 0,
        unfinished: int = 0,
        records: int = 0,
    ) -> None:
        self.data_type = data_type
        self.size = size
        self.continued = continued
        self.unfinished = unfinished
        self.records = records
        self.references = references
        self._segment = segment
        self._recycler = recycler
        self._payload = payload
        self._sent = False

    @classmethod
    def event(cls, data_type: DataType, payload: bytes, *, references: int = 1) -> Buffer:
        """Make an unpooled buffer that holds an event."""
        return cls(data_type, None, None, len(payload), payload=payload, references=references)

    def view(self) -> memoryview | bytes:
        """Return the content.

        The view of a pooled buffer must be released before the buffer's last recycle.
        """
        segment = self._segment
        if segment is None:
            return self._payload
        return segment.view(self.size)

    def view_with_room(self) -> memoryview:
        """Return the content of a pooled buffer with ARRAY_HEADER_BYTES of room in front.

        The view must be released before the buffer's last recycle.
        """
        assert self._segment is not None, "an event's buffer has no room for a header"
        return self._segment.view_with_room(self.size)

    def part(self, start: int, size: int) -> memoryview | bytes:
        """Return a range of a pooled buffer while its writer may still append behind it.

        A view must be released before the buffer's last recycle.
        """
        assert self._segment is not None, "an event's buffer cannot be cut"
        return self._segment.part(start, size)

    def retained(self) -> Buffer:
        """Add a reference and return this buffer; the new holder must recycle it too."""
        assert self.references > 0, "a recycled buffer was retained"
        self.references += 1
        return self

    def recycle(self) -> None:
        """Drop one reference; the last one returns the segment to its recycler."""
        assert self.references > 0, "a buffer was recycled more often than it was held"
        self.references -= 1
        if self.references == 0 and self._segment is not None:
            assert self._recycler is not None
            segment, self._segment = self._segment, None
            # The socket still has a view of it.
            if self._sent and segment.is_locked():
                segment.renew()
            self._recycler.recycle(segment)

    def recycle_sent(self) -> None:
        """Drop one reference after a socket was given the memory.

        The socket may keep a view for a while, whether it has sent the bytes or was lost. If a view
        is left at the last recycle, the segment takes new memory before it is reused. The old
        memory is freed with the view.
        """
        self._sent = True
        self.recycle()


def make_pooled_buffer(
    data_type: DataType,
    segment: MemorySegment,
    recycler: BufferRecycler,
    size: int,
    continued: int,
    unfinished: int,
    records: int,
) -> Buffer:
    """Make a pooled buffer with one reference.

    Setting the attributes takes a fraction of the time of calling the class.
    """
    buffer = Buffer.__new__(Buffer)
    buffer.data_type = data_type
    buffer.size = size
    buffer.continued = continued
    buffer.unfinished = unfinished
    buffer.records = records
    buffer.references = 1
    buffer._segment = segment
    buffer._recycler = recycler
    buffer._payload = b""
    buffer._sent = False
    return buffer


class BufferSlice(Buffer):
    """``size`` bytes of ``shared`` from ``start``; owns one reference to ``shared``."""

    __slots__ = ("_shared", "_start")

    def __init__(
        self,
        data_type: DataType,
        shared: Buffer,
        start: int,
        size: int,
        *,
        continued: int,
        unfinished: int,
        records: int,
    ) -> None:
        # ``_segment`` and the other attributes of the memory stay unset: ``shared`` has them.
        self.data_type = data_type
        self.size = size
        self.continued = continued
        self.unfinished = unfinished
        self.records = records
        self.references = 1
        self._shared = shared
        self._start = start

    def view(self) -> memoryview | bytes:
        """Return the content, as a view of the pooled buffer or as a copy."""
        return self._shared.part(self._start, self.size)

    def view_with_room(self) -> memoryview:
        """Return a view of a copy of the content, with ARRAY_HEADER_BYTES in front."""
        return memoryview(bytearray(ARRAY_HEADER_BYTES) + self.view())

    def retained(self) -> BufferSlice:
        """Return another slice of the same bytes, with its own reference."""
        assert self.references > 0, "a recycled buffer was retained"
        self._shared.references += 1
        return BufferSlice(
            self.data_type,
            self._shared,
            self._start,
            self.size,
            continued=self.continued,
            unfinished=self.unfinished,
            records=self.records,
        )

    def recycle(self) -> None:
        """Drop the slice and its reference to the shared buffer."""
        self._leave()
        self._shared.recycle()

    def recycle_sent(self) -> None:
        """Drop the slice after its memory was handed to a socket; see ``Buffer.recycle_sent``."""
        self._leave()
        self._shared.recycle_sent()

    def _leave(self) -> None:
        assert self.references > 0, "a buffer was recycled more often than it was held"
        self.references = 0
