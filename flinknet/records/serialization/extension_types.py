"""Extension types: the wire format of values that msgpack has no type for.

An extension has a small code and a content. The content is plain msgpack, so a reader that does not
know the code can still read the content. ``RecordTypes`` has the codes of registered classes; this
module has the codes, writers and readers of Python's own types.

Readers do not trust their content. Each raises ValueError, TypeError, LookupError or
ArithmeticError for a content that the writer would not have produced, and runs no foreign code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Context, Decimal, InvalidOperation
from struct import Struct
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

__all__ = [
    "ARROW_BATCH",
    "EXTENSIONS_NESTED_MAX",
    "MEMBER",
    "NESTING_MAX",
    "OBJECT",
    "OWN_EXTENSIONS",
    "READERS",
    "SETS",
    "TIMESTAMP",
    "WRITERS",
    "Pack",
    "WriteExtension",
]

TIMESTAMP = -1
"""msgpack's own extension: a datetime in UTC."""

_DATE, _TIME, _DATETIME, _TIMEDELTA, _DECIMAL, _UUID, _SET, _FROZENSET = range(1, 9)

SETS = frozenset((_SET, _FROZENSET))

OBJECT, MEMBER = 9, 10
"""Object of a registered class, and member of a registered enumeration."""

OWN_EXTENSIONS = frozenset(range(_DATE, MEMBER + 1))
"""Extensions with a msgpack value as content, which counts among a record's elements."""

ARROW_BATCH = 127

NESTING_MAX = 1023
"""Maximum nesting of arrays and maps, in a record or in the content of an extension.

msgpack's unpacker has room for 1,024 levels. The records of a buffer are read as one array, which
takes the first level.
"""

EXTENSIONS_NESTED_MAX = 16
"""Maximum nesting of extensions.

Each extension takes calls of its own on both sides, with a stack for its arrays and maps. All
levels together take less than the 8 MiB of a thread's stack.
"""

Pack = Callable[[Any], bytes]
WriteExtension = Callable[[Any, Pack], tuple[int, bytes]]
"""Returns the code and content of an extension for a value and a packer of nested values."""

_DAY_US = 86_400_000_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - on the clock of any zone
_UTC_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECONDS_BITS = 34
_SECONDS_32, _NANOSECONDS_64, _SECONDS_64 = Struct(">I"), Struct(">Q"), Struct(">Iq")
_UUID_BYTES = 16
_EXACT = Context(traps=[InvalidOperation])
_DECIMAL_FORM = re.compile(
    r"-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|s?NaN[0-9]*|Infinity)", re.ASCII
)
"""Format of a decimal as specified in SPEC.

``Decimal`` also accepts blanks, underscores and the digits of other scripts, which other readers
would not read as the same number.
"""


def _write_date(value: date, pack: Pack) -> tuple[int, bytes]:
    return _DATE, pack(value.toordinal() - _EPOCH_DAY)


def _write_time(value: time, pack: Pack) -> tuple[int, bytes]:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    of_day = seconds * 1_000_000 + value.microsecond
    return _TIME, pack((of_day, _zone(value), value.fold))


def _write_datetime(value: datetime, pack: Pack) -> tuple[int, bytes]:
    if value.tzinfo is UTC and not value.fold:  # a timestamp has no fold
        return TIMESTAMP, _timestamp(value)
    since = (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    return _DATETIME, pack((since, _zone(value), value.fold))


def _timestamp(value: datetime) -> bytes:
    """Return the shortest of the three forms of msgpack's timestamp."""
    since = value - _UTC_EPOCH
    seconds, nanoseconds = since.days * 86_400 + since.seconds, since.microseconds * 1000
    if 0 <= seconds < 1 << _SECONDS_BITS:
        if not nanoseconds and seconds < 0x100000000:
            return _SECONDS_32.pack(seconds)
        return _NANOSECONDS_64.pack(nanoseconds << _SECONDS_BITS | seconds)
    return _SECONDS_64.pack(nanoseconds, seconds)


def _zone(value: time | datetime) -> int | str | list[Any] | None:
    """Return the wire form of a time zone.

    The form is None, the name of a ZoneInfo, or an offset in microseconds. A timezone with a name
    of its own has the form ``[offset, name]``.
    """
    zone = value.tzinfo
    if zone is None:
        return None
    if type(zone) is ZoneInfo and zone.key is not None:
        return zone.key
    offset = value.utcoffset()
    if offset is None:
        raise TypeError(f"its time zone {zone!r} has no offset: use a timezone or a ZoneInfo")
    offset_us = offset // _MICROSECOND
    if type(zone) is timezone:
        name = zone.tzname(None)
        if name != timezone(offset).tzname(None):
            return [offset_us, name]
    return offset_us


def _write_timedelta(value: timedelta, pack: Pack) -> tuple[int, bytes]:
    return _TIMEDELTA, pack((value.days, value.seconds, value.microseconds))


def _write_decimal(value: Decimal, pack: Pack) -> tuple[int, bytes]:
    return _DECIMAL, pack(str(value))


def _write_uuid(value: UUID, pack: Pack) -> tuple[int, bytes]:
    return _UUID, pack(value.bytes)


def _write_set(value: set[Any], pack: Pack) -> tuple[int, bytes]:
    return _SET, pack(tuple(value))


def _write_frozenset(value: frozenset[Any], pack: Pack) -> tuple[int, bytes]:
    return _FROZENSET, pack(tuple(value))


WRITERS: Mapping[type, WriteExtension] = {
    date: _write_date,
    time: _write_time,
    datetime: _write_datetime,
    timedelta: _write_timedelta,
    Decimal: _write_decimal,
    UUID: _write_uuid,
    set: _write_set,
    frozenset: _write_frozenset,
}
"""The writers by exact type: a value of a subclass would arrive as the base type."""


def _check(content: Any, *kinds: type) -> None:
    """Raise ValueError unless the content is an array of values of these types."""
    if type(content) is not tuple or tuple(map(type, content)) != kinds:
        names = ", ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"its content is not an array of {names}")


def _check_kind(content: Any, kind: type) -> None:
    if type(content) is not kind:
        raise ValueError(f"its content is not a {kind.__name__}")


def _read_date(content: Any) -> date:
    _check_kind(content, int)
    return date.fromordinal(content + _EPOCH_DAY)


def _read_time(content: Any) -> time:
    of_day, zone, fold = _clock(content)
    if not 0 <= of_day < _DAY_US:
        raise ValueError("a day has 86,400 seconds")
    clock = _EPOCH + timedelta(microseconds=of_day)
    return clock.time().replace(tzinfo=zone, fold=fold)


def _read_datetime(content: Any) -> datetime:
    since, zone, fold = _clock(content)
    return (_EPOCH + timedelta(microseconds=since)).replace(tzinfo=zone, fold=fold)


def _clock(content: Any) -> tuple[int, tzinfo | None, int]:
    if type(content) is not tuple or len(content) != 3:
        raise ValueError("its content is not an array of microseconds, zone and fold")
    microseconds, zone, fold = content
    _check((microseconds, fold), int, int)
    return microseconds, _read_zone(zone), fold


def _read_zone(zone: Any) -> tzinfo | None:
    if zone is None:
        return None
    if type(zone) is int:
        return timezone(timedelta(microseconds=zone))
    if type(zone) is str:
        try:
            return ZoneInfo(zone)
        except (LookupError, OSError) as error:
            raise ValueError(f"there is no time zone {zone!r} here") from error
    _check(zone, int, str)
    return timezone(timedelta(microseconds=zone[0]), zone[1])


def _read_timedelta(content: Any) -> timedelta:
    _check(content, int, int, int)
    return timedelta(*content)


def _read_decimal(content: Any) -> Decimal:
    _check_kind(content, str)
    if _DECIMAL_FORM.fullmatch(content) is None:
        raise ValueError(f"{content:.40} is not a decimal number")
    # The constructor keeps all digits; its context only decides whether errors are raised. The
    # thread's own context might not raise them.
    return Decimal(content, _EXACT)


def _read_uuid(content: Any) -> UUID:
    _check_kind(content, bytes)
    if len(content) != _UUID_BYTES:
        raise ValueError(f"a UUID has {_UUID_BYTES} bytes")
    return UUID(bytes=content)


def _read_set(content: Any) -> set[Any]:
    _check_kind(content, tuple)
    return set(content)


def _read_frozenset(content: Any) -> frozenset[Any]:
    _check_kind(content, tuple)
    return frozenset(content)


READERS: Mapping[int, Callable[[Any], Any]] = {
    _DATE: _read_date,
    _TIME: _read_time,
    _DATETIME: _read_datetime,
    _TIMEDELTA: _read_timedelta,
    _DECIMAL: _read_decimal,
    _UUID: _read_uuid,
    _SET: _read_set,
    _FROZENSET: _read_frozenset,
}
