"""Timers of windows: the key and window to call at a time.

Theory of operation. A heap orders the timers by time, and a set tells which of them are valid. A
deleted timer leaves the set at once, and the heap when it reaches the top. A timer that is already
set is not added again. Timers with the same time fire in the order of their registration.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

from flinknet.functions.windows import Window

__all__ = ["WindowTimers"]


class WindowTimers:
    """Timers of one time domain."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Any, Window]] = []
        self._set: set[tuple[int, Any, Window]] = set()
        self._registered = 0

    def __len__(self) -> int:
        return len(self._set)

    def register(self, time_ms: int, key: Any, window: Window) -> None:
        """Set a timer, unless it is already set."""
        if (time_ms, key, window) not in self._set:
            self._set.add((time_ms, key, window))
            self._registered += 1
            heappush(self._heap, (time_ms, self._registered, key, window))

    def delete(self, time_ms: int, key: Any, window: Window) -> None:
        """Delete a timer, if it is set."""
        self._set.discard((time_ms, key, window))

    def due(self, now_ms: int) -> Iterator[tuple[int, Any, Window]]:
        """Remove and generate the timers up to ``now_ms``, in order.

        Timers may be set and deleted during the iteration.
        """
        while self._heap and self._heap[0][0] <= now_ms:
            time_ms, _, key, window = heappop(self._heap)
            if (time_ms, key, window) in self._set:
                self._set.remove((time_ms, key, window))
                yield time_ms, key, window

    def next_ms(self) -> int | None:
        """Return the time of the next timer, or None if there is none."""
        while self._heap and (self._heap[0][0], *self._heap[0][2:]) not in self._set:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
