"""Turns for handshakes of TLS: how many strangers may have begun in a second, and who is next.

Theory of operation. A handshake of TLS costs the accepting side about a millisecond of its
processor and the dialling side nothing, if that says again what it has recorded. So accepted
sockets begin at most so many in a second, and half as many may begin at once. A further one waits
for its turn, and the deadline of its handshake runs meanwhile. A socket that says nothing needs no
turn. Sources (the peers' hosts) take turns, so that a flood from one delays the others by one
handshake each; within a source the first that came is the first.

Sockets that this side dials are not concerned.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

__all__ = ["HandshakeTurns"]

_AHEAD_S = 0.5
"""So much of the time may be used in advance, so that the start of a job of usual size waits for
nothing."""


class _Clock(Protocol):
    """What is used of an event loop."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> asyncio.TimerHandle: ...


class HandshakeTurns:
    """Lets handshakes begin, ``per_second`` of them in each second."""

    def __init__(self, loop: _Clock, per_second: int) -> None:
        self._loop = loop
        self._interval_s = 1 / per_second
        self._next_at = float("-inf")
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        """By source; the first one is the next to have a turn."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def take(self, source: str, begin: Callable[[], None]) -> None:
        """Call ``begin`` when it is this one's turn, which may be at once."""
        now = self._loop.time()
        if not self._waiting and self._next_at - _AHEAD_S <= now:
            self._begin(begin, now)
            return
        self._waiting.setdefault(source, deque()).append(begin)
        self._set_timer()

    def leave(self, source: str, begin: Callable[[], None]) -> None:
        """Forget one that waits; harmless if it does not."""
        waiting = self._waiting.get(source)
        if waiting is not None and begin in waiting:
            waiting.remove(begin)
            if not waiting:
                del self._waiting[source]

    def _begin(self, begin: Callable[[], None], now: float) -> None:
        self._next_at = max(self._next_at, now) + self._interval_s
        begin()

    def _set_timer(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = self._loop.call_at(self._next_at - _AHEAD_S, self._let_in)

    def _let_in(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._waiting and self._next_at - _AHEAD_S <= now:
            source, waiting = next(iter(self._waiting.items()))
            begin = waiting.popleft()
            del self._waiting[source]
            if waiting:
                self._waiting[source] = waiting  # behind the other sources
            self._begin(begin, now)
        self._set_timer()
