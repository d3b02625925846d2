"""Availability: how a synchronous core tells a waiting task that it may go on.

Theory of operation. A provider is available or not. Whoever finds it unavailable subscribes a
callback, which is called once, when the provider becomes available (or is destroyed, so that
nobody waits for ever) and is forgotten then. The shell subscribes a future's ``set_result``.
Callbacks run inside the call that made the provider available; they must only schedule, never
re-enter.
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
        """Call ``callback`` once when this becomes available; at once if it is."""
        if self.available:
            callback()
        else:
            self._subscribers.append(callback)

    def unsubscribe(self, callback: Callable[[], None]) -> None:
        """Forget a callback whose waiter was cancelled; harmless if it has been called."""
        if callback in self._subscribers:
            self._subscribers.remove(callback)

    def set(self, available: bool) -> None:
        """Change the flag; on the change to available every subscriber is called.

        What one of them raises is raised when all have been called, as a BaseExceptionGroup if
        several do."""
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
        raise BaseExceptionGroup("several that were told of it failed", failures)
    if failures:
        raise failures[0]


class WaitReason(Enum):
    """Why a task waits; where its time goes is measured by it."""

    IDLE = "there is nothing to process"
    SOFT_BACKPRESSURE = "there is no memory to begin a record"
    HARD_BACKPRESSURE = "there is no memory to go on with a record"

    __hash__ = object.__hash__
    """An enumeration's own is not C, and every wait looks up several."""


Wait = Callable[[Availability, WaitReason], Awaitable[None]]
"""Suspends until something is available; made by the shell, awaited by the core."""
