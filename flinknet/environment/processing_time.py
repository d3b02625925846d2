"""Processing time: timers of a subtask (Flink's ProcessingTimeService).

Theory of operation. A timer of the event loop only puts a call into the subtask's mailbox, so the
call is made between two batches. A timer is due when its millisecond has *passed*. The clock counts
whole milliseconds, so a record processed later may still have that time, and belongs to the window
that ends with it (Flink adds the same millisecond, ProcessingTimeServiceUtil). An error of a call
fails the subtask, like an error of an operator. After the service is closed, no timer fires. A
function may set and cancel timers in the thread of its subtask; the loop receives them a moment
later.

There are two kinds of timers. A timer for a *delay* (watermarks, idleness, time-outs) counts
elapsed time, and ignores changes of the clock. A timer for a *time* (of users, and of windows)
follows the machine's clock, which may be changed:

- If the clock is set forward, processing time goes forward with it. A timer notices that within
  ``LOOK_AGAIN_S``.
- If the clock is set back, processing time neither goes back nor stands still. It runs at nine
  tenths of its pace until the clock has caught up. Timers therefore still fire, and windows close,
  in order. After a step of an hour, a window of a minute takes 67 s for the next ten hours.

Flink reads the clock as it is. After a step back, the next timer of each operator keeps the delay
that it was scheduled with. All later timers are scheduled after it, so they wait until the clock
has caught up, and windows of the past open a second time.
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
"""Interval after which a timer reads the clock again.

The machine may have slept, or its clock may have been set forward.
"""

_NS = 1_000_000


def wall_clock_ms() -> int:
    """Return milliseconds since 1970 by the machine's clock."""
    return machine.wall_time_ns() // _NS


def _steady_ms() -> int:
    """Return milliseconds of the monotonic clock."""
    return machine.monotonic_ns() // _NS


class ProcessingClock:
    """The time of day, which never goes back or stands still for any thread; threads share it."""

    def __init__(
        self,
        wall_ns: Callable[[], int] = machine.wall_time_ns,
        steady_ns: Callable[[], int] = machine.monotonic_ns,
    ) -> None:
        """Create a clock from a wall clock, which may be set, and a monotonic clock.

        A step back is noticed by the next call of ``now_ms``, so call it every second.
        """
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._latest_ns = wall_ns()
        self._behind_since_ns: int | None = None
        """The monotonic time of ``_latest_ns``; None unless the wall clock is behind it."""
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
"""The clock of all subtasks of this process."""


class ScheduledTimer:
    """A timer that was set."""

    __slots__ = ("callback", "cancelled", "handle", "passed_ms", "timestamp_ms")

    def __init__(
        self, timestamp_ms: int, callback: Callable[[int], Any], passed_ms: Callable[[], int]
    ) -> None:
        """Create a timer; ``passed_ms`` returns the last passed millisecond of its clock."""
        self.timestamp_ms = timestamp_ms
        self.callback = callback
        self.passed_ms = passed_ms
        self.cancelled = False
        self.handle: asyncio.TimerHandle | None = None


class ProcessingTimeService:
    """The timers of one subtask; ``post`` schedules a call between two batches."""

    def __init__(
        self,
        post: Callable[[Callable[[], Any]], None],
        clock_ms: Callable[[], int] = PROCESSING_CLOCK.now_ms,
        steady_ms: Callable[[], int] = _steady_ms,
    ) -> None:
        self.post = post
        """Schedules a function or coroutine function between two batches.

        Nothing is called once the subtask has stopped.
        """
        self._clock_ms = clock_ms
        self._steady_ms = steady_ms
        self._timers: set[ScheduledTimer] = set()
        self._is_closed = False

    def get_current_processing_time(self) -> int:
        """Return milliseconds since 1970; the module describes changes of the clock."""
        return self._clock_ms()

    def get_passed_time(self) -> int:
        """Return the last millisecond that has passed: timers up to this time are due."""
        return self._clock_ms() - 1

    def get_relative_time(self) -> int:
        """Return milliseconds of the monotonic clock, to measure durations."""
        return self._steady_ms()

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], Any]) -> ScheduledTimer:
        """Call a function or coroutine function once the millisecond ``timestamp_ms`` has passed.

        The argument of the call is ``timestamp_ms``.
        """
        return self._register(ScheduledTimer(timestamp_ms, callback, self.get_passed_time))

    def register_delay(self, delay_ms: int, callback: Callable[[int], Any]) -> ScheduledTimer:
        """Call a function or coroutine function after ``delay_ms``.

        The argument of the call is the due time by the monotonic clock.
        """
        due_ms = self._steady_ms() + delay_ms
        return self._register(ScheduledTimer(due_ms, callback, self._steady_ms))

    def cancel(self, timer: ScheduledTimer) -> None:
        """Cancel a timer that has not fired; idempotent."""
        timer.cancelled = True
        self._timers.discard(timer)
        soon_on_loop(self._unset, timer)

    def close(self) -> None:
        """Cancel all timers, including those with a call in the mailbox."""
        self._is_closed = True
        for timer in list(self._timers):
            self.cancel(timer)

    def _register(self, timer: ScheduledTimer) -> ScheduledTimer:
        self._timers.add(timer)
        soon_on_loop(self._set, timer)
        return timer

    # The following methods run on the loop, where the handles of timers belong.

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
        if timer.passed_ms() < timer.timestamp_ms:  # LOOK_AGAIN_S is over, or the clock is slow
            self._set(timer)
            return
        self._timers.discard(timer)
        # The function may cancel the timer until the mailbox makes the call.
        self.post(lambda: self._call(timer))

    def _call(self, timer: ScheduledTimer) -> Any:
        if timer.cancelled or self._is_closed:
            return None
        return timer.callback(timer.timestamp_ms)
