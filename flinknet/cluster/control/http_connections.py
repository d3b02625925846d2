"""Which connections to an HTTP server may stay: their number, and how long a request may take.

Theory of operation
-------------------
::

    WAITING  for a request: from the connection, or the last answer, until a whole head is there
    BUSY     a request is being answered

A connection that waits for longer than the request time-out is *overdue*. Bytes do not help: a head
that comes byte by byte, an answer that nobody fetches and a connection that is kept alive for later
all end the same. One that is busy does the server's own work, which has time-outs of its own
(``http_requests.py``); a worker's websocket is busy for as long as the worker lives.

There are at most so many connections. One more takes the place of the one that has waited longest:
of a crowd that says nothing, or of an idle one that its owner can make again. It is refused only
when all are busy.

No I/O and no clock: ``now`` comes in. A connection is whatever its owner takes for one.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["HttpConnections"]

C = TypeVar("C", bound=Hashable)


class HttpConnections(Generic[C]):
    """The connections of one server."""

    def __init__(self, *, connections_max: int, request_timeout_s: float) -> None:
        self._connections_max = connections_max
        self._request_timeout = request_timeout_s
        self._waiting: dict[C, float] = {}
        """Since when, in this order."""
        self._busy: set[C] = set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._busy)

    def accept(self, connection: C, now: float) -> C | None:
        """A connection has been made. Returns the one that must go for it, perhaps itself."""
        leaving = None
        if len(self) >= self._connections_max:
            leaving = next(iter(self._waiting), connection)
            self._waiting.pop(leaving, None)
        if leaving is not connection:
            self._waiting[connection] = now
        return leaving

    def begin(self, connection: C) -> None:
        """The head of a request is there."""
        if self._waiting.pop(connection, None) is not None:
            self._busy.add(connection)

    def end(self, connection: C, now: float) -> None:
        """The answer is made; it is being written."""
        if connection in self._busy:
            self._busy.remove(connection)
            self._waiting[connection] = now

    def progress(self, connection: C, now: float) -> None:
        """The peer has fetched more of an answer: it waits from now on."""
        if self._waiting.pop(connection, None) is not None:
            self._waiting[connection] = now

    def lose(self, connection: C) -> None:
        """The connection is gone; it may be unknown."""
        self._waiting.pop(connection, None)
        self._busy.discard(connection)

    def overdue(self, now: float) -> list[C]:
        """The connections whose time is over."""
        return [
            connection
            for connection, since in self._waiting.items()
            if now - since >= self._request_timeout
        ]

    @property
    def deadline(self) -> float | None:
        """When the next one will be overdue; None if none waits."""
        since = next(iter(self._waiting.values()), None)
        return None if since is None else since + self._request_timeout

    def check_invariants(self) -> None:
        """Nobody is in two states, nor over the limit, and those who wait stand in order."""
        assert not self._waiting.keys() & self._busy
        assert len(self) <= self._connections_max
        times = list(self._waiting.values())
        assert times == sorted(times)
