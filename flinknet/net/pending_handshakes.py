"""The pending handshakes: accepted sockets that have not said who they are, and which of them goes
when there are too many.

Theory of operation. Anybody may connect and say nothing, and an honest peer is through in two round
trips. So when there are more than ``limit``, one makes room: of the source (the peer's host) that
has the most, the one that has said nothing for the longest, or the oldest if all have said
something. On loopback all share one source, and it is the silence that counts. One that came a
moment ago is spared, because the event loop may not have come to what it said: if all are that
young, the newcomer itself is turned away, and will try again.

Time comes in as ``now``. Owned: who is pending, in the order of their coming.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

__all__ = ["PendingHandshakes"]

_SPARED_SHARE = 0.02
"""Of the time for a handshake, in which one that has said nothing is not taken for silent: 100 ms
of 5 s."""


class Shaking(Protocol):
    """A socket in handshake."""

    @property
    def is_silent(self) -> bool:
        """Whether its peer has said nothing at all."""


class _Arrival(NamedTuple):
    source: str
    at: float


S = TypeVar("S", bound=Shaking)


class PendingHandshakes(Generic[S]):
    """Sockets in handshake, by their coming."""

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
        """A socket was accepted."""
        self._arrivals[socket] = _Arrival(source, now)
        self._sources[source] += 1

    def discard(self, socket: S) -> bool:
        """A handshake is over; return False, and do nothing, if it is not here."""
        arrival = self._arrivals.pop(socket, None)
        if arrival is None:
            return False
        self._sources[arrival.source] -= 1
        if not self._sources[arrival.source]:
            del self._sources[arrival.source]
        return True

    def excess(self, now: float, newcomer: S) -> S | None:
        """Return who has to go, if there are too many: perhaps the newcomer itself."""
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
        """Return the one of ``among`` that has said nothing for the longest; None if all have, or
        have only just come."""
        for socket, arrival in self._arrivals.items():
            if arrival.at + self._spared_s > now:
                break
            if socket in among and socket.is_silent:
                return socket
        return None

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounts do not add up."""
        sources = Counter(arrival.source for arrival in self._arrivals.values())
        assert sources == self._sources, "handshakes are miscounted by their sources"
