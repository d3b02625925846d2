"""Limits for the connections of an HTTP server: their number, and the time of a request.

Theory of operation
-------------------
::

    WAITING  for a request: from the connection, or the last answer, until a whole head is there
    BUSY     a request is being answered

A connection that waits for longer than the request timeout is *overdue*. Single bytes do not extend
the time. A head that arrives byte by byte, an answer that the peer does not read, and an idle
keep-alive connection are all treated alike. While a connection is busy, the server works on its
request, with timeouts of its own (``http_requests.py``). A worker's websocket is busy for the whole
life of the worker.

The number of connections is limited. A new connection over the limit replaces the one that has
waited longest, either one of many silent ones or an idle one that its owner can reopen. The new
connection is refused only if all others are busy.

No I/O and no clock: ``now`` is an argument. Any hashable object can represent a connection.
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
        """Start of the wait of each connection, in this order."""
        self._busy: set[C] = set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._busy)

    def accept(self, connection: C, now: float) -> C | None:
        """Add a new connection; return the one that must be closed for it, which may be itself."""
        leaving = None
        if len(self) >= self._connections_max:
            leaving = next(iter(self._waiting), connection)
            self._waiting.pop(leaving, None)
        if leaving is not connection:
            self._waiting[connection] = now
        return leaving

    def begin(self, connection: C) -> None:
        """Note that the head of a request has arrived."""
        if self._waiting.pop(connection, None) is not None:
            self._busy.add(connection)

    def end(self, connection: C, now: float) -> None:
        """Note that the answer is complete and is being written."""
        if connection in self._busy:
            self._busy.remove(connection)
            self._waiting[connection] = now

    def progress(self, connection: C, now: float) -> None:
        """Note that the peer has received more of an answer; its wait starts again."""
        if self._waiting.pop(connection, None) is not None:
            self._waiting[connection] = now

    def lose(self, connection: C) -> None:
        """Remove a connection, if it is known."""
        self._waiting.pop(connection, None)
        self._busy.discard(connection)

    def overdue(self, now: float) -> list[C]:
        """Return the connections that are overdue."""
        return [
            connection
            for connection, since in self._waiting.items()
            if now - since >= self._request_timeout
        ]

    @property
    def deadline(self) -> float | None:
        """Time at which the next connection is overdue; None if none waits."""
        since = next(iter(self._waiting.values()), None)
        return None if since is None else since + self._request_timeout

    def check_invariants(self) -> None:
        """Check that each connection has one state, the limit holds, and waits are in order."""
        assert not self._waiting.keys() & self._busy
        assert len(self) <= self._connections_max
        times = list(self._waiting.values())
        assert times == sorted(times)
