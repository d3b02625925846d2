"""The pending handshakes: accepted sockets in handshake, and the one to drop if there are too many.

Any host may connect and send nothing, while an honest peer needs only two round trips. If there are
more sockets than ``limit``, one makes room. It is chosen from the source (the peer's host) with the
most sockets. The socket that has been silent for the longest goes, or else the oldest one. On
loopback all sockets share one source, and only silence counts. A very young socket is spared,
because the event loop may not have read its input yet. If all are that young, the newcomer itself
is turned away, and will try again.

Time is passed in as ``now``. The registry owns the pending sockets, in order of arrival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

__all__ = ["PendingHandshakes"]

_SPARED_SHARE = 0.02
"""Share of the handshake timeout for which a new socket is not taken for silent: 100 ms of 5 s."""


class PendingPeer(Protocol):
    """A socket in handshake."""

    @property
    def is_silent(self) -> bool:
        """Whether nothing has been received from its peer."""


class _Arrival(NamedTuple):
    source: str
    at: float


S = TypeVar("S", bound=PendingPeer)


class PendingHandshakes(Generic[S]):
    """Sockets in handshake, in order of arrival."""

    def __init__(self, limit: int, timeout_s: float) -> None:
        self._limit = limit
        self._spared_s = timeout_s * _SPARED_SHARE
        self._arrivals: dict[S, _Arrival] = {}
        self._sources: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._arrivals)

    def __iter__(self) -> Iterator[S]:
        return iter(tuple(self._arrivals))

    def add(self, socket: S, source: str, now: float) -> None:
        """Add an accepted socket."""
        self._arrivals[socket] = _Arrival(source, now)
        self._sources[source] += 1

    def discard(self, socket: S) -> bool:
        """Remove a socket after its handshake; return False if it is not pending."""
        arrival = self._arrivals.pop(socket, None)
        if arrival is None:
            return False
        self._sources[arrival.source] -= 1
        if not self._sources[arrival.source]:
            del self._sources[arrival.source]
        return True

    def excess(self, now: float, newcomer: S) -> S | None:
        """Return the socket to drop if there are too many, perhaps the newcomer itself."""
        if len(self._arrivals) <= self._limit:
            return None
        [(greediest, _)] = self._sources.most_common(1)
        candidates = [
            socket
            for socket, arrival in self._arrivals.items()
            if arrival.source == greediest and arrival.at + self._spared_s <= now
        ]
        silent = (socket for socket in candidates if socket.is_silent)
        return next(silent, candidates[0] if candidates else newcomer)

    def oldest_silent(self, now: float, among: Container[S]) -> S | None:
        """Return the socket in ``among`` that has been silent for the longest.

        Returns None if no socket is silent, or the silent ones have only just come.
        """
        for socket, arrival in self._arrivals.items():
            # All sockets behind this one are younger.
            if arrival.at + self._spared_s > now:
                break
            if socket in among and socket.is_silent:
                return socket
        return None

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        sources = Counter(arrival.source for arrival in self._arrivals.values())
        assert sources == self._sources, "the handshakes of a source are miscounted"
