"""The memory segment: the fixed piece of memory that every network buffer is made of.

A segment is allocated once, when its pool is created, and never grows. It wraps one of the writable
buffers of the standard library whose append is a single call; its length is fixed by writing only
what fits, which the builder above it guarantees.

That is a ``BytesIO``; compiled, memory of our own (``segment.pyx``). While any view from its start
on is alive, writing to it raises ``BufferError``: a segment that is recycled while a socket still
reads from it is found at once instead of sending somebody else's bytes.

In front of the content stands room for the header of an array, so that whoever reads the records
in it can take them for one, where they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

__all__ = ["ARRAY_HEADER_BYTES", "MemorySegment", "allocate_segments"]

ARRAY_HEADER_BYTES = 5
"""A msgpack array of up to 2^32 - 1 elements: a marker and four bytes."""


class MemorySegment:
    """``capacity`` bytes of memory, owned by exactly one holder at a time."""

    __slots__ = ("_stream", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.renew()

    def writer(self) -> Callable[[bytes | memoryview], int]:
        """Return the append call, starting at the first byte. The caller never writes over
        capacity."""
        self._stream.seek(ARRAY_HEADER_BYTES)
        return self._stream.write

    def view(self, size: int) -> memoryview:
        """Return a writable view of the first ``size`` bytes; release it before the segment is
        reused."""
        return self._stream.getbuffer()[ARRAY_HEADER_BYTES : ARRAY_HEADER_BYTES + size]

    def view_with_room(self, size: int) -> memoryview:
        """Return the same with ARRAY_HEADER_BYTES of room in front of it."""
        return self._stream.getbuffer()[: ARRAY_HEADER_BYTES + size]

    def part(self, start: int, size: int) -> bytes | memoryview:
        """Return ``size`` bytes from ``start`` on, while more is written behind them: a copy;
        compiled, for many bytes, a view, to be released before the segment is reused."""
        start += ARRAY_HEADER_BYTES
        return bytes(self._stream.getbuffer()[start : start + size])

    def is_locked(self) -> bool:
        """Whether a view that somebody still has keeps the memory from being written to."""
        try:
            self._stream.write(b"")
        except BufferError:
            return True
        return False

    def renew(self) -> None:
        """Leave the memory to whoever still looks at it, and take new."""
        self._stream = BytesIO(bytes(ARRAY_HEADER_BYTES + self.capacity))


def allocate_segments(number: int, capacity: int) -> list[MemorySegment]:
    """Return so many segments, in memory of their own; compiled, all in one stretch of it, in huge
    pages where the operating system has them, because thousands of buffers that are written to in
    turn are in as many small ones."""
    return [MemorySegment(capacity) for _ in range(number)]
