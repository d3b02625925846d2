"""Watermark strategies: the event time of records, and their expected order.

A strategy is a description that travels with the job. ``WatermarkGenerator`` holds the state of one
subtask. It reads no clock: callers pass the current time in milliseconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from flinknet.compatibility.pyflink_differences import PyFlinkNames
from flinknet.compatibility.subscripted import Subscripted, T, T_contra
from flinknet.errors import ConfigurationError
from flinknet.functions.calls import bound_function, is_awaiting
from flinknet.functions.durations import Duration
from flinknet.wire.events import MIN_WATERMARK

__all__ = ["TimestampAssigner", "WatermarkGenerator", "WatermarkStrategy"]


class TimestampAssigner(Subscripted[T_contra], ABC):
    """A function that assigns event times to records."""

    @abstractmethod
    def extract_timestamp(self, value: T_contra, record_timestamp: int | None) -> int:
        """Return the record's event time in milliseconds since 1970.

        ``record_timestamp`` is the record's previous timestamp; None on a stream without
        timestamps.
        """


@dataclass(frozen=True, slots=True)
class WatermarkStrategy(PyFlinkNames, Subscripted[T_contra]):
    """PyFlink's WatermarkStrategy; start with one of the class methods."""

    out_of_orderness_ms: int | None
    """Maximum delay of a record behind a later one, in milliseconds; None for no watermarks."""
    timestamp_assigner: Any = None
    idleness_ms: int | None = None

    @classmethod
    def for_monotonous_timestamps(cls) -> WatermarkStrategy:
        """Return a strategy for timestamps that increase within each subtask."""
        return cls(0)

    @classmethod
    def for_bounded_out_of_orderness(cls, max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Return a strategy for records that are at most ``max_out_of_orderness`` out of order.

        A record that arrives later than this is late.
        """
        bound_ms = _milliseconds("max_out_of_orderness", max_out_of_orderness)
        if bound_ms < 0:
            raise ConfigurationError(f"max_out_of_orderness is {bound_ms} ms: choose 0 or more")
        return cls(bound_ms)

    @classmethod
    def no_watermarks(cls) -> WatermarkStrategy:
        """Return a strategy without watermarks: event time stands still until the input ends."""
        return cls(None)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner[T] | Callable[[T, int | None], int]
    ) -> WatermarkStrategy[T]:
        """Return a copy of the strategy that takes timestamps from an assigner.

        The assigner is a TimestampAssigner, or a function of the record and its previous timestamp.
        """
        if is_awaiting(bound_function(timestamp_assigner, "extract_timestamp")):
            raise ConfigurationError(
                "a timestamp assigner runs for every record: it cannot be a coroutine"
            )
        return WatermarkStrategy(self.out_of_orderness_ms, timestamp_assigner, self.idleness_ms)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy[T_contra]:
        """Return a copy of the strategy that marks subtasks without records as idle.

        A subtask becomes idle after ``idle_timeout`` without records. Other subtasks do not wait
        for the watermark of an idle subtask.
        """
        idleness_ms = _milliseconds("idle_timeout", idle_timeout)
        if idleness_ms <= 0:
            raise ConfigurationError(f"idle_timeout is {idleness_ms} ms: choose more than 0")
        return replace(self, idleness_ms=idleness_ms)


def _milliseconds(name: str, duration: Duration) -> int:
    if not isinstance(duration, Duration):
        raise ConfigurationError(f"{name} is {duration!r}: choose a Duration")
    return duration.to_millis()


class WatermarkGenerator:
    """The watermark of one subtask's part of a stream.

    A watermark asserts that no record at or before it will arrive. It is therefore one millisecond
    below the earliest record that may still arrive (Flink's BoundedOutOfOrdernessWatermarks).
    """

    def __init__(self, strategy: WatermarkStrategy, now_ms: int) -> None:
        self._strategy = strategy
        self._highest_ms = MIN_WATERMARK
        self._active_ms = now_ms

    def on_batch(self, highest_ms: int, now_ms: int) -> None:
        """Account for records that are processed now; the latest of them is at ``highest_ms``."""
        self._highest_ms = max(self._highest_ms, highest_ms)
        self._active_ms = now_ms

    def watermark(self) -> int:
        """Return the current watermark; MIN_WATERMARK if there is none yet."""
        bound_ms = self._strategy.out_of_orderness_ms
        if bound_ms is None or self._highest_ms == MIN_WATERMARK:
            return MIN_WATERMARK
        return max(MIN_WATERMARK, self._highest_ms - bound_ms - 1)

    def is_idle(self, now_ms: int) -> bool:
        """Return whether no records arrived for the strategy's idle timeout."""
        idleness_ms = self._strategy.idleness_ms
        return idleness_ms is not None and now_ms - self._active_ms >= idleness_ms
