"""Limits of one peer, for requests that are legal once but harmful in numbers.

Every message costs the worker time, and some come at no cost to the peer. A heartbeat carries no
data, and neither does a request that is cancelled before anything is sent on its channel. Such
messages are counted per minute. A peer that sends more than any honest peer needs breaks the
protocol. Other limits bound the time that one connection may take before others have their turn
(``turn_messages_max``, ``turn_bytes_max``).

Readers cost memory, and every peer may request many. A ``ReaderQuota`` counts the readers of all
connections of a worker together.

A request without a matching partition moves no data either, but an honest peer may send thousands
at the start of a job. These requests are not forbidden but paced. ``UnmetRequestPacer`` assigns
each of them a time slot, in order of arrival over all peers of a worker. A connection that has used
its share is not read before its slot.

Time is passed in as ``now``, in seconds.
"""

from __future__ import annotations

__all__ = ["UNMET_REQUESTS_AT_ONCE", "RateLimit", "ReaderQuota", "UnmetRequestPacer"]

_MINUTE_S = 60.0

UNMET_REQUESTS_AT_ONCE = 4
"""Unmet requests that one connection handles before others have their turn; they take about 50
us."""

_AHEAD_S = 0.5
"""Time of unmet requests that may be used in advance, so that the start of a job of usual size does
not wait."""


class RateLimit:
    """Limit of ``limit`` events per minute; a new minute begins with the first event after one."""

    __slots__ = ("_began", "_spent", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spent = 0
        self._began = float("-inf")

    def spend(self, now: float) -> bool:
        """Count one event; return whether it is within the limit of this minute."""
        if now - self._began >= _MINUTE_S:
            self._began = now
            self._spent = 0
        self._spent += 1
        return self._spent <= self.limit


class ReaderQuota:
    """Number of readers opened by all peers of a worker.

    Invariant: ``0 <= taken <= limit``.
    """

    __slots__ = ("limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    def take(self) -> bool:
        """Count one more reader; return False if there is no room for it."""
        if self.taken >= self.limit:
            return False
        self.taken += 1
        return True

    def give_back(self) -> None:
        """Count one reader less."""
        assert self.taken > 0, "more readers were released than taken"
        self.taken -= 1


class UnmetRequestPacer:
    """Assigns time slots to unmet requests, for all peers of a worker together.

    There are ``per_second`` slots in each second.
    """

    __slots__ = ("_interval_s", "_next_at")

    def __init__(self, per_second: int) -> None:
        self._interval_s = 1 / per_second
        self._next_at = float("-inf")

    def reserve_slot(self, now: float) -> float:
        """Count one request; return the time from which its connection may be read, maybe past."""
        self._next_at = max(self._next_at, now) + self._interval_s
        return self._next_at - _AHEAD_S
