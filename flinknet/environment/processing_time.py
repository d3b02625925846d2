"""Processing time: what a subtask does at a time (Flink's ProcessingTimeService).

Theory of operation. A timer of the event loop only puts a call into the subtask's mailbox, so that
it is made between two batches. A timer is due when its millisecond has *passed*: the clock counts
whole milliseconds, so a record that is processed later may still have that time, and belongs to the
window that ends with it (Flink adds the same millisecond, ProcessingTimeServiceUtil). What a call
raises fails the subtask, as what an operator raises does. When the service is closed, no timer
fires any more. A function may set and cancel timers in the thread of its subtask: the loop has them
a moment later.

There are two kinds of timers. One that waits for a *delay* (watermarks, idleness, time-outs) counts
time that has gone by, and no setting of the clock concerns it. One that waits for a *time* (those
of users, and of windows) follows the clock of the machine, which may be set:

- If it is set forward, processing time goes forward with it. A timer notices that within
  ``LOOK_AGAIN_S``.
- If it is set back, processing time does not go back, and does not stand still until the clock has
  caught up. It goes on at nine tenths of its pace until then. So timers fire, windows close, and
  each in its order; after an hour's step a minute's window takes 67 s for ten hours.

Flink reads the clock as it is. What its timer service has scheduled comes after the delay that it
had then; but what is scheduled anew after a step back, which is all that lies behind the next timer
of each operator, waits until the clock has caught up, and windows of the past open a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from flinknet import machine
from flinknet.environment.task_thread import soon_on_loop

__all__ = [
    "PROCESSING_CLOCK",
    "ProcessingClock",
    "ProcessingTimeService",
    "ScheduledTimer",
    "wall_clock_ms",
]

LOOK_AGAIN_S = 60.0
"""After which a timer looks at the clock again: the machine may have slept, or its clock may have
been set forward."""

_NS = 1_000_000


def wall_clock_ms() -> int:
    """Return milliseconds since 1970, as the machine has them."""
    return machine.wall_time_ns() // _NS


def _steady_ms() -> int:
    """Return milliseconds of a clock that nobody sets."""
    return machine.monotonic_ns() // _NS


class ProcessingClock:
    """The time of day, which no thread sees go back or stand still. Threads share it."""

    def __init__(
        self,
        wall_ns: Callable[[], int] = machine.wall_time_ns,
        steady_ns: Callable[[], int] = machine.monotonic_ns,
    ) -> None:
        """``wall_ns`` may be set; ``steady_ns`` is not. A step back is noticed by the next call:
        have one made each second."""
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._latest_ns = wall_ns()
        self._behind_since_ns: int | None = None
        """When ``_latest_ns`` was made, by the steady clock, while the wall clock is behind it."""
        self._lock = machine.Lock()

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        wall_ns = self._wall_ns()
        if wall_ns < self._latest_ns or self._behind_since_ns is not None:
            return self._now_behind(wall_ns)
        self._latest_ns = wall_ns
        return wall_ns // _NS

    def _now_behind(self, wall_ns: int) -> int:
        with self._lock:
            steady_ns, since_ns = self._steady_ns(), self._behind_since_ns
            gone_by_ns = 0 if since_ns is None else steady_ns - since_ns
            slow_ns = self._latest_ns + gone_by_ns * 9 // 10
            self._latest_ns = max(wall_ns, slow_ns)
            self._behind_since_ns = None if wall_ns >= slow_ns else steady_ns
            return self._latest_ns // _NS


PROCESSING_CLOCK = ProcessingClock()
"""That of all subtasks of this process."""


class ScheduledTimer:
    """A timer that was set."""

    __slots__ = ("callback", "cancelled", "handle", "passed_ms", "timestamp_ms")

    def __init__(
        self, timestamp_ms: int, callback: Callable[[int], Any], passed_ms: Callable[[], int]
    ) -> None:
        """``passed_ms`` says which millisecond has passed, by the clock that counts for it."""
        self.timestamp_ms = timestamp_ms
        self.callback = callback
        self.passed_ms = passed_ms
        self.cancelled = False
        self.handle: asyncio.TimerHandle | None = None


class ProcessingTimeService:
    """The timers of one subtask; ``post`` has a call made between two batches."""

    def __init__(
        self,
        post: Callable[[Callable[[], Any]], None],
        clock_ms: Callable[[], int] = PROCESSING_CLOCK.now_ms,
        steady_ms: Callable[[], int] = _steady_ms,
    ) -> None:
        self.post = post
        """Has a function or coroutine function called between two batches; nothing is called once
        the subtask has stopped."""
        self._clock_ms = clock_ms
        self._steady_ms = steady_ms
        self._timers: set[ScheduledTimer] = set()
        self._is_closed = False

    def get_current_processing_time(self) -> int:
        """Return milliseconds since 1970; see the module for what it does when the clock is set."""
        return self._clock_ms()

    def get_passed_time(self) -> int:
        """Return the last millisecond that has passed: what timers up to then wait for has come."""
        return self._clock_ms() - 1

    def get_relative_time(self) -> int:
        """Return milliseconds of a clock that nobody sets, to measure how long something takes."""
        return self._steady_ms()

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], Any]) -> ScheduledTimer:
        """Have a function or coroutine function called with ``timestamp_ms`` once that millisecond
        has passed."""
        return self._register(ScheduledTimer(timestamp_ms, callback, self.get_passed_time))

    def register_delay(self, delay_ms: int, callback: Callable[[int], Any]) -> ScheduledTimer:
        """Have a function or coroutine function called after ``delay_ms``, with the relative time
        of that."""
        due_ms = self._steady_ms() + delay_ms
        return self._register(ScheduledTimer(due_ms, callback, self._steady_ms))

    def cancel(self, timer: ScheduledTimer) -> None:
        """Do not call what has not been called; idempotent."""
        timer.cancelled = True
        self._timers.discard(timer)
        soon_on_loop(self._unset, timer)

    def close(self) -> None:
        """Cancel all timers, and call none whose call waits in the mailbox."""
        self._is_closed = True
        for timer in list(self._timers):
            self.cancel(timer)

    def _register(self, timer: ScheduledTimer) -> ScheduledTimer:
        self._timers.add(timer)
        soon_on_loop(self._set, timer)
        return timer

    def _set(self, timer: ScheduledTimer) -> None:
        if timer.cancelled or self._is_closed:
            return
        delay_s = max(0, timer.timestamp_ms - timer.passed_ms()) / 1000
        timer.handle = asyncio.get_running_loop().call_later(
            min(delay_s, LOOK_AGAIN_S), self._due, timer
        )

    def _unset(self, timer: ScheduledTimer) -> None:
        if timer.handle is not None:
            timer.handle.cancel()

    def _due(self, timer: ScheduledTimer) -> None:
        if timer.passed_ms() < timer.timestamp_ms:
            self._set(timer)
            return
        self._timers.discard(timer)
        self.post(lambda: self._call(timer))

    def _call(self, timer: ScheduledTimer) -> Any:
        if timer.cancelled or self._is_closed:
            return None
        return timer.callback(timer.timestamp_ms)
