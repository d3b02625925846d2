"""Windows, and the assignment of records to them (Flink's WindowAssigner and its kinds).

A time window covers the time from ``start`` up to but not including ``end``, in milliseconds. The
global window covers all time. Session windows *merge*: each record opens a window that lasts for
the gap after it, and windows that touch are merged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from flinknet.compatibility.subscripted import Subscripted, T, W
from flinknet.errors import ConfigurationError
from flinknet.functions.durations import Duration, Time
from flinknet.functions.triggers import (
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
)
from flinknet.wire.events import MAX_WATERMARK

__all__ = [
    "CountWindow",
    "CountWindows",
    "EventTimeSessionWindows",
    "GlobalWindow",
    "GlobalWindows",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeWindow",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "span_ms",
]


class TimeWindow(NamedTuple):
    """The time from ``start`` up to but not including ``end``."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """Return the last millisecond that belongs to the window."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether the windows overlap, or one begins where the other ends."""
        return self.start <= other.end and other.start <= self.end

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that covers both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))


class GlobalWindow(NamedTuple):
    """The single window that covers all records."""

    def max_timestamp(self) -> int:
        """Return the largest timestamp."""
        return MAX_WATERMARK


class CountWindow(NamedTuple):
    """A window of a fixed number of records of one key, made by ``count_window``."""

    id: int
    """The number of earlier windows of the key."""

    def max_timestamp(self) -> int:
        """Return the largest timestamp."""
        return MAX_WATERMARK


Window = TimeWindow | GlobalWindow | CountWindow


def span_ms(name: str, span: Time | Duration | int) -> int:
    """Return a span in milliseconds; ConfigurationError if it is not a span."""
    if isinstance(span, Time | Duration):
        return span.milliseconds_count
    if isinstance(span, bool) or not isinstance(span, int):
        raise ConfigurationError(f"{name} is {span!r}: choose a Time")
    return span


def _positive_ms(name: str, span: Time | Duration | int) -> int:
    milliseconds = span_ms(name, span)
    if milliseconds <= 0:
        raise ConfigurationError(f"{name} is {milliseconds} ms: choose more than 0")
    return milliseconds


class WindowAssigner(Subscripted[T, W], ABC):
    """Base of the window assigners, which assign windows to records."""

    is_event_time = True
    """Whether windows use the records' timestamps; otherwise they use processing time."""
    counts = False
    """Whether functions receive a CountWindow, which numbers the firings of a key's window."""
    merges = False
    """Whether windows of one key that touch are merged."""

    @abstractmethod
    def assign_windows(self, element: T, timestamp_ms: int) -> list[Window]:
        """Return the windows of a record with this timestamp.

        For windows by processing time, ``timestamp_ms`` is the current processing time.
        """

    def get_default_trigger(self) -> Trigger:
        """Return the trigger that is used if the program sets none."""
        return EventTimeTrigger() if self.is_event_time else ProcessingTimeTrigger()


class _TumblingWindows(WindowAssigner[Any, TimeWindow]):
    def __init__(self, size: Time, offset: Time | None = None) -> None:
        self._size_ms = _positive_ms("the size of windows", size)
        self._offset_ms = 0 if offset is None else span_ms("the offset of windows", offset)

    def assign_windows(self, element: Any, timestamp_ms: int) -> list[Window]:
        # Python's remainder is never negative, so this is right for times before 1970, too.
        start = timestamp_ms - (timestamp_ms - self._offset_ms) % self._size_ms
        return [TimeWindow(start, start + self._size_ms)]


class TumblingEventTimeWindows(_TumblingWindows):
    """Consecutive windows of one size, by event time."""

    @classmethod
    def of(cls, size: Time, offset: Time | None = None) -> TumblingEventTimeWindows:
        """Return windows that begin at multiples of ``size``, plus ``offset``."""
        return cls(size, offset)


class TumblingProcessingTimeWindows(_TumblingWindows):
    """Consecutive windows of one size, by processing time."""

    is_event_time = False

    @classmethod
    def of(cls, size: Time, offset: Time | None = None) -> TumblingProcessingTimeWindows:
        """Return windows that begin at multiples of ``size``, plus ``offset``."""
        return cls(size, offset)


class _SlidingWindows(WindowAssigner[Any, TimeWindow]):
    def __init__(self, size: Time, slide: Time, offset: Time | None = None) -> None:
        self._size_ms = _positive_ms("the size of windows", size)
        self._slide_ms = _positive_ms("the slide of windows", slide)
        self._offset_ms = 0 if offset is None else span_ms("the offset of windows", offset)

    def assign_windows(self, element: Any, timestamp_ms: int) -> list[Window]:
        last = timestamp_ms - (timestamp_ms - self._offset_ms) % self._slide_ms
        # A window that begins at ``timestamp_ms - size`` ends just before the record.
        starts = range(last, timestamp_ms - self._size_ms, -self._slide_ms)
        return [TimeWindow(start, start + self._size_ms) for start in starts]


class SlidingEventTimeWindows(_SlidingWindows):
    """Windows of one size that begin every ``slide``, by event time.

    They overlap if ``slide`` is less than the size.
    """

    @classmethod
    def of(cls, size: Time, slide: Time, offset: Time | None = None) -> SlidingEventTimeWindows:
        """Return windows that begin at multiples of ``slide``, plus ``offset``."""
        return cls(size, slide, offset)


class SlidingProcessingTimeWindows(_SlidingWindows):
    """Windows of one size that begin every ``slide``, by processing time."""

    is_event_time = False

    @classmethod
    def of(
        cls, size: Time, slide: Time, offset: Time | None = None
    ) -> SlidingProcessingTimeWindows:
        """Return windows that begin at multiples of ``slide``, plus ``offset``."""
        return cls(size, slide, offset)


class SessionWindowTimeGapExtractor(ABC):
    """A function that returns the gap after a record that ends its session."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap in milliseconds, greater than 0."""


class _SessionWindows(WindowAssigner[Any, TimeWindow]):
    merges = True

    def __init__(self, gap: Time | Callable[[Any], int] | SessionWindowTimeGapExtractor) -> None:
        self._gap: int | Callable[[Any], int]
        if isinstance(gap, SessionWindowTimeGapExtractor):
            self._gap = gap.extract
        else:
            self._gap = gap if callable(gap) else _positive_ms("the gap of sessions", gap)

    def assign_windows(self, element: Any, timestamp_ms: int) -> list[Window]:
        gap = self._gap
        gap_ms = gap if isinstance(gap, int) else _positive_ms("the gap of a session", gap(element))
        return [TimeWindow(timestamp_ms, timestamp_ms + gap_ms)]


class EventTimeSessionWindows(_SessionWindows):
    """Sessions: records of a key with gaps below a limit between them, by event time."""

    @classmethod
    def with_gap(cls, size: Time) -> EventTimeSessionWindows:
        """Return sessions with a constant gap."""
        return cls(size)

    @classmethod
    def with_dynamic_gap(
        cls, extractor: Callable[[Any], int] | SessionWindowTimeGapExtractor
    ) -> EventTimeSessionWindows:
        """Return sessions with a gap that a function computes for each record, in milliseconds."""
        return cls(extractor)


class ProcessingTimeSessionWindows(_SessionWindows):
    """Sessions: records of a key with gaps below a limit between them, by processing time."""

    is_event_time = False

    @classmethod
    def with_gap(cls, size: Time) -> ProcessingTimeSessionWindows:
        """Return sessions with a constant gap."""
        return cls(size)

    @classmethod
    def with_dynamic_gap(
        cls, extractor: Callable[[Any], int] | SessionWindowTimeGapExtractor
    ) -> ProcessingTimeSessionWindows:
        """Return sessions with a gap that a function computes for each record, in milliseconds."""
        return cls(extractor)


class _OneWindow(WindowAssigner[Any, W]):
    is_event_time = False

    def assign_windows(self, element: Any, timestamp_ms: int) -> list[Window]:
        return [GlobalWindow()]

    def get_default_trigger(self) -> Trigger:
        return NeverTrigger()


class GlobalWindows(_OneWindow[GlobalWindow]):
    """One window for all records; it fires only if the program sets a trigger."""

    @classmethod
    def create(cls) -> GlobalWindows:
        """Return the window assigner."""
        return cls()


class CountWindows(_OneWindow[CountWindow]):
    """One window for all records; functions see each firing as a window of its own."""

    counts = True
