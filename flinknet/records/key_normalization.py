"""Key normalization: the accepted keys, and the plain value (the *form*) that each is hashed as.

Keys that Python considers equal have the same form, even if their types differ:

======================================== =============================================
key                                      form
======================================== =============================================
None, a pandas or numpy NaT              nil
str, bytes, bytearray, memoryview        itself, without its class
bool, int, float, Decimal, Fraction,     the integer, if it fits 64 bits; else the equal
complex, numpy's numbers                 float, if there is one; else its residue
NaN of any kind and any bits             one NaN
date, time, datetime, timedelta          its number of days or microseconds; the instant,
                                         if there is a time zone
UUID                                     its bytes
member of an enumeration                 the form of its other base type, or of its value; or
                                         its name, if the value cannot be a key
tuple, list, named tuple                 the array of its parts' forms
frozen dataclass, frozen msgspec Struct  the array of the forms of the compared fields
======================================== =============================================

Every other key is refused. A subclass with its own comparison is refused, too, because it may
consider other keys equal. Different keys may have the same form, such as 1 and an enumeration's
member with that value. They then take the same channel, and remain two keys.

In Python, NaN does not equal NaN, and a list cannot be looked up. Keyed state is therefore stored
under a ``comparable_key``, so that all NaN are one key, as in Spark, and lists are keys like
tuples.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from math import isnan, nan
from types import NoneType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from msgpack import ExtType

__all__ = [
    "DATE",
    "DATETIME",
    "DURATION",
    "KEY_ERRORS",
    "TIME",
    "TIMESTAMP",
    "NormalizedKey",
    "comparable_key",
    "normalized_instant",
    "normalized_key",
    "remembered_bytes",
]

KEY_ERRORS = (TypeError, ValueError, OverflowError, RecursionError)
"""Errors of ``normalized_key``, and of packing the form, for a value that cannot be a key."""

DATE, TIME, DATETIME, TIMESTAMP, DURATION, _UUID, _NUMBER = range(1, 8)
"""Codes of the forms that msgpack has no type for; they must never change."""

_DEPTH_MAX = 100
"""Maximum nesting of tuples; the stack suffices for it wherever a key is hashed."""

_TYPES_MAX = 1_024
"""Number of key types with a remembered form function."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
_DAY_MICROSECONDS = 86_400_000_000
_UINT64_MAX = 2**64 - 1
_INT64_MIN = -(2**63)
_RESIDUE = 2**61 - 1
"""The prime of Python's hash of numbers; any other prime would do."""

Normalizer = Callable[[Any, int], Any]


class NormalizedKey(ExtType):  # type: ignore[misc]
    """Form of one of the kinds above; it is its own form."""

    __slots__ = ()


def normalized_key(key: Any, depth: int = 0) -> Any:
    """Return the plain value that a key is hashed as.

    ``depth`` is the nesting of the key in an outer key. Raises one of KEY_ERRORS for a value that
    cannot be a key.
    """
    kind = type(key)
    if kind is str:
        return key
    if kind is int:
        return _integer(key, depth)
    return _normalizer_of(kind)(key, depth)


def normalized_instant(kind: int, value: int) -> NormalizedKey:
    """Return the form of a number of days or microseconds, modulo 2**64."""
    return NormalizedKey(kind, (value & _UINT64_MAX).to_bytes(8, "big"))


def comparable_key(key: Any) -> Any:
    """Return the dict key for a key of keyed state.

    This is the key itself, with exceptions. A list becomes a tuple and a bytearray becomes bytes,
    because they cannot be looked up. All NaN become one object, because NaN would not be found
    again. NaT becomes None.
    """
    if isinstance(key, tuple | list):
        parts = [comparable_key(part) for part in key]
        kept = isinstance(key, tuple) and all(map(_is, parts, key))
        return key if kept else tuple(parts)
    if isinstance(key, bytearray | memoryview):
        return bytes(key)
    if key != key:
        return None if _is_no_time(key) else nan
    return key


def remembered_bytes(key: Any) -> int | None:
    """Return an upper bound of the memory that a key takes.

    Return None for a key that should not be kept: it cannot be found again, or the memory of the
    objects that it refers to is unknown.
    """
    kind = type(key)
    if kind is str:
        return _TEXT_BYTES + len(key) * (1 if key.isascii() else _CHARACTER_BYTES)
    if kind is int:
        return _NUMBER_BYTES + int.bit_length(key) // 7
    if kind is bytes:
        return _TEXT_BYTES + len(key)
    if isinstance(key, tuple):
        return None if hasattr(key, "__dict__") else _tuple_bytes(key)
    if kind is float:
        return None if isnan(key) else _NUMBER_BYTES
    if kind is datetime or kind is time:
        return _SMALL_BYTES if _is_shared(key.tzinfo) else None
    if kind is Decimal:
        return _SMALL_BYTES + len(str(key))
    if kind in _SMALL or isinstance(key, Enum):
        return _SMALL_BYTES
    return None


_NUMBER_BYTES = 32
_TEXT_BYTES = 80
_SMALL_BYTES = 256
_CHARACTER_BYTES = 8
"""Up to four, and as many for the UTF-8 form that Python keeps once it was requested."""
_TUPLE_BYTES = 64
_REFERENCE_BYTES = 8
_SMALL = frozenset((NoneType, bool, date, timedelta, UUID))


def _tuple_bytes(key: tuple[Any, ...]) -> int | None:
    size = _TUPLE_BYTES
    for part in key:
        part_bytes = remembered_bytes(part)
        if part_bytes is None:
            return None
        size += _REFERENCE_BYTES + part_bytes
    return size


def _is_shared(zone: Any) -> bool:
    """Return whether a time zone is small, or shared with other objects."""
    if type(zone) is ZoneInfo:
        return zone.key is not None and ZoneInfo(zone.key) is zone
    return zone is None or type(zone) is timezone


def _is(one: Any, other: Any) -> bool:
    return one is other


def _is_no_time(key: Any) -> bool:
    """Return whether a value is a pandas or numpy NaT."""
    return type(key).__name__ in ("NaTType", "datetime64", "timedelta64")


# -- types -----------------------------------------------------------------------------------------


def _find_normalizer(kind: Any) -> Normalizer:
    """Return the function that returns the form of a type's keys, or refuses them."""
    if _is_of(kind, "numpy", "generic"):
        return _numpy
    if kind.__name__ == "NaTType":
        return _nothing
    of_pandas = _is_of(kind, "pandas", "Timestamp") or _is_of(kind, "pandas", "Timedelta")
    for base, former in _NORMALIZERS.items():
        if issubclass(kind, base):
            # The times of pandas override the comparison, but equal times have equal forms.
            if _compares_like(kind, base) or of_pandas:
                return former
            return _refused(f"it does not compare as {base.__name__} does")
    if issubclass(kind, Enum) and _compares_like(kind, Enum):
        return _member
    if dataclasses.is_dataclass(kind):
        return _frozen_dataclass(kind)
    if hasattr(kind, "__struct_config__"):
        return _frozen_struct(kind)
    return _refused("such a type has no stable hash")


_normalizer_of: Callable[[type], Normalizer] = lru_cache(_TYPES_MAX)(_find_normalizer)


def _compares_like(kind: Any, base: Any) -> bool:
    return bool(kind.__eq__ == base.__eq__)


def _is_of(kind: type, module: str, name: str) -> bool:
    """Return whether a type derives from a library's class, without importing the library."""
    base = getattr(sys.modules.get(module), name, None)
    return base is not None and issubclass(kind, base)


def _refused(reason: str) -> Normalizer:
    def refuse(key: Any, depth: int) -> Any:
        raise TypeError(reason)

    return refuse


def _frozen_dataclass(kind: Any) -> Normalizer:
    parameters = kind.__dataclass_params__
    if not (parameters.frozen and parameters.eq):
        return _refused("a dataclass is a key only if it is frozen, and compares its fields")
    return _fields([field.name for field in dataclasses.fields(kind) if field.compare])


def _frozen_struct(kind: Any) -> Normalizer:
    config = kind.__struct_config__
    if not (config.frozen and config.eq):
        return _refused("a Struct is a key only if it is frozen, and compares its fields")
    return _fields(kind.__struct_fields__)


def _fields(names: Any) -> Normalizer:
    def form(key: Any, depth: int) -> Any:
        hash(key)  # raises TypeError for a field that is a list: the key could not be looked up
        return _array([getattr(key, name) for name in names], depth)

    return form


# -- forms -----------------------------------------------------------------------------------------


def _itself(key: Any, depth: int) -> Any:
    return key


def _nothing(key: Any, depth: int) -> None:
    return None


def _text(key: str, depth: int) -> str:
    return str.__str__(key)


def _content(key: Any, depth: int) -> bytes:
    return bytes(key)


def _array(key: Any, depth: int) -> Any:
    if depth >= _DEPTH_MAX:
        raise ValueError(f"its tuples are nested more than {_DEPTH_MAX} levels deep")
    return [normalized_key(part, depth + 1) for part in key]


def _integer(key: int, depth: int) -> Any:
    number = int.__index__(key)
    if _INT64_MIN <= number <= _UINT64_MAX:
        return number
    as_float = _as_float(number)
    return _residue(number, 1) if as_float is None else as_float


def _float(key: float, depth: int) -> Any:
    number = float.__float__(key)
    if number.is_integer() and _INT64_MIN <= number <= _UINT64_MAX:
        return int(number)
    return nan if number != number else number


def _decimal(key: Decimal, depth: int) -> Any:
    if key.is_nan():
        if key.is_snan():
            raise ValueError("a signaling NaN cannot be compared")
        return nan
    if key.is_infinite():
        return float(key)
    if key.adjusted() < _INTEGER_DIGITS:  # an exponent may make an integer of any size
        number = int(key)
        if number == key:
            return _integer(number, depth)
    as_float = _as_float(key)
    if as_float is not None:
        return as_float
    negative, digits, exponent = key.as_tuple()
    assert isinstance(exponent, int), "a number that is finite has an exponent"
    number = _digits_residue(digits) * pow(10, exponent, _RESIDUE)
    return _residue(-number if negative else number, 1)


def _digits_residue(digits: tuple[int, ...]) -> int:
    """Return the residue of a number of any length.

    Python converts only short texts to an int.
    """
    text = "".join(map(str, digits))
    number = 0
    for start in range(0, len(text), _DIGITS_AT_ONCE):
        part = text[start : start + _DIGITS_AT_ONCE]
        number = (number * 10 ** len(part) + int(part)) % _RESIDUE
    return number


def _fraction(key: Fraction, depth: int) -> Any:
    if key.denominator == 1:
        return _integer(key.numerator, depth)
    as_float = _as_float(key)
    return _residue(key.numerator, key.denominator) if as_float is None else as_float


def _complex(key: complex, depth: int) -> Any:
    if key.imag:
        return [_float(key.real, depth), _float(key.imag, depth)]
    return _float(key.real, depth)


_INTEGER_DIGITS = 20
"""Maximum number of digits of a 64-bit integer."""

_DIGITS_AT_ONCE = 500


def _as_float(number: Any) -> float | None:
    """Return the float that equals a finite number, or None."""
    try:
        as_float = float(number)
    except OverflowError:
        return None
    return as_float if as_float == number else None


def _residue(numerator: int, denominator: int) -> NormalizedKey:
    if denominator % _RESIDUE == 0:  # it has no inverse
        return normalized_instant(_NUMBER, _RESIDUE)
    value = numerator * pow(denominator, -1, _RESIDUE) % _RESIDUE
    return normalized_instant(_NUMBER, value)


def _datetime(key: datetime, depth: int) -> Any:
    clock = ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    value = (key.toordinal() - _EPOCH_DAY) * _DAY_MICROSECONDS + clock
    # Equal times of one zone may differ in fold; Python hashes them with fold 0.
    offset = (key.replace(fold=0) if key.fold else key).utcoffset()
    if offset is None:
        return normalized_instant(DATETIME, value)
    return normalized_instant(TIMESTAMP, value - offset // _MICROSECOND)


def _date(key: date, depth: int) -> Any:
    return normalized_instant(DATE, key.toordinal() - _EPOCH_DAY)


def _time(key: time, depth: int) -> Any:
    value = ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    offset = (key.replace(fold=0) if key.fold else key).utcoffset()
    return normalized_instant(TIME, value if offset is None else value - offset // _MICROSECOND)


def _timedelta(key: timedelta, depth: int) -> Any:
    # Written out, because pandas overrides //.
    days_and_seconds = key.days * 86_400 + key.seconds
    return normalized_instant(DURATION, days_and_seconds * 1_000_000 + key.microseconds)


def _uuid(key: UUID, depth: int) -> Any:
    return NormalizedKey(_UUID, key.bytes)


def _member(key: Enum, depth: int) -> Any:
    try:
        return normalized_key(key._value_, depth)
    except TypeError:  # The value cannot be a key, but the name of the member can.
        return key._name_


def _numpy(key: Any, depth: int) -> Any:
    """Return the form of a numpy scalar's value."""
    kind = key.dtype.kind
    if kind in "mM":
        if key != key:
            return None
        name, _, unit = key.dtype.name.partition("[")
        # ``item`` returns a number for these units, which Python's types do not have.
        if unit in _UNITS_BELOW_MICROSECONDS:
            key = key.astype(f"{name}[us]")
    elif kind not in "biufcUS":
        raise TypeError("such a numpy scalar has no stable hash")
    value = key.item()
    if type(value) is type(key):  # a longdouble, for example
        raise TypeError("Python has no equal value for such a numpy scalar")
    return normalized_key(value, depth)


_UNITS_BELOW_MICROSECONDS = ("ns]", "ps]", "fs]", "as]")

# The first class here that a type derives from counts. Each class therefore precedes its own bases:
# NormalizedKey precedes tuple, bool precedes int, and datetime precedes date.
_NORMALIZERS: dict[type, Normalizer] = {
    NormalizedKey: _itself,
    NoneType: _itself,
    bytes: _content,
    bool: _integer,
    int: _integer,
    float: _float,
    str: _text,
    tuple: _array,
    list: _array,
    bytearray: _content,
    memoryview: _content,
    Decimal: _decimal,
    Fraction: _fraction,
    complex: _complex,
    datetime: _datetime,
    date: _date,
    time: _time,
    timedelta: _timedelta,
    UUID: _uuid,
}
