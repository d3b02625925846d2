"""What a keyed function asks for timers, and who has them fire (Flink's InternalTimerService).

Theory of operation. Timers are of the key in progress. Event-time timers fire when whoever knows
the watermark calls ``advance_watermark`` of the operator; processing-time timers when the subtask's
clock says so: of all of them the earliest is set there, and the clock calls back between two
batches (``processing_time.py``). At the end of the input event time has come to its end, and
processing time has not: what was to fire later does not fire.
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
    """Raise TypeError or ValueError, where a timer is asked for, unless that is a time: whole
    milliseconds, in 64 bits as in Flink. One that is none could be compared with no other."""
    if type(timestamp) is not int:
        raise TypeError(
            f"the time of a timer is {timestamp!r:.100}, a {type(timestamp).__name__}: give whole "
            "milliseconds since 1970, an int"
        )
    if not MIN_WATERMARK <= timestamp <= MAX_WATERMARK:
        raise ValueError(
            f"the time of a timer is {timestamp!r:.100}, which is not in 64 bits: give whole "
            "milliseconds since 1970"
        )


class TimeDomain(Enum):
    """By which time a timer fires."""

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


class TimeContext(KeyContext, Protocol):
    """Who knows the key in progress, and how far event time has come."""

    current_watermark: int


class Timers:
    """The timers of one operator in one subtask; ``fire`` is called, between two batches, when the
    first is due by processing time."""

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
        """Return those of one domain."""
        return self.event_time if domain is TimeDomain.EVENT_TIME else self.processing_time

    def set_clock(self) -> None:
        """Have the clock call back for the earliest timer."""
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
        """Let nothing fire by processing time any more; idempotent."""
        self._closed = True
        if self._set is not None:
            self.clock.cancel(self._set)
        self._set = None

    def _called(self, timestamp_ms: int) -> Any:
        self._set = self._set_for = None
        return None if self._closed else self._fire()


class TimerService:
    """PyFlink's TimerService, for the key in progress. Times are milliseconds since 1970, of type
    int: anything else is refused."""

    __slots__ = ("_context", "_timers")

    def __init__(self, timers: Timers, context: TimeContext) -> None:
        self._timers = timers
        self._context = context

    def current_processing_time(self) -> int:
        """Return the time of the subtask's clock."""
        return self._timers.clock.get_current_processing_time()

    def current_watermark(self) -> int:
        """Return how far event time has come; the least there is if nothing is known."""
        return self._context.current_watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Have ``on_timer`` called when the watermark comes to ``timestamp``, once."""
        check_time(timestamp)
        self._timers.event_time.register(timestamp, self._context.current_key)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have ``on_timer`` called when the millisecond ``timestamp`` has passed, once."""
        check_time(timestamp)
        self._timers.processing_time.register(timestamp, self._context.current_key)
        self._timers.set_clock()

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Have it not called; nothing happens if there is no such timer."""
        check_time(timestamp)
        self._timers.event_time.delete(timestamp, self._context.current_key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Have it not called; nothing happens if there is no such timer."""
        check_time(timestamp)
        self._timers.processing_time.delete(timestamp, self._context.current_key)
        self._timers.set_clock()
