"""The read pauses of links that request absent partitions.

The cost of such requests is limited in time (``connection/peer_limits.py``). On a busy machine,
however, this process may have little processor time per second. All links of a worker therefore
share one queue, and each turn of the event loop continues one of them. All other work of the turn
is done too, however long it takes. Without other work, turns are short and the queue moves fast.

Links are queued in the order of their time slots.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["ReadPause", "ReadPauseQueue"]


class ReadPause:
    """One link's pause; ``cancel`` ends it without a call."""

    __slots__ = ("end", "until")

    def __init__(self, until: float, end: Callable[[], None]) -> None:
        self.until = until
        self.end: Callable[[], None] | None = end

    def cancel(self) -> None:
        """Cancel the call; idempotent."""
        self.end = None


class ReadPauseQueue:
    """Ends the pauses of all links of a worker, one per turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pauses: deque[ReadPause] = deque()
        self._is_due = False

    def add(self, until: float, end: Callable[[], None]) -> ReadPause:
        """Call ``end`` in its own turn of the loop, at ``until`` or later."""
        pause = ReadPause(until, end)
        self._pauses.append(pause)
        self._arm()
        return pause

    def _arm(self) -> None:
        while self._pauses and self._pauses[0].end is None:
            self._pauses.popleft()
        if self._is_due or not self._pauses:
            return
        self._is_due = True
        until = self._pauses[0].until
        if until > self._loop.time():
            self._loop.call_at(until, self._end_first)
        else:
            self._loop.call_soon(self._end_first)

    def _end_first(self) -> None:
        self._is_due = False
        end = self._pauses.popleft().end
        self._arm()  # first, so that the others go on even if this call raises
        if end is not None:
            end()
