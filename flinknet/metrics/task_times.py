"""Task times: how much of a task's time is idle, backpressured and busy.

Theory of operation (Flink's TaskIOMetricGroup over TimerGauge). A task is in one state at a time,
which follows from what its readers and writers wait for:

- *hard backpressured*: somebody waits in the middle of a record;
- *soft backpressured*: otherwise, somebody waits before beginning one;
- *idle*: otherwise, somebody waits for data, or for the consumers of an output that has ended;
- *busy*: otherwise. That includes the time in which other tasks have the event loop.

So no time counts twice, however many readers and writers share an account, and the states add up
to the time that has passed. ``now`` is given, in seconds, and never goes back; nothing has to be
called regularly, because intervals that have passed are made up for with the next call.

Owned counters: how many wait, for each reason and in all; seconds in each state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

from flinknet.buffer.availability import WaitReason

__all__ = ["BackpressureLevel", "TaskTimes", "TaskTimesStatistics", "TimerGauge"]

INTERVAL_S = 5.0
"""Flink's metrics are updated this often (View.UPDATE_INTERVAL_SECONDS)."""

INTERVALS = 12
"""Intervals that a rate is averaged over: a minute (TimerGauge.DEFAULT_TIME_SPAN_IN_SECONDS)."""

_BY_WEIGHT = (WaitReason.HARD_BACKPRESSURE, WaitReason.SOFT_BACKPRESSURE, WaitReason.IDLE)

LOW_MS_PER_SECOND = 100.0
"""Up to which backpressure is OK, for Flink."""

HIGH_MS_PER_SECOND = 500.0
"""Up to which it is low."""


class BackpressureLevel(Enum):
    """Backpressure in one word, as Flink's web UI says it."""

    OK = "at most 10 % of the time"
    LOW = "at most 50 % of the time"
    HIGH = "more than 50 % of the time"

    @classmethod
    def of(cls, ms_per_second: float) -> BackpressureLevel:
        """By the time that a task was backpressured."""
        if ms_per_second <= LOW_MS_PER_SECOND:
            return cls.OK
        return cls.LOW if ms_per_second <= HIGH_MS_PER_SECOND else cls.HIGH


class TimerGauge:
    """Measures marked spans of time: their share of the last minute, the longest, their sum."""

    __slots__ = (
        "_counted_until",
        "_interval_start",
        "_intervals",
        "_longest",
        "_longest_before",
        "_marked",
        "_started",
        "_total",
    )

    def __init__(self, now: float) -> None:
        self._interval_start = now
        self._intervals: deque[float] = deque(maxlen=INTERVALS)
        self._marked = 0.0
        self._total = 0.0
        self._longest = 0.0
        self._longest_before = 0.0
        self._started: float | None = None
        self._counted_until = now

    def mark_start(self, now: float) -> None:
        """A span begins, unless one is running."""
        if self._started is None:
            if now - self._interval_start >= INTERVAL_S:
                self._close_intervals(now)
            self._started = self._counted_until = now

    def mark_end(self, now: float) -> None:
        """The running span ends; harmless if there is none."""
        self._update(now)
        self._started = None

    def ms_per_second(self, now: float) -> float:
        """Milliseconds marked in each second, over up to 12 whole intervals and the present one.

        A running span counts.
        """
        self._update(now)
        seconds = len(self._intervals) * INTERVAL_S + now - self._interval_start
        return 1000 * (sum(self._intervals) + self._marked) / seconds if seconds else 0.0

    def longest_ms(self, now: float) -> float:
        """The longest span of the present interval and of the one before."""
        self._update(now)
        return 1000 * max(self._longest, self._longest_before)

    def total_ms(self, now: float) -> float:
        """All that was ever marked."""
        self._update(now)
        return 1000 * self._total

    def _update(self, now: float) -> None:
        if now - self._interval_start >= INTERVAL_S:
            self._close_intervals(now)
        self._count(now)

    def _close_intervals(self, now: float) -> None:
        """Close the intervals that have passed, of long ago only as many as can be seen."""
        passed = int((now - self._interval_start) // INTERVAL_S)
        self._interval_start += max(0, passed - INTERVALS - 1) * INTERVAL_S
        while now - self._interval_start >= INTERVAL_S:
            self._interval_start += INTERVAL_S
            self._count(self._interval_start)
            self._intervals.append(self._marked)
            self._longest_before, self._longest, self._marked = self._longest, 0.0, 0.0

    def _count(self, now: float) -> None:
        if self._started is not None:
            passed = now - self._counted_until
            self._marked += passed
            self._total += passed
            self._counted_until = now
            if now - self._started > self._longest:
                self._longest = now - self._started


class TaskTimesStatistics(NamedTuple):
    """Where a task's time goes: per second of the last minute, and in milliseconds since its
    start."""

    name: str
    idle_time_ms_per_second: float
    soft_backpressured_time_ms_per_second: float
    hard_backpressured_time_ms_per_second: float
    max_soft_backpressured_time_ms: float
    """Longest stretch of the last 5 to 10 seconds."""
    max_hard_backpressured_time_ms: float
    accumulated_idle_time_ms: float
    accumulated_busy_time_ms: float
    accumulated_backpressured_time_ms: float
    is_backpressured: bool
    """At this moment."""

    @property
    def backpressured_time_ms_per_second(self) -> float:
        """Soft and hard together."""
        return (
            self.soft_backpressured_time_ms_per_second + self.hard_backpressured_time_ms_per_second
        )

    @property
    def busy_time_ms_per_second(self) -> float:
        """The rest of each second."""
        waiting = self.idle_time_ms_per_second + self.backpressured_time_ms_per_second
        return max(0.0, 1000.0 - waiting)

    @property
    def backpressure_level(self) -> BackpressureLevel:
        """OK, LOW or HIGH."""
        return BackpressureLevel.of(self.backpressured_time_ms_per_second)


class TaskTimes:
    """The time account of one task, whose readers and writers report when they wait.

    ``name`` is for people: a subtask's, or a partition's or gate's that is used by itself. For a
    writer by itself, all time in which it does not wait is busy: what the program does between two
    records is unknown here.
    """

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self._begun = now
        self._waits = dict.fromkeys(WaitReason, 0)
        self._gauges = {reason: TimerGauge(now) for reason in WaitReason}
        self._waiting = 0
        self._state: WaitReason | None = None

    def begin_wait(self, reason: WaitReason, now: float) -> None:
        """Somebody begins to wait."""
        self._waits[reason] += 1
        self._waiting += 1
        if self._waiting == 1:
            self._state = reason
            self._gauges[reason].mark_start(now)
        else:
            self._switch(now)

    def end_wait(self, reason: WaitReason, now: float) -> None:
        """Somebody has waited."""
        self._waits[reason] -= 1
        self._waiting -= 1
        if not self._waiting:
            self._state = None
            self._gauges[reason].mark_end(now)
        else:
            self._switch(now)

    @contextmanager
    def waiting(self, reason: WaitReason, clock: Callable[[], float]) -> Iterator[None]:
        """Count the time of the block as a wait."""
        self.begin_wait(reason, clock())
        try:
            yield
        finally:
            self.end_wait(reason, clock())

    def accumulated_ms(self, now: float) -> tuple[float, float, float]:
        """Idle, busy and backpressured time up to now."""
        idle_ms = self._gauges[WaitReason.IDLE].total_ms(now)
        soft, hard = WaitReason.SOFT_BACKPRESSURE, WaitReason.HARD_BACKPRESSURE
        backpressured_ms = self._gauges[soft].total_ms(now) + self._gauges[hard].total_ms(now)
        busy_ms = max(0.0, 1000 * (now - self._begun) - idle_ms - backpressured_ms)
        return idle_ms, busy_ms, backpressured_ms

    def statistics(self, now: float) -> TaskTimesStatistics:
        """Return the times up to now."""
        idle = self._gauges[WaitReason.IDLE]
        soft = self._gauges[WaitReason.SOFT_BACKPRESSURE]
        hard = self._gauges[WaitReason.HARD_BACKPRESSURE]
        idle_ms, busy_ms, backpressured_ms = self.accumulated_ms(now)
        return TaskTimesStatistics(
            name=self.name,
            idle_time_ms_per_second=idle.ms_per_second(now),
            soft_backpressured_time_ms_per_second=soft.ms_per_second(now),
            hard_backpressured_time_ms_per_second=hard.ms_per_second(now),
            max_soft_backpressured_time_ms=soft.longest_ms(now),
            max_hard_backpressured_time_ms=hard.longest_ms(now),
            accumulated_idle_time_ms=idle_ms,
            accumulated_busy_time_ms=busy_ms,
            accumulated_backpressured_time_ms=backpressured_ms,
            is_backpressured=self._state is not None and self._state is not WaitReason.IDLE,
        )

    def _switch(self, now: float) -> None:
        """Let the weightiest reason count, of those for which somebody waits before and after."""
        state = next(reason for reason in _BY_WEIGHT if self._waits[reason])
        if state is not self._state:
            assert self._state is not None
            self._gauges[self._state].mark_end(now)
            self._gauges[state].mark_start(now)
            self._state = state
