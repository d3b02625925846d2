"""The timers of windows: which window of which key is due when.

Theory of operation. A heap in the order of time, and a set that says what is in it: a timer that is
deleted leaves the set, and the heap when it comes to its top. One that is there already is not set
twice. Timers of one time come in the order in which they were set.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

from flinknet.functions.windows import Window

__all__ = ["WindowTimers"]


class WindowTimers:
    """Timers of one kind of time."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Any, Window]] = []
        self._set: set[tuple[int, Any, Window]] = set()
        self._registered = 0

    def __len__(self) -> int:
        return len(self._set)

    def register(self, time_ms: int, key: Any, window: Window) -> None:
        """Set a timer, unless it is set."""
        if (time_ms, key, window) not in self._set:
            self._set.add((time_ms, key, window))
            self._registered += 1
            heappush(self._heap, (time_ms, self._registered, key, window))

    def delete(self, time_ms: int, key: Any, window: Window) -> None:
        """Forget a timer; harmless if there is none."""
        self._set.discard((time_ms, key, window))

    def due(self, now_ms: int) -> Iterator[tuple[int, Any, Window]]:
        """Take the timers up to ``now_ms``, in order; some may be set and deleted meanwhile."""
        while self._heap and self._heap[0][0] <= now_ms:
            time_ms, _, key, window = heappop(self._heap)
            if (time_ms, key, window) in self._set:
                self._set.remove((time_ms, key, window))
                yield time_ms, key, window

    def next_ms(self) -> int | None:
        """Return when the next one is due, None if there is none."""
        while self._heap and (self._heap[0][0], *self._heap[0][2:]) not in self._set:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
