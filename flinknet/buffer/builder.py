"""The buffer builder: one writer appends serialised records to a segment until it is sealed.

Theory of operation. A builder is *open* (it has room and may be appended to) or *sealed* (its
bytes are a buffer now). It is sealed by the writer when it is full or an event must follow, and by
the subpartition when a reader takes what is there so far; whichever comes first. The writer needs
no notice of the latter: a sealed builder has ``remaining == 0``, and a record is never empty, so
the next append does not fit and takes the slow path, which asks for a new builder. That keeps the
per-record work at one comparison.

Flink's BufferBuilder stays open when part of it is read. Sealing instead means that bytes and
ownership of a segment never overlap between writer and reader.

``records`` counts the whole records. Whoever writes past ``append`` adds to it, or counts by
itself and says with ``take_emitted`` how many, when the builder is sealed.

A broadcast builder is shared: ``seal`` then makes a buffer with one reference per subpartition and
gives every caller the same one.
"""

from __future__ import annotations

from collections.abc import Callable

from flinknet.buffer.buffer import Buffer, BufferRecycler, DataType
from flinknet.buffer.segment import MemorySegment

__all__ = ["NO_BUILDER", "BufferBuilder"]

_DATA = DataType.DATA_BUFFER
_DATA_WITH_CLEAR_END = DataType.DATA_BUFFER_WITH_CLEAR_END


class BufferBuilder:
    """Appends to one segment.

    The writer's fast path is ``if len(data) <= builder.remaining``, then ``builder.remaining -=
    len(data)``, ``builder.write(data)`` and ``builder.records += 1``; ``append`` does the same with
    pieces that may not fit. For every record ``write`` is loaded before it is called: CPython 3.11
    is quick with either, but not with the call of what stands in a slot.
    """

    __slots__ = (
        "_buffer",
        "_capacity",
        "_continued",
        "_recycler",
        "_segment",
        "_unfinished",
        "inside_record",
        "records",
        "remaining",
        "sharers",
        "take_emitted",
        "write",
    )

    write: Callable[[bytes | memoryview], int]

    def __init__(
        self,
        segment: MemorySegment,
        recycler: BufferRecycler,
        *,
        capacity: int | None = None,
        sharers: int = 1,
    ) -> None:
        self._segment = segment
        self._recycler = recycler
        self._buffer: Buffer | None = None
        self._capacity = segment.capacity if capacity is None else min(capacity, segment.capacity)
        self.remaining = self._capacity
        self.write = segment.writer()
        self.inside_record = False
        self.records = 0
        self.sharers = sharers
        self._continued = 0
        self.take_emitted: Callable[[], int] | None = None
        self._unfinished = 0

    @property
    def sealed(self) -> bool:
        """Whether the bytes are a buffer already, so that nothing can be appended."""
        return self._buffer is not None

    @property
    def size(self) -> int:
        """Bytes appended so far, whether sealed or not."""
        return self._capacity - self.remaining if self._buffer is None else self._buffer.size

    def append(self, data: memoryview, *, head: bytes = b"", continues: bool = False) -> int:
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

    @property
    def capacity(self) -> int:
        """Bytes that may be written altogether."""
        return self._capacity

    def expand(self, size: int) -> None:
        """Have room for ``size`` more bytes if the segment has, though the capacity was smaller."""
        missing = min(size, self._segment.capacity - self.size) - self.remaining
        if self._buffer is None and missing > 0:
            self.remaining += missing
            self._capacity += missing

    def seal(self) -> Buffer:
        """Close the builder and return its buffer; later calls return the same one."""
        if self._buffer is None:
            if self.take_emitted is not None:
                self.records += self.take_emitted()
            self._buffer = Buffer(
                _DATA if self.inside_record else _DATA_WITH_CLEAR_END,
                self._segment,
                self._recycler,
                self._capacity - self.remaining,
                references=self.sharers,
                continued=self._continued,
                unfinished=self._unfinished,
                records=self.records,
            )
            self.remaining = 0
        return self._buffer


class _NoBuilder:
    """Stands where no builder is open: nothing fits, so the writer takes its slow path."""

    __slots__ = ()
    remaining = 0
    sealed = True
    size = 0
    inside_record = False
    records = 0


NO_BUILDER = _NoBuilder()
