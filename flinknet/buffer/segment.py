"""The memory segment: a fixed-size piece of memory behind a network buffer.

A segment is allocated once, when its pool is created, and never grows. It wraps a ``BytesIO``
and appends with a single call. The builder keeps its length fixed by writing only bytes that fit.
The compiled version (``segment.pyx``) manages its own memory.

While a view from the start of the memory is alive, a write raises ``BufferError``. A premature
recycle, while a socket still reads from the segment, is therefore found immediately. Otherwise the
socket would send bytes of the next buffer.

Room in front of the content can hold the header of a msgpack array. A reader can then unpack the
records as one array, in place.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

__all__ = ["ARRAY_HEADER_BYTES", "MemorySegment", "allocate_segments"]

ARRAY_HEADER_BYTES = 5
"""Header of a msgpack array of up to 2^32 - 1 elements: a marker and four bytes."""


class MemorySegment:
    """``capacity`` bytes of memory, owned by exactly one holder at a time."""

    __slots__ = ("_stream", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.renew()

    def writer(self) -> Callable[[bytes | memoryview], int]:
        """Return the append function, which starts at the first byte.

        The caller must not write more than ``capacity`` bytes.
        """
        self._stream.seek(ARRAY_HEADER_BYTES)
        return self._stream.write

    def view(self, size: int) -> memoryview:
        """Return a writable view of the first ``size`` bytes.

        It must be released before the segment is reused.
        """
        return self._stream.getbuffer()[ARRAY_HEADER_BYTES : ARRAY_HEADER_BYTES + size]

    def view_with_room(self, size: int) -> memoryview:
        """Return the same view with ARRAY_HEADER_BYTES of room in front."""
        return self._stream.getbuffer()[: ARRAY_HEADER_BYTES + size]

    def part(self, start: int, size: int) -> bytes | memoryview:
        """Return ``size`` bytes from ``start`` while the writer may append behind them.

        The result is a copy. The compiled version returns a view of a long part, which must be
        released before the segment is reused.
        """
        start += ARRAY_HEADER_BYTES
        return bytes(self._stream.getbuffer()[start : start + size])

    def is_locked(self) -> bool:
        """Whether a live view keeps the memory from being written to."""
        try:
            # Even an empty write raises while a view is exported.
            self._stream.write(b"")
        except BufferError:
            return True
        return False

    def renew(self) -> None:
        """Replace the memory; the old memory is freed with its last view."""
        self._stream = BytesIO(bytes(ARRAY_HEADER_BYTES + self.capacity))


def allocate_segments(number: int, capacity: int) -> list[MemorySegment]:
    """Allocate ``number`` segments.

    The compiled version allocates them in one stretch of memory, in huge pages where the operating
    system has them. Otherwise, thousands of buffers that are written to in turn would touch as many
    small pages.
    """
    return [MemorySegment(capacity) for _ in range(number)]
