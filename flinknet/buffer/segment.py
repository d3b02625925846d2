"""The memory segment: the fixed piece of memory that every network buffer is made of.

A segment is allocated once, when its pool is created, and never grows. It wraps one of the writable
buffers of the standard library whose append is a single call; its length is fixed by writing only
what fits, which the builder above it guarantees.

In CPython that is a ``BytesIO``; compiled, memory of our own (``segment.pyx``). While any view from
its start on is alive, writing to it raises ``BufferError``: a segment that is recycled while a
socket still reads from it is found at once instead of sending somebody else's bytes. PyPy copies a
view of a ``BytesIO`` byte by byte, so there it is memory of the operating system's, which does not
know its views.

In front of the content stands room for the header of an array, so that whoever reads the records
in it can take them for one, where they lie.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from functools import partial
from io import BytesIO

from flinknet.interpreter import COMPILES_PYTHON

__all__ = ["ARRAY_HEADER_BYTES", "MemorySegment", "allocate_segments"]

ARRAY_HEADER_BYTES = 5
"""A msgpack array of up to 2^32 - 1 elements: a marker and four bytes."""


class MemorySegment:
    """``capacity`` bytes of memory, owned by exactly one holder at a time."""

    __slots__ = ("_memory", "_stream", "capacity")

    _memory: Callable[[], memoryview]

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
        return self._memory()[ARRAY_HEADER_BYTES : ARRAY_HEADER_BYTES + size]

    def view_with_room(self, size: int) -> memoryview:
        """Return the same with ARRAY_HEADER_BYTES of room in front of it."""
        return self._memory()[: ARRAY_HEADER_BYTES + size]

    def part(self, start: int, size: int) -> bytes | memoryview:
        """Return ``size`` bytes from ``start`` on, while more is written behind them: a copy;
        compiled, for many bytes, a view, to be released before the segment is reused."""
        start += ARRAY_HEADER_BYTES
        return bytes(self._memory()[start : start + size])

    def may_be_viewed(self) -> bool:
        """Whether somebody may still have a view of the memory."""
        return isinstance(self._stream, mmap.mmap) or self.is_locked()

    def is_locked(self) -> bool:
        """Whether a view that somebody still has keeps the memory from being written to."""
        if isinstance(self._stream, mmap.mmap):
            return False
        try:
            self._stream.write(b"")
        except BufferError:
            return True
        return False

    def renew(self) -> None:
        """Leave the memory to whoever still looks at it, and take new."""
        size = ARRAY_HEADER_BYTES + self.capacity
        self._stream: BytesIO | mmap.mmap
        if COMPILES_PYTHON:
            mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._stream, self._memory = mapped, partial(_view_of, mapped)
        else:
            self._stream = BytesIO(bytes(size))
            self._memory = self._stream.getbuffer


def allocate_segments(number: int, capacity: int) -> list[MemorySegment]:
    """Return so many segments, in memory of their own; compiled, all in one stretch of it, in huge
    pages where the operating system has them, because thousands of buffers that are written to in
    turn are in as many small ones."""
    return [MemorySegment(capacity) for _ in range(number)]


def _view_of(mapped: mmap.mmap) -> memoryview:
    return memoryview(mapped)
