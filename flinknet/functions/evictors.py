"""Evictors: removal of records from a window before or after its function runs (Flink's Evictor).

A window with an evictor keeps every record, even if the window reduces or aggregates. The reduction
runs when the window fires, on the records that the evictor left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from flinknet.errors import ConfigurationError
from flinknet.functions.durations import Time
from flinknet.functions.window_functions import ElementContents, WindowContents
from flinknet.functions.windows import Window, span_ms

__all__ = [
    "CountEvictor",
    "DeltaEvictor",
    "EvictingContents",
    "Evictor",
    "EvictorContext",
    "TimeEvictor",
    "TimestampedValue",
]


class TimestampedValue(NamedTuple):
    """A record of a window with its timestamp in milliseconds.

    The timestamp is None on a stream without timestamps.
    """

    timestamp: int | None
    value: Any


class EvictorContext(Protocol):
    """The interface that a window offers to an evictor."""

    def get_current_processing_time(self) -> int:
        """Return the current processing time, in milliseconds since 1970."""

    def get_current_watermark(self) -> int:
        """Return the current watermark, in milliseconds since 1970."""


class Evictor(ABC):
    """Base of the evictors, which remove records from a window when it fires.

    ``elements`` is the list of the window's records in order of arrival; evictors change it in
    place. Both methods are plain functions.
    """

    def evict_before(
        self, elements: list[TimestampedValue], window: Window, ctx: EvictorContext
    ) -> None:
        """Remove records that the window function must not see."""
        if not self._evicts_after:
            self.evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue], window: Window, ctx: EvictorContext
    ) -> None:
        """Remove records that the window must not keep after its function has seen them."""
        if self._evicts_after:
            self.evict(elements)

    _evicts_after = False

    @abstractmethod
    def evict(self, elements: list[TimestampedValue]) -> None:
        """Remove records; called by either method, depending on the evictor's mode."""


class CountEvictor(Evictor):
    """Evictor that keeps the last ``max_count`` records."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        if isinstance(max_count, bool) or not isinstance(max_count, int) or max_count < 1:
            raise ConfigurationError(f"max_count is {max_count!r}: choose 1 or more records")
        self._max_count = max_count
        self._evicts_after = do_evict_after

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Return an evictor that keeps the last ``max_count`` records.

        It runs before the window function, or after it if ``do_evict_after`` is true.
        """
        return CountEvictor(max_count, do_evict_after)

    def evict(self, elements: list[TimestampedValue]) -> None:
        del elements[: -self._max_count]


class TimeEvictor(Evictor):
    """Evictor that keeps records less than ``window_size`` older than the latest record.

    Records without timestamps are kept.
    """

    def __init__(self, window_size: int | Time, do_evict_after: bool = False) -> None:
        self._span_ms = span_ms("window_size", window_size)
        if self._span_ms < 1:
            raise ConfigurationError(f"window_size is {self._span_ms} ms: choose 1 or more")
        self._evicts_after = do_evict_after

    @staticmethod
    def of(window_size: int | Time, do_evict_after: bool = False) -> TimeEvictor:
        """Return an evictor that keeps the last ``window_size`` milliseconds.

        It runs before the window function, or after it if ``do_evict_after`` is true.
        """
        return TimeEvictor(window_size, do_evict_after)

    def evict(self, elements: list[TimestampedValue]) -> None:
        latest = max((one.timestamp for one in elements if one.timestamp is not None), default=None)
        if latest is not None:
            until = latest - self._span_ms
            elements[:] = [
                one for one in elements if one.timestamp is None or one.timestamp > until
            ]


class DeltaEvictor(Evictor):
    """Evictor that keeps records that differ from the last by less than ``threshold``."""

    def __init__(
        self,
        threshold: float,
        delta_function: Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> None:
        if not callable(delta_function):
            raise ConfigurationError(
                f"delta_function is a {type(delta_function).__name__}, not callable"
            )
        self._threshold = threshold
        self._delta = delta_function
        self._evicts_after = do_evict_after

    @staticmethod
    def of(
        threshold: float,
        delta_function: Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> DeltaEvictor:
        """Return an evictor that keeps records close to the last one.

        A record stays if ``delta_function(value, last_value)`` is less than ``threshold``. The
        evictor runs before the window function, or after it if ``do_evict_after`` is true.
        """
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def evict(self, elements: list[TimestampedValue]) -> None:
        if elements:
            last = elements[-1].value
            elements[:] = [
                one for one in elements if self._delta(one.value, last) < self._threshold
            ]


class EvictingContents(ElementContents):
    """The contents of a window with an evictor: all records with their timestamps.

    ``contents`` computes the function's input from the records that the evictor leaves.
    """

    keeps_timestamps = True

    def __init__(self, contents: WindowContents, evictor: Evictor) -> None:
        self._contents = contents
        self._evictor = evictor
        self.function = contents.function

    def fire(self, kept: list[Any], window: Window, context: EvictorContext) -> list[Any] | None:
        elements = [TimestampedValue(*one) for one in kept[0]]
        self._evictor.evict_before(elements, window, context)
        said = self._made_of(elements)
        self._evictor.evict_after(elements, window, context)
        # Evicted records leave the window for good; without records it has no contents.
        kept[:] = [[tuple(one) for one in elements]] if elements else []
        return said

    def _made_of(self, elements: list[TimestampedValue]) -> list[Any] | None:
        """Return the window function's input; None if no records are left to reduce."""
        contents = self._contents
        if isinstance(contents, ElementContents):
            return [one.value for one in elements]
        if not elements:
            return None
        first, *others = elements
        made = contents.first(first.value)
        for one in others:
            made = contents.add(made, one.value)
        return contents.elements(made)
