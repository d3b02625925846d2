"""One value of every kind that a record may be or contain, and the classes registered for them.

The table in README.md has a row for each kind here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo


class Colour(Enum):
    RED = 1
    BLUE = ("of", "several", "parts")
    ALSO_RED = 1  # noqa: PIE796


class Level(IntEnum):
    LOW = 1


class Letter(StrEnum):
    Q = "q"


class Permission(Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: int = 0


class Nothing(NamedTuple):
    """A class without fields."""


@dataclass
class Reading:
    sensor: str
    value: float
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Frozen:
    number: int


@dataclass(slots=True)
class Slotted:
    number: int
    more: object = None


@dataclass(frozen=True, slots=True)
class FrozenAndSlotted:
    number: int
    day: date


@dataclass
class Checked:
    """Counts the calls of its own methods."""

    number: int
    hidden: int = field(default=7, init=False, repr=False)
    calls = 0

    def __post_init__(self) -> None:
        Checked.calls += 1


TYPES: tuple[type, ...] = (
    Colour, Level, Letter, Permission, Point, Nothing, Reading, Frozen, Slotted, FrozenAndSlotted,
    Checked,
)  # fmt: skip

BERLIN = ZoneInfo("Europe/Berlin")

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -(2**63),
    2**64 - 1,
    1.5,
    float("inf"),
    "",
    "flügel",
    b"\x00\xff",
    (),
    (1, ("a", (None,))),
    {},
    {"a": 1, 2: "b", (1, 2): None, None: 1.5, b"c": False},
    {date(2020, 2, 29): 1, Colour.RED: 2, Point(1, 2): 3, Frozen(4): 5, UUID(int=1): 6},
    set(),
    {1, "a", (2, 3), date(2020, 1, 1)},
    frozenset(),
    frozenset({frozenset({1}), Frozen(2)}),
    date(1970, 1, 1),
    date.min,
    date.max,
    time(),
    time.max,
    time(9, 30, 15, 5, fold=1),
    time(9, 30, tzinfo=UTC),
    time(9, 30, tzinfo=timezone(-timedelta(hours=3, minutes=30))),
    time(9, 30, tzinfo=BERLIN),
    datetime(2026, 11, 21, 9, 30),
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999_999),
    datetime(2026, 11, 21, 9, 30, 0, 5, fold=1),
    datetime(2026, 11, 21, 9, 30, tzinfo=UTC),
    datetime(1901, 1, 1, 0, 0, 0, 123456, UTC),
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5))),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5), "named")),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(microseconds=-1))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=12))),
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN),
    timedelta(),
    timedelta(-1, 5, 6),
    timedelta.min,
    timedelta.max,
    Decimal("1.50"),
    Decimal("-0"),
    Decimal("1E+999999"),
    Decimal("-Infinity"),
    UUID(int=0),
    UUID("12345678-1234-5678-1234-567812345678"),
    Colour.RED,
    Colour.BLUE,
    Colour.ALSO_RED,
    Level.LOW,
    Letter.Q,
    Permission.READ,
    Permission.READ | Permission.WRITE,
    Permission(0),
    Point(1, 2),
    Point({"deep": Point(3)}, Decimal(1)),  # type: ignore[arg-type]
    Nothing(),
    Reading("a", 1.5, frozenset({"b"})),
    Reading(None, Reading("c", 2.5)),  # type: ignore[arg-type]
    Frozen(1),
    Slotted(1, Slotted(2, {3})),
    FrozenAndSlotted(1, date(2020, 1, 1)),
    Checked(1),
    ((Reading("a", 1.5), {"b": (date(2020, 1, 1),)}),),
)


def arrives(value: Any) -> Any:
    """Return the value that arrives for a value: lists become tuples, others stay the same."""
    if type(value) is list or type(value) is tuple:
        return tuple(map(arrives, value))
    if type(value) is dict:
        return {key: arrives(each) for key, each in value.items()}
    return value


def same(first: Any, second: Any) -> bool:
    """Return whether two values are equal, have the same types and have the same repr."""
    if type(first) is not type(second) or first != second:
        return False
    if type(first) in (set, frozenset):
        return set(map(_described, first)) == set(map(_described, second))
    if type(first) is dict:
        return list(map(_described, first.items())) == list(map(_described, second.items()))
    return _described(first) == _described(second)


def _described(value: Any) -> str:
    kind = type(value)
    if kind in (set, frozenset):
        return f"{kind} of {sorted(map(_described, value))}"
    if isinstance(value, tuple | list):
        return f"{kind} of {list(map(_described, value))}"
    if kind is dict:
        return f"{kind} of {list(map(_described, value.items()))}"
    if is_dataclass(value):
        return f"{kind} of {[_described(getattr(value, field.name)) for field in fields(value)]}"
    if isinstance(value, datetime | time):
        return f"{kind} {value!r} {value.fold} {value.tzname()}"
    return f"{kind} {value!r}"


def name_of(value: Any) -> str:
    """Return an id for a parametrized test."""
    return type(value).__name__
