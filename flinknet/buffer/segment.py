"""The memory segment: the fixed piece of memory that every network buffer is made of.

A segment is allocated once, when its pool is created, and never grows. It wraps a ``BytesIO``
because that is the one writable buffer of the standard library whose append is a single C call;
its length is fixed by writing only what fits, which the builder above it guarantees. While any
view of a segment is alive, writing to it raises ``BufferError``: a segment that is recycled while
a socket still reads from it is found at once instead of sending somebody else's bytes.

In front of the content stands room for the header of an array, so that whoever reads the records
in it can take them for one, where they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

__all__ = ["ARRAY_HEADER_BYTES", "MemorySegment"]

ARRAY_HEADER_BYTES = 5
"""A msgpack array of up to 2^32 - 1 elements: a marker and four bytes."""


class MemorySegment:
    """``capacity`` bytes of memory, owned by exactly one holder at a time."""

    __slots__ = ("capacity", "stream")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.stream = BytesIO(bytes(ARRAY_HEADER_BYTES + capacity))

    def writer(self) -> Callable[[bytes | memoryview], int]:
        """Return the append call, starting at the first byte. The caller never writes over
        capacity."""
        self.stream.seek(ARRAY_HEADER_BYTES)
        return self.stream.write

    def view(self, size: int) -> memoryview:
        """Return a writable view of the first ``size`` bytes; release it before the segment is
        reused."""
        return self.stream.getbuffer()[ARRAY_HEADER_BYTES : ARRAY_HEADER_BYTES + size]

    @property
    def is_viewed(self) -> bool:
        """Whether somebody still has a view of the memory, so that it must not be reused."""
        try:
            self.stream.write(b"")
        except BufferError:
            return True
        return False

    def renew(self) -> None:
        """Leave the memory to whoever still looks at it, and take new."""
        self.stream = BytesIO(bytes(ARRAY_HEADER_BYTES + self.capacity))
