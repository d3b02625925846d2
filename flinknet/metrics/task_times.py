"""Task times: idle, backpressured and busy time of a task.

The model is Flink's TaskIOMetricGroup over TimerGauge. A task is in one state at a time, which
follows from the waits of its readers and writers:

- *hard backpressured*: a reader or writer waits in the middle of a record;
- *soft backpressured*: otherwise, a reader or writer waits before it begins a record;
- *idle*: otherwise, a reader waits for data, or a writer for the consumers of an output that has
  ended;
- *busy*: otherwise. This includes the time in which other tasks have the event loop.

No time counts twice, however many readers and writers share an account, and the states add up to
the elapsed time. ``now`` is a monotonic time in seconds. No method has to be called regularly,
because the next call makes up for intervals that have passed.

Owned counters: number of waits, for each reason and in total; seconds in each state.
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
"""Update interval of Flink's metrics (View.UPDATE_INTERVAL_SECONDS)."""

INTERVALS = 12
"""Number of intervals in a rate: a minute (TimerGauge.DEFAULT_TIME_SPAN_IN_SECONDS)."""

_BY_WEIGHT = (WaitReason.HARD_BACKPRESSURE, WaitReason.SOFT_BACKPRESSURE, WaitReason.IDLE)

LOW_MS_PER_SECOND = 100.0
"""Upper limit of the backpressure that Flink calls OK."""

HIGH_MS_PER_SECOND = 500.0
"""Upper limit of the backpressure that Flink calls low."""


class BackpressureLevel(Enum):
    """The level of backpressure, as Flink's web UI shows it."""

    OK = "at most 10 % of the time"
    LOW = "at most 50 % of the time"
    HIGH = "more than 50 % of the time"

    @classmethod
    def of(cls, ms_per_second: float) -> BackpressureLevel:
        """Return the level for a task's backpressured time."""
        if ms_per_second <= LOW_MS_PER_SECOND:
            return cls.OK
        return cls.LOW if ms_per_second <= HIGH_MS_PER_SECOND else cls.HIGH


class TimerGauge:
    """Measures marked spans: their share of the last minute, the longest one, and their sum."""

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
        """Begin a span, unless one is running."""
        if self._started is None:
            if now - self._interval_start >= INTERVAL_S:
                self._close_intervals(now)
            self._started = self._counted_until = now

    def mark_end(self, now: float) -> None:
        """End the running span, if there is one."""
        self._update(now)
        self._started = None

    def ms_per_second(self, now: float) -> float:
        """Return the marked milliseconds per second, with a running span.

        The rate covers up to 12 whole intervals and the present one.
        """
        self._update(now)
        seconds = len(self._intervals) * INTERVAL_S + now - self._interval_start
        return 1000 * (sum(self._intervals) + self._marked) / seconds if seconds else 0.0

    def longest_ms(self, now: float) -> float:
        """Return the longest span of the present interval and the previous one."""
        self._update(now)
        return 1000 * max(self._longest, self._longest_before)

    def total_ms(self, now: float) -> float:
        """Return the sum of all marked spans."""
        self._update(now)
        return 1000 * self._total

    def _update(self, now: float) -> None:
        if now - self._interval_start >= INTERVAL_S:
            self._close_intervals(now)
        self._count(now)

    def _close_intervals(self, now: float) -> None:
        """Close the intervals that have passed, and skip those that are too old to be visible."""
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
    """A task's times: per second of the last minute, and in milliseconds since its start."""

    name: str
    idle_time_ms_per_second: float
    soft_backpressured_time_ms_per_second: float
    hard_backpressured_time_ms_per_second: float
    max_soft_backpressured_time_ms: float
    """Longest span of the last 5 to 10 seconds."""
    max_hard_backpressured_time_ms: float
    accumulated_idle_time_ms: float
    accumulated_busy_time_ms: float
    accumulated_backpressured_time_ms: float
    is_backpressured: bool
    """Whether the task is backpressured at this moment."""

    @property
    def backpressured_time_ms_per_second(self) -> float:
        """Soft and hard backpressured time together."""
        return (
            self.soft_backpressured_time_ms_per_second + self.hard_backpressured_time_ms_per_second
        )

    @property
    def busy_time_ms_per_second(self) -> float:
        """The remaining part of each second."""
        waiting = self.idle_time_ms_per_second + self.backpressured_time_ms_per_second
        return max(0.0, 1000.0 - waiting)

    @property
    def backpressure_level(self) -> BackpressureLevel:
        """OK, LOW or HIGH."""
        return BackpressureLevel.of(self.backpressured_time_ms_per_second)


class TaskTimes:
    """The time account of one task, to which its readers and writers report their waits.

    ``name`` is for display: the name of a subtask, or of a partition or gate without a task. For a
    writer without a task, all time without waits is busy, because the program's activity between
    two records is unknown.
    """

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self._begun = now
        self._waits = dict.fromkeys(WaitReason, 0)
        self._gauges = {reason: TimerGauge(now) for reason in WaitReason}
        self._waiting = 0
        self._state: WaitReason | None = None

    def begin_wait(self, reason: WaitReason, now: float) -> None:
        """Begin a wait of a reader or writer."""
        self._waits[reason] += 1
        self._waiting += 1
        # A single wait is the usual case, and needs no search for the weightiest reason.
        if self._waiting == 1:
            self._state = reason
            self._gauges[reason].mark_start(now)
        else:
            self._switch(now)

    def end_wait(self, reason: WaitReason, now: float) -> None:
        """End a wait of a reader or writer."""
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
        """Return the idle, busy and backpressured time up to now."""
        idle_ms = self._gauges[WaitReason.IDLE].total_ms(now)
        soft, hard = WaitReason.SOFT_BACKPRESSURE, WaitReason.HARD_BACKPRESSURE
        backpressured_ms = self._gauges[soft].total_ms(now) + self._gauges[hard].total_ms(now)
        busy_ms = max(0.0, 1000 * (now - self._begun) - idle_ms - backpressured_ms)
        return idle_ms, busy_ms, backpressured_ms

    def statistics(self, now: float) -> TaskTimesStatistics:
        """Return the statistics up to now."""
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
        """Switch to the state of the weightiest reason among the present waits."""
        state = next(reason for reason in _BY_WEIGHT if self._waits[reason])
        if state is not self._state:
            assert self._state is not None
            self._gauges[self._state].mark_end(now)
            self._gauges[state].mark_start(now)
            self._state = state
