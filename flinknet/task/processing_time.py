"""Processing time: what a subtask does at a time (Flink's ProcessingTimeService).

Theory of operation. A timer of the event loop only puts a call into the subtask's mailbox, so that
it is made between two batches. A timer is due when its millisecond has *passed*: the clock counts
whole milliseconds, so a record that is processed later may still have that time, and belongs to the
window that ends with it (Flink adds the same millisecond, ProcessingTimeServiceUtil). The wall
clock may be set back meanwhile: a timer that is not due then is set again. What a call raises fails
the subtask, as what an operator raises does. When the service is closed, no timer fires any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

__all__ = ["ProcessingTimeService", "ScheduledTimer", "wall_clock_ms"]

TIMER_DELAY_S_MAX = 86_400.0
"""An event loop refuses timers that are too far away."""


def wall_clock_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class ScheduledTimer:
    """A timer that was set."""

    __slots__ = ("callback", "cancelled", "handle", "timestamp_ms")

    def __init__(self, timestamp_ms: int, callback: Callable[[int], Any]) -> None:
        self.timestamp_ms = timestamp_ms
        self.callback = callback
        self.cancelled = False
        self.handle: asyncio.TimerHandle | None = None


class ProcessingTimeService:
    """The timers of one subtask; ``post`` has a call made between two batches."""

    def __init__(
        self,
        post: Callable[[Callable[[], Any]], None],
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.post = post
        """Has a function or coroutine function called between two batches; nothing is called once
        the subtask has stopped."""
        self._clock_ms = clock_ms
        self._timers: set[ScheduledTimer] = set()
        self._is_closed = False

    def get_current_processing_time(self) -> int:
        """Return milliseconds since 1970."""
        return self._clock_ms()

    def get_passed_time(self) -> int:
        """Return the last millisecond that has passed: what timers up to then wait for has come."""
        return self._clock_ms() - 1

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], Any]) -> ScheduledTimer:
        """Have a function or coroutine function called with ``timestamp_ms`` once that millisecond
        has passed."""
        timer = ScheduledTimer(timestamp_ms, callback)
        self._timers.add(timer)
        self._set(timer)
        return timer

    def cancel(self, timer: ScheduledTimer) -> None:
        """Do not call what has not been called; idempotent."""
        timer.cancelled = True
        if timer in self._timers:
            self._timers.remove(timer)
            assert timer.handle is not None, "a timer that is kept is set"
            timer.handle.cancel()

    def close(self) -> None:
        """Cancel all timers, and call none whose call waits in the mailbox."""
        self._is_closed = True
        for timer in list(self._timers):
            self.cancel(timer)

    def _set(self, timer: ScheduledTimer) -> None:
        delay_s = max(0, timer.timestamp_ms - self.get_passed_time()) / 1000
        timer.handle = asyncio.get_running_loop().call_later(
            min(delay_s, TIMER_DELAY_S_MAX), self._due, timer
        )

    def _due(self, timer: ScheduledTimer) -> None:
        if self.get_passed_time() < timer.timestamp_ms:
            self._set(timer)
            return
        self._timers.remove(timer)
        self.post(lambda: self._call(timer))

    def _call(self, timer: ScheduledTimer) -> Any:
        if timer.cancelled or self._is_closed:
            return None
        return timer.callback(timer.timestamp_ms)
