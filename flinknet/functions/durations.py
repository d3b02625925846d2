"""PyFlink's two classes of time spans, both in whole milliseconds, and its Instant."""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.errors import ConfigurationError

__all__ = ["Duration", "Instant", "Time"]

NANOSECONDS_PER_SECOND = 1_000_000_000
NANOSECONDS_PER_MS = 1_000_000

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Span:
    """A time span in whole milliseconds; any other number is a ConfigurationError."""

    milliseconds_count: int

    def __post_init__(self) -> None:
        count = self.milliseconds_count
        if isinstance(count, bool) or not isinstance(count, int):
            raise ConfigurationError(f"a span of time is {count!r}: choose a whole number")


class Duration(Span):
    """A span of time (PyFlink's Duration)."""

    __slots__ = ()

    @classmethod
    def of_days(cls, days: int) -> Duration:
        """Return a span of days, each of 24 hours."""
        return cls(days * DAY_MS)

    @classmethod
    def of_hours(cls, hours: int) -> Duration:
        """Return a span of hours."""
        return cls(hours * HOUR_MS)

    @classmethod
    def of_minutes(cls, minutes: int) -> Duration:
        """Return a span of minutes."""
        return cls(minutes * MINUTE_MS)

    @classmethod
    def of_seconds(cls, seconds: int) -> Duration:
        """Return a span of seconds."""
        return cls(seconds * SECOND_MS)

    @classmethod
    def of_millis(cls, millis: int) -> Duration:
        """Return a span of milliseconds."""
        return cls(millis)

    @classmethod
    def of_nanos(cls, nanos: int) -> Duration:
        """Return a span of nanoseconds; ConfigurationError unless it is whole milliseconds."""
        count, rest = divmod(nanos, NANOSECONDS_PER_MS)
        if rest:
            raise ConfigurationError(
                f"a span of {nanos} ns is not a whole number of milliseconds, the smallest unit"
            )
        return cls(count)

    def to_millis(self) -> int:
        """Return the span in milliseconds."""
        return self.milliseconds_count


class Time(Span):
    """The size, the slide, the offset or the gap of windows (PyFlink's Time)."""

    __slots__ = ()

    @classmethod
    def days(cls, days: int) -> Time:
        """Return a span of days, each of 24 hours."""
        return cls(days * DAY_MS)

    @classmethod
    def hours(cls, hours: int) -> Time:
        """Return a span of hours."""
        return cls(hours * HOUR_MS)

    @classmethod
    def minutes(cls, minutes: int) -> Time:
        """Return a span of minutes."""
        return cls(minutes * MINUTE_MS)

    @classmethod
    def seconds(cls, seconds: int) -> Time:
        """Return a span of seconds."""
        return cls(seconds * SECOND_MS)

    @classmethod
    def milliseconds(cls, milliseconds: int) -> Time:
        """Return a span of milliseconds."""
        return cls(milliseconds)

    def to_milliseconds(self) -> int:
        """Return the span in milliseconds."""
        return self.milliseconds_count


@dataclass(frozen=True, order=True, slots=True)
class Instant:
    """A point in time: seconds since 1970, plus nanoseconds (PyFlink's Instant)."""

    seconds: int
    nanos: int

    def to_epoch_milli(self) -> int:
        """Return the milliseconds since 1970, rounded down."""
        return self.seconds * SECOND_MS + self.nanos // NANOSECONDS_PER_MS

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the instant at a number of milliseconds since 1970."""
        seconds, milliseconds = divmod(epoch_milli, SECOND_MS)
        return Instant(seconds, milliseconds * NANOSECONDS_PER_MS)
