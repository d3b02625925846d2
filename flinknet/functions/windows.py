"""Windows, and which of them a record belongs to (Flink's WindowAssigner and its kinds).

A window is the time from ``start`` to before ``end``, in milliseconds, or, the global one, all of
it. Session windows *merge*: each record opens a window up to the gap behind it, and windows that
touch become one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from flinknet.compatibility.subscripted import Subscripted
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
    """The time from ``start`` to before ``end``."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """Return the last millisecond that belongs to it."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether they overlap, or one begins where the other ends."""
        return self.start <= other.end and other.start <= self.end

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))


class GlobalWindow(NamedTuple):
    """The one window that holds everything."""

    def max_timestamp(self) -> int:
        """Return the end of time."""
        return MAX_WATERMARK


class CountWindow(NamedTuple):
    """One of the windows of so many records into which ``count_window`` cuts those of a key."""

    id: int
    """The number of windows of the key that came before it."""

    def max_timestamp(self) -> int:
        """Return the end of time."""
        return MAX_WATERMARK


Window = TimeWindow | GlobalWindow | CountWindow


def span_ms(name: str, span: Time | Duration | int) -> int:
    """Return a span in milliseconds; ConfigurationError for anything else."""
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


class WindowAssigner(Subscripted, ABC):
    """Says which windows a record belongs to."""

    is_event_time = True
    """Whether it goes by the records' timestamps; else by the clock."""
    counts = False
    """Whether functions are given a CountWindow, which numbers the firings of a key's window."""
    merges = False
    """Whether windows of one key that touch become one."""

    @abstractmethod
    def assign_windows(self, element: Any, timestamp_ms: int) -> list[Window]:
        """Return the windows of a record with this timestamp, or that is processed at this time."""

    def get_default_trigger(self) -> Trigger:
        """Return when the windows speak if the program does not say so."""
        return EventTimeTrigger() if self.is_event_time else ProcessingTimeTrigger()


class _TumblingWindows(WindowAssigner):
    def __init__(self, size: Time, offset: Time | None = None) -> None:
        self._size_ms = _positive_ms("the size of windows", size)
        self._offset_ms = 0 if offset is None else span_ms("the offset of windows", offset)

    def assign_windows(self, element: Any, timestamp_ms: int) -> list[Window]:
        start = timestamp_ms - (timestamp_ms - self._offset_ms) % self._size_ms
        return [TimeWindow(start, start + self._size_ms)]


class TumblingEventTimeWindows(_TumblingWindows):
    """Windows of one size, one behind the other."""

    @classmethod
    def of(cls, size: Time, offset: Time | None = None) -> TumblingEventTimeWindows:
        """Return windows that begin at multiples of ``size``, plus ``offset``."""
        return cls(size, offset)


class TumblingProcessingTimeWindows(_TumblingWindows):
    """The same by the clock."""

    is_event_time = False

    @classmethod
    def of(cls, size: Time, offset: Time | None = None) -> TumblingProcessingTimeWindows:
        """Return windows that begin at multiples of ``size``, plus ``offset``."""
        return cls(size, offset)


class _SlidingWindows(WindowAssigner):
    def __init__(self, size: Time, slide: Time, offset: Time | None = None) -> None:
        self._size_ms = _positive_ms("the size of windows", size)
        self._slide_ms = _positive_ms("the slide of windows", slide)
        self._offset_ms = 0 if offset is None else span_ms("the offset of windows", offset)

    def assign_windows(self, element: Any, timestamp_ms: int) -> list[Window]:
        last = timestamp_ms - (timestamp_ms - self._offset_ms) % self._slide_ms
        starts = range(last, timestamp_ms - self._size_ms, -self._slide_ms)
        return [TimeWindow(start, start + self._size_ms) for start in starts]


class SlidingEventTimeWindows(_SlidingWindows):
    """Windows of one size, one every ``slide``; they overlap if that is less."""

    @classmethod
    def of(cls, size: Time, slide: Time, offset: Time | None = None) -> SlidingEventTimeWindows:
        """Return windows that begin at multiples of ``slide``, plus ``offset``."""
        return cls(size, slide, offset)


class SlidingProcessingTimeWindows(_SlidingWindows):
    """The same by the clock."""

    is_event_time = False

    @classmethod
    def of(
        cls, size: Time, slide: Time, offset: Time | None = None
    ) -> SlidingProcessingTimeWindows:
        """Return windows that begin at multiples of ``slide``, plus ``offset``."""
        return cls(size, slide, offset)


class SessionWindowTimeGapExtractor(ABC):
    """Says after which gap behind a record its session ends."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap in milliseconds, greater than 0."""


class _SessionWindows(WindowAssigner):
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
    """What comes with less than a gap between two records of a key."""

    @classmethod
    def with_gap(cls, size: Time) -> EventTimeSessionWindows:
        """Return sessions with one gap."""
        return cls(size)

    @classmethod
    def with_dynamic_gap(
        cls, extractor: Callable[[Any], int] | SessionWindowTimeGapExtractor
    ) -> EventTimeSessionWindows:
        """Return sessions whose gap a function says of each record, in milliseconds."""
        return cls(extractor)


class ProcessingTimeSessionWindows(_SessionWindows):
    """The same by the clock."""

    is_event_time = False

    @classmethod
    def with_gap(cls, size: Time) -> ProcessingTimeSessionWindows:
        """Return sessions with one gap."""
        return cls(size)

    @classmethod
    def with_dynamic_gap(
        cls, extractor: Callable[[Any], int] | SessionWindowTimeGapExtractor
    ) -> ProcessingTimeSessionWindows:
        """Return sessions whose gap a function says of each record, in milliseconds."""
        return cls(extractor)


class GlobalWindows(WindowAssigner):
    """One window for everything; it speaks when a trigger of the program's says so."""

    is_event_time = False

    @classmethod
    def create(cls) -> GlobalWindows:
        """Return them."""
        return cls()

    def assign_windows(self, element: Any, timestamp_ms: int) -> list[Window]:
        return [GlobalWindow()]

    def get_default_trigger(self) -> Trigger:
        return NeverTrigger()


class CountWindows(GlobalWindows):
    """One window for everything, each of whose firings is a window to the program's functions."""

    counts = True
