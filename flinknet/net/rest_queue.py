"""The rest queue of links that ask for partitions that are not here.

Theory of operation. The cost of such requests is bounded in time (``connection/peer_budget.py``),
but on a busy machine a second of the clock may hold little time of this process. So there is one
queue for all links of a worker, and each turn of the event loop lets one of them go on. All other
work of that turn is done as well, however long it takes. If there is none, turns are short, and the
queue moves fast.

Links stand here in the order of their places in time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["Rest", "RestQueue"]


class Rest:
    """One link's rest; ``cancel`` ends it without a call."""

    __slots__ = ("end", "until")

    def __init__(self, until: float, end: Callable[[], None]) -> None:
        self.until = until
        self.end: Callable[[], None] | None = end

    def cancel(self) -> None:
        """Call nothing any more; idempotent."""
        self.end = None


class RestQueue:
    """Ends the rests of all links of a worker, one in a turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rests: deque[Rest] = deque()
        self._is_due = False

    def add(self, until: float, end: Callable[[], None]) -> Rest:
        """Call ``end`` in a turn of its own, at ``until`` or later."""
        rest = Rest(until, end)
        self._rests.append(rest)
        self._arm()
        return rest

    def _arm(self) -> None:
        while self._rests and self._rests[0].end is None:
            self._rests.popleft()
        if self._is_due or not self._rests:
            return
        self._is_due = True
        until = self._rests[0].until
        if until > self._loop.time():
            self._loop.call_at(until, self._end_first)
        else:
            self._loop.call_soon(self._end_first)

    def _end_first(self) -> None:
        self._is_due = False
        end = self._rests.popleft().end
        self._arm()  # first, since the others must go on whatever this one raises
        if end is not None:
            end()
