"""Records of random jobs: their shapes and fields, and a canonical text of each.

A record has three fields in one of several shapes: ``k`` is any key, ``n`` an int that functions
compute with, and ``x`` a payload of any kind. ``text_of_record`` returns equal texts for records
that a job need not distinguish: a list arrives as a tuple, and equal keys are one key.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from math import inf, isfinite, nan
from typing import Any, NamedTuple
from uuid import UUID

from flinknet.datastream import Row

__all__ = [
    "CHANGEABLE_SHAPES",
    "KEY_POOLS",
    "PAYLOADS",
    "REGISTERED",
    "SHAPES",
    "Box",
    "Point",
    "Seal",
    "fresh",
    "make",
    "model_key",
    "parts",
    "refill",
    "shape_of",
    "spoil",
    "text_of",
    "text_of_key",
    "text_of_record",
]


@dataclass
class Box:
    """A mutable record."""

    k: Any
    n: int
    x: Any


@dataclass(frozen=True)
class Seal:
    """A frozen record, which may have a mutable payload."""

    k: Any
    n: int
    x: Any


class Point(NamedTuple):
    """A record that is a named tuple."""

    k: Any
    n: int
    x: Any


@dataclass(frozen=True)
class Pair:
    """A key that is a frozen dataclass."""

    one: str
    other: int


class Colour(Enum):
    """Keys and payloads that are members of an enumeration."""

    RED = "red"
    BLUE = 2


REGISTERED: tuple[type, ...] = (Box, Seal, Point, Pair, Colour)
"""Registered classes of objects in records and state."""

_MAKERS: dict[str, Callable[[Any, int, Any], Any]] = {
    "tuple": lambda k, n, x: (k, n, x),
    "list": lambda k, n, x: [k, n, x],
    "dict": lambda k, n, x: {"k": k, "n": n, "x": x},
    "box": Box,
    "seal": Seal,
    "point": Point,
    "row": lambda k, n, x: Row(k=k, n=n, x=x),
}

SHAPES = tuple(_MAKERS)

CHANGEABLE_SHAPES = ("list", "dict", "box", "row")
"""Mutable shapes. A list arrives as a tuple behind an exchange."""

_NOON = datetime(2024, 2, 29, 12, 0, 0, 1)
_ELSEWHERE = timezone(timedelta(hours=5, minutes=30))

KEY_POOLS: dict[str, tuple[Any, ...]] = {
    "texts": ("", "a", "b", "key", "\U0001f600", "été", "z" * 300),
    "numbers": (0, -1, 7, 2**64 - 1, -(2**63), 41, 1000),
    "equal": (1, 1.0, True, Decimal(1), 2, 2.0, Decimal("2.0"), 3),
    "lists": ([1, 2], (1, 2), [], [["a"], None], ("a", nan), (1, "b")),
    "times": (
        _NOON,
        _NOON.replace(tzinfo=UTC),
        _NOON.replace(tzinfo=_ELSEWHERE),
        date(1, 1, 1),
        date(9999, 12, 31),
        time(23, 59, 59, 999_999),
        timedelta(-1, 5, 7),
    ),
    "mixed": (
        None,
        "",
        b"",
        b"\x00\xff",
        False,
        1.5,
        nan,
        -inf,
        Decimal("1.10"),
        Decimal("1e30"),
        UUID(int=5),
        Pair("a", 1),
        Colour.RED,
        (None, (b"x", 2.5)),
    ),
}
"""Keys of a program, by name of the pool."""

PAYLOADS: tuple[Any, ...] = (
    None,
    nan,
    -0.0,
    inf,
    True,
    2**64 - 1,
    -(2**63),
    "",
    "\x00\U0001f600",
    "long " * 300,
    b"",
    b"\x00" * 50,
    Decimal("1.10"),
    Decimal("NaN"),
    _NOON,
    _NOON.replace(tzinfo=_ELSEWHERE),
    date(2000, 1, 1),
    time(0, 0),
    timedelta(days=3),
    UUID(int=77),
    Colour.BLUE,
    [],
    [1, [2, "three"]],
    {"a": [1], "b": {"c": None}},
    {1: "one", (2, 3): [4]},
    {1, 2, 3},
    frozenset(("x",)),
    (1, [2], {"three": 3}),
    Box("in", 1, [1]),
    Seal("in", 2, {"s": [2]}),
    Point("in", 3, None),
    Row(a=1, b=[2]),
    Row(1, "two"),
)
"""Values of ``x``; ``fresh`` makes a copy that may be changed."""


def fresh(value: Any) -> Any:
    """Return a copy that shares no mutable object."""
    return copy.deepcopy(value)


def make(shape: str, k: Any, n: int, x: Any) -> Any:
    """Return a record of a shape."""
    return _MAKERS[shape](k, n, x)


def parts(record: Any) -> tuple[Any, int, Any]:
    """Return the three fields of a record."""
    if isinstance(record, dict):
        return record["k"], record["n"], record["x"]
    if isinstance(record, Box | Seal):
        return record.k, record.n, record.x
    k, n, x = record
    return k, n, x


def shape_of(record: Any) -> str:
    """Return the shape of a record; an arrived list has the shape of a tuple."""
    kind = type(record)
    for shape, one in (("list", list), ("dict", dict), ("box", Box), ("seal", Seal)):
        if kind is one:
            return shape
    return "point" if kind is Point else "row" if kind is Row else "tuple"


def refill(record: Any, k: Any, n: int, x: Any) -> None:
    """Set the fields of a mutable record."""
    if isinstance(record, Box):
        record.k, record.n, record.x = k, n, x
    elif isinstance(record, dict):
        record.clear()
        record.update(k=k, n=n, x=x)
    else:
        record[:] = [k, n, x]


def spoil(value: Any) -> None:
    """Change every mutable part of a value, so that any later reader sees the change."""
    if isinstance(value, dict):
        for one in value.values():
            spoil(one)
        for key in value:
            value[key] = "spoilt"
        value["spoilt"] = True
    elif isinstance(value, list):
        for one in value:
            spoil(one)
        value[:] = ["spoilt", -1, "spoilt", *value]
    elif isinstance(value, set):
        value.add("spoilt")
    elif isinstance(value, Row):
        for index, one in enumerate(value):
            spoil(one)
            value[index] = "spoilt"
    elif isinstance(value, Box):
        spoil(value.x)
        value.k, value.n, value.x = "spoilt", -1, "spoilt"
    elif isinstance(value, Seal):
        spoil(value.x)
    elif isinstance(value, tuple):
        for one in value:
            spoil(one)


def model_key(key: Any) -> Any:
    """Return a hashable key for the model.

    Keys are equal if Python says so, or if both are NaN; a list equals the tuple of its parts.
    """
    if isinstance(key, tuple | list):
        return tuple(map(model_key, key))
    return "not a number" if key != key else key


def text_of(value: Any) -> str:
    """Return a canonical text, which transport does not change and no other value has."""
    return "".join(_pieces(value))


def _pieces(value: Any) -> Iterator[str]:
    kind = type(value)
    if kind in (list, tuple):
        yield f"({', '.join(map(text_of, value))})"
    elif kind is dict:
        entries = sorted(f"{text_of(key)}: {text_of(one)}" for key, one in value.items())
        yield f"{{{', '.join(entries)}}}"
    elif kind in (set, frozenset):
        yield f"{kind.__name__}({', '.join(sorted(map(text_of, value)))})"
    elif isinstance(value, Row):
        named = value.field_names()
        yield f"Row[{named}]({', '.join(map(text_of, value))})"
    elif isinstance(value, tuple):
        yield f"{kind.__name__}({', '.join(map(text_of, value))})"
    elif is_dataclass(value):
        named = [f"{field.name}={text_of(getattr(value, field.name))}" for field in fields(value)]
        yield f"{kind.__name__}({', '.join(named)})"
    else:
        yield f"{kind.__name__} {value!a}"


def text_of_key(key: Any) -> str:
    """Return a text that is the same for equal keys."""
    if isinstance(key, tuple | list):
        return f"({', '.join(map(text_of_key, key))})"
    if isinstance(key, int | float | Decimal) and key == key:
        return f"number {Fraction(key)}" if isfinite(key) else f"number {float(key)}"
    if key != key:
        return "not a number"
    if isinstance(key, datetime) and key.tzinfo is not None:
        return f"instant {key.astimezone(UTC)}"
    return text_of(key)


def text_of_record(record: Any) -> str:
    """Return the canonical text of a record."""
    k, n, x = parts(record)
    shape = shape_of(record)
    return f"{'tuple' if shape == 'list' else shape}({text_of_key(k)}, {text_of(n)}, {text_of(x)})"
