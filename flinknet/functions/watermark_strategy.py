"""How a stream gets its event time: which time a record has, and what that says of the others.

A strategy is a description that travels with the job; ``WatermarkGenerator`` is what one subtask
keeps of it. It knows no clock: who asks says what time it is, in milliseconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from flinknet.compatibility.pyflink_differences import PyFlinkNames
from flinknet.errors import ConfigurationError
from flinknet.functions.calls import bound_function, is_awaiting
from flinknet.functions.durations import Duration
from flinknet.wire.events import MIN_WATERMARK

__all__ = ["TimestampAssigner", "WatermarkGenerator", "WatermarkStrategy"]


class TimestampAssigner(ABC):
    """Says when a record happened."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int | None) -> int:
        """Return the record's time in milliseconds since 1970; ``record_timestamp`` is what it had
        before, None on a stream without timestamps."""


@dataclass(frozen=True, slots=True)
class WatermarkStrategy(PyFlinkNames):
    """PyFlink's WatermarkStrategy; begin with one of the class methods."""

    out_of_orderness_ms: int | None
    """How much later than another a record may come that is earlier; None for no watermarks."""
    timestamp_assigner: Any = None
    idleness_ms: int | None = None

    @classmethod
    def for_monotonous_timestamps(cls) -> WatermarkStrategy:
        """Timestamps rise, in every subtask for itself."""
        return cls(0)

    @classmethod
    def for_bounded_out_of_orderness(cls, max_out_of_orderness: Duration) -> WatermarkStrategy:
        """A record comes before any that is so much later; if not, it is late."""
        bound_ms = _milliseconds("max_out_of_orderness", max_out_of_orderness)
        if bound_ms < 0:
            raise ConfigurationError(f"max_out_of_orderness is {bound_ms} ms: choose 0 or more")
        return cls(bound_ms)

    @classmethod
    def no_watermarks(cls) -> WatermarkStrategy:
        """Nothing is known of the order: event time stands still until the input has ended."""
        return cls(None)

    def with_timestamp_assigner(self, timestamp_assigner: Any) -> WatermarkStrategy:
        """Take a record's time from a TimestampAssigner, or a function of the record and of the
        timestamp it had before."""
        if is_awaiting(bound_function(timestamp_assigner, "extract_timestamp")):
            raise ConfigurationError(
                "a timestamp assigner runs for every record: it cannot be a coroutine"
            )
        return replace(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Do not let the others wait for a subtask that has had no record for so long."""
        idleness_ms = _milliseconds("idle_timeout", idle_timeout)
        if idleness_ms <= 0:
            raise ConfigurationError(f"idle_timeout is {idleness_ms} ms: choose more than 0")
        return replace(self, idleness_ms=idleness_ms)


def _milliseconds(name: str, duration: Duration) -> int:
    if not isinstance(duration, Duration):
        raise ConfigurationError(f"{name} is {duration!r}: choose a Duration")
    return duration.to_millis()


class WatermarkGenerator:
    """The watermark of one subtask's share of a stream.

    A watermark says that no record at or before it will come: it is one millisecond before what
    may still come (Flink's BoundedOutOfOrdernessWatermarks).
    """

    def __init__(self, strategy: WatermarkStrategy, now_ms: int) -> None:
        self._strategy = strategy
        self._highest_ms = MIN_WATERMARK
        self._active_ms = now_ms

    def on_batch(self, highest_ms: int, now_ms: int) -> None:
        """Records were seen, the latest of them at ``highest_ms``; they are processed now."""
        self._highest_ms = max(self._highest_ms, highest_ms)
        self._active_ms = now_ms

    def watermark(self) -> int:
        """Return the watermark after what was seen; MIN_WATERMARK if it says nothing."""
        bound_ms = self._strategy.out_of_orderness_ms
        if bound_ms is None or self._highest_ms == MIN_WATERMARK:
            return MIN_WATERMARK
        return max(MIN_WATERMARK, self._highest_ms - bound_ms - 1)

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing has come for as long as the strategy says."""
        idleness_ms = self._strategy.idleness_ms
        return idleness_ms is not None and now_ms - self._active_ms >= idleness_ms
