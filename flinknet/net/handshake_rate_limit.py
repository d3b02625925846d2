"""Rate limit of TLS handshakes that peers begin.

A TLS handshake costs the accepting side about a millisecond of processor time. A dialling side that
replays a recorded one pays nothing. Accepted sockets therefore begin a limited number of handshakes
per second, and half that number may begin at once. Further sockets wait for their turn while their
handshake deadline runs. A socket that sends nothing needs no turn. Sources (the peers' hosts) take
turns, so a flood from one source delays the others by one handshake each. Within a source, the
order is by arrival.

Sockets that this side dials need no turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

__all__ = ["HandshakeRateLimit"]

_AHEAD_S = 0.5
"""Time in seconds that may be used in advance, so that the start of a job of usual size does not
wait."""


class _Clock(Protocol):
    """Event loop methods used here."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> asyncio.TimerHandle: ...


class HandshakeRateLimit:
    """Lets ``per_second`` handshakes begin in each second."""

    def __init__(self, loop: _Clock, per_second: int) -> None:
        self._loop = loop
        self._interval_s = 1 / per_second
        self._next_at = float("-inf")
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        """Waiting sockets by source; the first source has the next turn."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def take(self, source: str, begin: Callable[[], None]) -> None:
        """Call ``begin`` when it is this socket's turn, perhaps immediately."""
        now = self._loop.time()
        if not self._waiting and self._next_at - _AHEAD_S <= now:
            self._begin(begin, now)
            return
        self._waiting.setdefault(source, deque()).append(begin)
        self._set_timer()

    def leave(self, source: str, begin: Callable[[], None]) -> None:
        """Remove a waiting socket; do nothing if it does not wait."""
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
            self._timer = self._loop.call_at(self._next_at - _AHEAD_S, self._admit)

    def _admit(self) -> None:
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
