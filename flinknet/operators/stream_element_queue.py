"""The queue of an asynchronous operator: elements in flight, and the order in which they may leave.

Theory of operation (Flink's OrderedStreamElementQueue and UnorderedStreamElementQueue). The queue
is a sequence of *segments*, and only completed elements of the first segment may leave. A watermark
is a segment of its own and is always complete, so no record overtakes it. In ordered mode, each
record is a segment of its own. In unordered mode, all records between two watermarks form one
segment and leave in the order of their completion.

Invariants: no segment is empty; ``len`` is the number of elements in all segments, completed or
not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from flinknet.wire.events import WatermarkElement

__all__ = ["Completed", "QueueEntry", "StreamElementQueue"]


class QueueEntry:
    """A record with pending results."""

    __slots__ = ("record", "segment")

    def __init__(self, record: Any, segment: Segment) -> None:
        self.record = record
        self.segment = segment


class Completed(NamedTuple):
    """A record with its results, or a watermark element if ``event_time`` is not None."""

    record: Any
    results: list[Any]
    event_time: WatermarkElement | None = None


class Segment:
    """Elements that may leave in any order."""

    __slots__ = ("completed", "pending")

    def __init__(self) -> None:
        self.pending: dict[QueueEntry, None] = {}
        self.completed: deque[Completed] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether all elements have left."""
        return not self.pending and not self.completed


class StreamElementQueue:
    """A queue of at most ``capacity`` elements; the caller checks ``is_full`` before it adds."""

    def __init__(self, capacity: int, *, ordered: bool) -> None:
        self._capacity = capacity
        self._ordered = ordered
        self._segments: deque[Segment] = deque()
        self._open: Segment | None = None
        """The last segment, if it may take another record."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def is_full(self) -> bool:
        """Whether the queue has no room for another element."""
        return self._length >= self._capacity

    @property
    def has_completed(self) -> bool:
        """Whether an element may leave."""
        return bool(self._segments) and bool(self._segments[0].completed)

    def put(self, record: Any) -> QueueEntry:
        """Append a record; ``complete`` later supplies its results."""
        segment = self._open
        if segment is None:
            segment = Segment()
            self._segments.append(segment)
            # In ordered mode, no segment takes a second record.
            self._open = None if self._ordered else segment
        entry = QueueEntry(record, segment)
        segment.pending[entry] = None
        self._length += 1
        return entry

    def put_event_time(self, element: WatermarkElement) -> None:
        """Append a watermark or a status, which leaves after everything before it."""
        segment = Segment()
        segment.completed.append(Completed(None, [], element))
        self._segments.append(segment)
        self._open = None
        self._length += 1

    def complete(self, entry: QueueEntry, results: list[Any]) -> None:
        """Supply the results of a record."""
        del entry.segment.pending[entry]
        entry.segment.completed.append(Completed(entry.record, results))

    def take_completed(self) -> Iterator[Completed]:
        """Remove and generate the elements that may leave now."""
        while self.has_completed:
            first = self._segments[0]
            taken = first.completed.popleft()
            self._length -= 1
            if first.is_empty:
                self._segments.popleft()
                if first is self._open:
                    self._open = None
            yield taken

    def records(self) -> list[Any]:
        """Return the records in the queue, in the order in which they may leave."""
        return [
            record
            for segment in self._segments
            for record in (
                *(one.record for one in segment.completed if one.event_time is None),
                *(entry.record for entry in segment.pending),
            )
        ]

    def check_invariants(self) -> None:
        """Raise AssertionError if the segments and the length are inconsistent."""
        assert not any(segment.is_empty for segment in self._segments), "an empty segment"
        counted = sum(len(one.pending) + len(one.completed) for one in self._segments)
        assert counted == self._length, "elements miscounted"
        assert self._open is None or self._open is self._segments[-1], (
            "a segment before the last is open"
        )
