"""Timer service of a keyed function (Flink's InternalTimerService).

Theory of operation. Timers belong to the key in progress. Event-time timers fire when the watermark
advances, by a call of the operator's ``advance_watermark``. Processing-time timers fire by the
subtask's clock: the earliest of them is set there, and the clock calls back between two batches
(``processing_time.py``). At the end of the input event time ends, so all event-time timers fire.
Processing time does not end, so processing-time timers that are not due then never fire.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from flinknet.environment.processing_time import ProcessingTimeService, ScheduledTimer
from flinknet.state.descriptors import StateKind
from flinknet.state.keyed_access import KeyContext
from flinknet.state.keyed_state import KeyedState
from flinknet.state.timer_queue import TimerQueue
from flinknet.wire.events import MAX_WATERMARK, MIN_WATERMARK

__all__ = ["TimeContext", "TimeDomain", "TimerService", "Timers", "check_time"]


def check_time(timestamp: int) -> None:
    """Raise TypeError or ValueError unless a timer's time is a 64-bit integer of milliseconds.

    The width is Flink's. The check is made when the timer is requested, because any other value
    could not be compared with other times.
    """
    if type(timestamp) is not int:
        raise TypeError(
            f"the time of a timer is {timestamp!r:.100}, a {type(timestamp).__name__}: give whole "
            "milliseconds since 1970, an int"
        )
    if not MIN_WATERMARK <= timestamp <= MAX_WATERMARK:
        raise ValueError(
            f"the time of a timer is {timestamp!r:.100}, which does not fit 64 bits: give whole "
            "milliseconds since 1970"
        )


class TimeDomain(Enum):
    """The time by which a timer fires."""

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


class TimeContext(KeyContext, Protocol):
    """Source of the key in progress and of the current watermark."""

    current_watermark: int


class Timers:
    """The timers of one operator in one subtask.

    ``fire`` is called, between two batches, when the first timer is due by processing time.
    """

    def __init__(
        self, state: KeyedState, clock: ProcessingTimeService, fire: Callable[[], Any]
    ) -> None:
        self.event_time = TimerQueue(state.table("_timers/event_time", StateKind.TIMERS))
        self.processing_time = TimerQueue(state.table("_timers/processing_time", StateKind.TIMERS))
        self.clock = clock
        self._fire = fire
        self._set_for: int | None = None
        self._set: ScheduledTimer | None = None
        self._closed = False

    def of(self, domain: TimeDomain) -> TimerQueue:
        """Return the timers of one domain."""
        return self.event_time if domain is TimeDomain.EVENT_TIME else self.processing_time

    def set_clock(self) -> None:
        """Set the clock for the earliest timer."""
        deadline_ms = self.processing_time.deadline_ms
        if self._closed or deadline_ms == self._set_for:
            return
        if self._set is not None:
            self.clock.cancel(self._set)
        self._set_for = deadline_ms
        self._set = (
            None if deadline_ms is None else self.clock.register_timer(deadline_ms, self._called)
        )

    def close(self) -> None:
        """Let no more timers fire by processing time; idempotent."""
        self._closed = True
        if self._set is not None:
            self.clock.cancel(self._set)
        self._set = None

    def _called(self, timestamp_ms: int) -> Any:
        self._set = self._set_for = None
        return None if self._closed else self._fire()


class TimerService:
    """PyFlink's TimerService, for the key in progress.

    Times are milliseconds since 1970, of type int; other values are refused.
    """

    __slots__ = ("_context", "_timers")

    def __init__(self, timers: Timers, context: TimeContext) -> None:
        self._timers = timers
        self._context = context

    def current_processing_time(self) -> int:
        """Return the time of the subtask's clock."""
        return self._timers.clock.get_current_processing_time()

    def current_watermark(self) -> int:
        """Return the current watermark; the minimum if none is known."""
        return self._context.current_watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` once, when the watermark reaches ``timestamp``."""
        check_time(timestamp)
        self._timers.event_time.register(timestamp, self._context.current_key)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` once, when the millisecond ``timestamp`` has passed."""
        check_time(timestamp)
        self._timers.processing_time.register(timestamp, self._context.current_key)
        self._timers.set_clock()

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete a timer; does nothing if it does not exist."""
        check_time(timestamp)
        self._timers.event_time.delete(timestamp, self._context.current_key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a timer; does nothing if it does not exist."""
        check_time(timestamp)
        self._timers.processing_time.delete(timestamp, self._context.current_key)
        self._timers.set_clock()
