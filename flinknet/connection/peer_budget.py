"""The budgets of a peer: what is legal once, and harm if it is done all the time.

Theory of operation. Every message costs the worker time, and some need nothing behind them: a
heartbeat says only that the peer is there, a request that is cancelled before anything was sent on
its channel moves no data. So each is counted over a minute, and a peer that sends more than any
honest one needs has broken the protocol. How much time the messages of one connection may take
before others have their turn is another matter (``turn_messages_max``, ``turn_bytes_max``).

Readers cost memory, and every peer may ask for many. A ``ReaderQuota`` counts those of all
connections of a worker together.

A request for which there is no partition moves no data either, and an honest peer may send
thousands of those at the start of a job. So they are not forbidden but paced: an ``UnmetRequests``
gives each of all peers of a worker a place in time, in the order in which they come, and a
connection that has had its share waits for its place before it is read on.

Time comes in as ``now``, in seconds.
"""

from __future__ import annotations

__all__ = ["UNMET_REQUESTS_AT_ONCE", "MinuteBudget", "ReaderQuota", "UnmetRequests"]

_MINUTE_S = 60.0

UNMET_REQUESTS_AT_ONCE = 4
"""Unmet requests of one connection that are handled before others have their turn; they take some
50 us."""

_AHEAD_S = 0.5
"""So much of the time of unmet requests may be used in advance, so that the start of a job of usual
size waits for nothing."""


class MinuteBudget:
    """At most ``limit`` of something in a minute; the minutes follow each other."""

    __slots__ = ("_began", "_spent", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spent = 0
        self._began = float("-inf")

    def spend(self, now: float) -> bool:
        """Count one more; whether the budget of this minute had room for it."""
        if now - self._began >= _MINUTE_S:
            self._began = now
            self._spent = 0
        self._spent += 1
        return self._spent <= self.limit


class ReaderQuota:
    """The readers that all peers of a worker have opened, together.

    Invariant: ``0 <= taken <= limit``.
    """

    __slots__ = ("limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    def take(self) -> bool:
        """Count a reader in, if there is room for it; say whether."""
        if self.taken >= self.limit:
            return False
        self.taken += 1
        return True

    def give_back(self) -> None:
        """Count a reader out."""
        assert self.taken > 0, "more readers were given back than taken"
        self.taken -= 1


class UnmetRequests:
    """Gives requests that meet no partition places in time, for all peers of a worker together.

    ``per_second`` of them have a place in each second.
    """

    __slots__ = ("_interval_s", "_next_at")

    def __init__(self, per_second: int) -> None:
        self._interval_s = 1 / per_second
        self._next_at = float("-inf")

    def take_place(self, now: float) -> float:
        """Count one; return when its connection may be read on, which may have passed."""
        self._next_at = max(self._next_at, now) + self._interval_s
        return self._next_at - _AHEAD_S
