"""Timers of one operator in one time domain, in the order of their times.

Theory of operation. A state table, key -> times, holds the timers, each time once per key. They are
captured, written and restored like all keyed state. Heaps beside the table hold the order, and can
be rebuilt from the table. A heap entry with a time that is no longer in the table belongs to a
deleted timer. It is dropped when it comes first, or when half of its heap consists of such entries.
The hash of the key selects one of many heaps, so cleaning one of them takes a short time.
``_heads`` tells the heap with the earliest timer. Timers with the same time fire in the order of
their registration.

The queue knows no clock: callers pass times, and read ``deadline_ms``.

Invariant: each time in the table is in a heap, and the first entry of each heap is in ``_heads``.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from flinknet.records.key_normalization import comparable_key
from flinknet.state.state_table import Entries, StateTable

__all__ = ["DueTimer", "TimerQueue"]

HEAPS = 64
"""Number of heaps; with a million timers, each has 16,000."""

HEADS_MAX = 16 * HEAPS
"""Maximum number of entries of ``_heads``, before it is rebuilt; most are outdated by then."""

STALE_MIN = 64
"""Number of deleted timers that a heap may always keep."""


class DueTimer(NamedTuple):
    """A timer that fires."""

    timestamp_ms: int
    key: Any


class TimerQueue:
    """The timers of ``table``, and those that are registered here."""

    _entries: Entries

    def __init__(self, table: StateTable) -> None:
        table.attach(self)
        self._table = table
        self._heaps: list[list[tuple[int, int, Any]]] = [[] for _ in range(HEAPS)]
        self._stale = [0] * HEAPS
        self._heads: list[tuple[int, int, int]] = []
        self._registered = 0
        for key, times in table.entries():
            for timestamp_ms in times:
                self._push(timestamp_ms, key)

    @property
    def deadline_ms(self) -> int | None:
        """Time of the earliest timer; None if there is none."""
        number = self._first()
        return None if number is None else self._heaps[number][0][0]

    def register(self, timestamp_ms: int, key: Any) -> None:
        """Register a timer for a key; does nothing if it exists."""
        key = comparable_key(key)
        # Times are in a tuple, because a capture can detach only unchangeable values.
        times = self._entries.get(key, ())
        if timestamp_ms not in times:
            self._entries[key] = (*times, timestamp_ms)
            self._push(timestamp_ms, key)

    def delete(self, timestamp_ms: int, key: Any) -> None:
        """Delete a timer; does nothing if it does not exist."""
        key = comparable_key(key)
        if self._remove(timestamp_ms, key):
            number = hash(key) % HEAPS
            self._stale[number] += 1
            if self._stale[number] > max(STALE_MIN, len(self._heaps[number]) // 2):
                self._sweep(number)

    def pop_due(self, until_ms: int) -> DueTimer | None:
        """Remove and return the earliest timer; None if it is later than ``until_ms``."""
        number = self._first()
        if number is None or self._heaps[number][0][0] > until_ms:
            return None
        timestamp_ms, _, key = heappop(self._heaps[number])
        self._add_head(number)
        self._remove(timestamp_ms, key)
        return DueTimer(timestamp_ms, key)

    def _first(self) -> int | None:
        """Return the heap with the earliest timer, and drop deleted timers before it."""
        heads = self._heads
        while heads:
            _, registered, number = heads[0]
            heap = self._heaps[number]
            if heap and heap[0][1] == registered:
                timestamp_ms, _, key = heap[0]
                if timestamp_ms in self._entries.get(key, ()):
                    return number
                heappop(heap)
                self._stale[number] -= 1
                self._add_head(number)
            heappop(heads)  # its heap begins with another timer now
        return None

    def _push(self, timestamp_ms: int, key: Any) -> None:
        number = hash(key) % HEAPS
        heap = self._heaps[number]
        self._registered += 1
        heappush(heap, (timestamp_ms, self._registered, key))
        if heap[0][1] == self._registered:
            self._add_head(number)

    def _add_head(self, number: int) -> None:
        heap = self._heaps[number]
        if heap:
            timestamp_ms, registered, _ = heap[0]
            heappush(self._heads, (timestamp_ms, registered, number))
            if len(self._heads) > HEADS_MAX:
                self._heads[:] = [
                    (*heap[0][:2], number) for number, heap in enumerate(self._heaps) if heap
                ]
                heapify(self._heads)

    def _remove(self, timestamp_ms: int, key: Any) -> bool:
        times = self._entries.get(key, ())
        if timestamp_ms not in times:
            return False
        if len(times) == 1:
            self._entries.pop(key)
        else:
            self._entries[key] = tuple(time for time in times if time != timestamp_ms)
        return True

    def _sweep(self, number: int) -> None:
        """Drop the deleted timers of a heap."""
        entries = self._entries
        heap = [entry for entry in self._heaps[number] if entry[0] in entries.get(entry[2], ())]
        heapify(heap)
        self._heaps[number], self._stale[number] = heap, 0
        self._add_head(number)

    def check_invariants(self) -> None:
        """Raise AssertionError if a timer is missing from the heaps."""
        queued = {(entry[0], entry[2]) for heap in self._heaps for entry in heap}
        for key, times in self._table.entries():
            assert times, "a key without timers is in the table"
            assert len(set(times)) == len(times), "a timer is registered twice"
            assert all((time, key) in queued for time in times), "a timer is in no heap"
        for number, heap in enumerate(self._heaps):
            heads = [head[1] for head in self._heads if head[2] == number]
            assert not heap or heap[0][1] in heads, "a heap is forgotten"
