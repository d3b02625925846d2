"""Availability: wakes a waiting task from a synchronous core.

A provider is either available or not. A waiter that finds it unavailable subscribes a callback. The
provider calls each callback once, when it becomes available, and then drops it. A provider that is
destroyed also becomes available, so no waiter hangs. The asyncio shell subscribes a future's
``set_result``.

Callbacks run inside the call that made the provider available. They must only schedule work and
never re-enter the provider.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum

__all__ = ["Availability", "Wait", "WaitReason"]


class Availability:
    """A flag with one-shot subscribers (Flink's AvailabilityProvider)."""

    __slots__ = ("_subscribers", "available")

    def __init__(self, *, available: bool = False) -> None:
        self.available = available
        self._subscribers: list[Callable[[], None]] = []

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when the provider becomes available, or now if it already is."""
        if self.available:
            callback()
        else:
            self._subscribers.append(callback)

    def unsubscribe(self, callback: Callable[[], None]) -> None:
        """Remove the callback of a cancelled waiter; do nothing if it was already called."""
        if callback in self._subscribers:
            self._subscribers.remove(callback)

    def set(self, available: bool) -> None:
        """Change the flag, and call every subscriber when it becomes available.

        Exceptions are raised after all subscribers have been called: a single one as it is, several
        as a BaseExceptionGroup.
        """
        self.available = available
        if available and self._subscribers:
            subscribers, self._subscribers = self._subscribers, []
            if len(subscribers) == 1:
                subscribers[0]()
            else:
                _call_all(subscribers)

    @property
    def waiting(self) -> int:
        """Number of subscribers."""
        return len(self._subscribers)


def _call_all(callbacks: list[Callable[[], None]]) -> None:
    failures: list[BaseException] = []
    for callback in callbacks:
        try:
            callback()
        except BaseException as failure:
            failures.append(failure)
    if len(failures) > 1:
        raise BaseExceptionGroup("several callbacks of an availability failed", failures)
    if failures:
        raise failures[0]


class WaitReason(Enum):
    """Reason why a task waits; the task's time metrics are split by it."""

    IDLE = "there is nothing to process"
    SOFT_BACKPRESSURE = "there is no memory to begin a record"
    HARD_BACKPRESSURE = "there is no memory to go on with a record"

    __hash__ = object.__hash__
    """``Enum.__hash__`` is written in Python, and every wait looks up several members."""


Wait = Callable[[Availability, WaitReason], Awaitable[None]]
"""Suspends until an ``Availability`` is available; the shell provides it and the core awaits it."""
