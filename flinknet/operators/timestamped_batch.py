"""Timestamps, which travel beside the values of a batch.

Theory of operation. Functions see values without timestamps. A batch of records with timestamps is
a ``TimestampedBatch``, with the values in one list and the timestamps in another. An operator
passes the values to its function and gives each result the timestamp of the record it comes from.
On the wire, and in state that holds records, a record with a timestamp is a tuple ``(timestamp,
value)``; key selectors and partitioners look at the value. Batches without timestamps are plain
lists.

| results of | have the timestamp of |
|---|---|
| map, flat_map, filter, process | the record |
| reduce, aggregate | the record that was added last |
| on_timer | the timer, if it is an event-time timer |
| map_batch, process_batch | the latest record of the batch |
| a window | the window's end |
| finish() | none: it is None |

Results are generated one by one, each right after its record was taken. So the timestamp of a
result is the timestamp of the record taken last when the result was generated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, Self

__all__ = [
    "Batch",
    "BatchTimestamps",
    "NextTimestamps",
    "ResultTimestamps",
    "Timestamp",
    "TimestampedArrivals",
    "TimestampedBatch",
    "as_pairs",
    "latest",
    "no_timestamps",
    "on_wire",
    "same",
    "values_of",
]

Timestamp = int | None
"""A time in milliseconds; None for a record without a timestamp."""

NextTimestamps = Callable[[int], list[Timestamp]]
"""Function that returns the timestamps of the next ``number`` results."""


class TimestampedBatch:
    """The values of some records, and the timestamp of each."""

    __slots__ = ("stamps", "values")

    def __init__(self, values: list[Any], stamps: list[Timestamp]) -> None:
        self.values = values
        self.stamps = stamps

    @classmethod
    def of(cls, pairs: Iterable[tuple[Timestamp, Any]]) -> Self:
        """Make a batch of tuples ``(timestamp, value)``."""
        made = cls([], [])
        add_value, add_stamp = made.values.append, made.stamps.append
        for stamp, value in pairs:
            add_stamp(stamp)
            add_value(value)
        return made

    def pairs(self) -> list[tuple[Timestamp, Any]]:
        """Return the records as tuples ``(timestamp, value)``."""
        return list(zip(self.stamps, self.values, strict=True))

    def add(self, stamp: Timestamp, values: list[Any]) -> None:
        """Add records that have the same timestamp."""
        self.values += values
        self.stamps += [stamp] * len(values)

    def __len__(self) -> int:
        return len(self.values)


class TimestampedArrivals:
    """Records from the network as pairs ``(timestamp, value)``, for the first operator of a chain.

    Each pair is unpacked on demand, and the pairs can be iterated once. Unpacking all pairs at once
    would keep many objects alive, which the garbage collector would scan.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: Iterable[tuple[Timestamp, Any]]) -> None:
        self.pairs = pairs


Batch = list[Any] | TimestampedBatch
"""Records with or without timestamps."""


def as_pairs(batch: Any) -> Iterable[tuple[Timestamp, Any]]:
    """Iterate over the timestamps and values of any batch."""
    if isinstance(batch, TimestampedBatch):
        return zip(batch.stamps, batch.values, strict=True)
    if isinstance(batch, TimestampedArrivals):
        return batch.pairs
    return zip(repeat(None), batch)


def values_of(batch: Any) -> Any:
    """Return the values of any batch."""
    if isinstance(batch, TimestampedArrivals):
        return [value for _, value in batch.pairs]
    return batch.values if isinstance(batch, TimestampedBatch) else batch


def on_wire(batch: Any) -> Any:
    """Return the records of any batch in the form in which they are sent."""
    if isinstance(batch, TimestampedArrivals):
        return list(batch.pairs)
    return batch.pairs() if isinstance(batch, TimestampedBatch) else batch


def latest(stamps: Iterable[Timestamp]) -> Timestamp:
    """Return the latest timestamp, or None if there is none."""
    return max((one for one in stamps if one is not None), default=None)


def same(stamp: Timestamp) -> NextTimestamps:
    """Return a function that gives all results the same timestamp."""
    return lambda number: [stamp] * number


no_timestamps: NextTimestamps = same(None)
"""Function that gives no result a timestamp."""


class ResultTimestamps:
    """The timestamps of results that were generated and are not emitted yet."""

    __slots__ = ("_noted",)

    def __init__(self) -> None:
        self._noted: list[Timestamp] = []

    def with_timestamp(self, stamp: Timestamp, results: Iterable[Any]) -> Iterator[Any]:
        """Generate the results and record the same timestamp for each."""
        note = self._noted.append
        for result in results:
            note(stamp)
            yield result

    def take(self, number: int) -> list[Timestamp]:
        """Return the timestamps of the next ``number`` results."""
        taken = self._noted[:number]
        del self._noted[:number]
        return taken


class BatchTimestamps(ResultTimestamps):
    """The timestamps of a batch while its values are being taken, and of its results."""

    __slots__ = ("_pairs", "last", "stamp")

    def __init__(self, batch: TimestampedBatch | TimestampedArrivals) -> None:
        super().__init__()
        self._pairs = as_pairs(batch)
        self.stamp: Timestamp = None
        self.last: Any = None
        """The value taken last; ``stamp`` is its timestamp."""

    def taken(self, *, one_each: bool) -> Iterator[Any]:
        """Generate the values.

        With ``one_each``, every value has one result, and its timestamp is recorded here. Without
        it, the caller passes the results through ``marked``.
        """
        note = self._noted.append
        for stamp, value in self._pairs:
            self.stamp, self.last = stamp, value
            if one_each:  # The only result of this value is generated next.
                note(stamp)
            yield value

    def marked(self, results: Iterable[Any]) -> Iterator[Any]:
        """Generate the results, each with the timestamp of the value taken last at that point."""
        note = self._noted.append
        for result in results:
            note(self.stamp)
            yield result
