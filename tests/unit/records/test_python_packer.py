"""The packer in Python gives the bytes of the one in C, for everything that one takes."""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flinknet.interpreter import COMPILES_PYTHON
from flinknet.records.python_packer import pack
from flinknet.records.serializer import PACK_ERRORS, record_packer

pytestmark = pytest.mark.skipif(COMPILES_PYTHON, reason="there is no packer in C to compare with")

pack_in_c = record_packer()

ZONES = st.none() | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(
    lambda offset: timezone(timedelta(minutes=offset // timedelta(minutes=1)))
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**65)
    | st.floats()
    | st.text(max_size=300)
    | st.binary(max_size=300)
    | st.datetimes(timezones=ZONES)
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals()
)
RECORDS = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.lists(inner, max_size=20).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=20)
    ),
    max_leaves=30,
)


class Colour(Enum):
    RED = 1
    BLUE = "b"


class Number(IntEnum):
    FIVE = 5


class Letter(StrEnum):
    Q = "q"


class Text(str):
    __slots__ = ()


class Integer(int): ...


class Items(list[Any]): ...


class Entries(dict[str, Any]): ...


class Parts(tuple[Any, ...]):
    __slots__ = ()


class Named(NamedTuple):
    a: int
    b: int


@dataclass
class Plain:
    x: int = 1
    _hidden: int = 2
    z: object = None


@dataclass(slots=True)
class Slotted:
    x: int
    y: str = "a"


@dataclass
class Unset:
    x: int
    y: int = field(init=False)


BORDERS = [
    sign * 2**bits + more
    for bits in (0, 5, 7, 8, 15, 16, 31, 32, 63, 64)
    for sign in (1, -1)
    for more in (-1, 0, 1)
]
LENGTHS = (0, 1, 2, 3, 4, 5, 15, 16, 31, 32, 255, 256, 65_535, 65_536)
MOMENTS = (
    datetime(1960, 1, 1, tzinfo=UTC),
    datetime(1960, 1, 1, 1, 2, 3, 4, tzinfo=UTC),
    datetime(2020, 1, 1, tzinfo=UTC),
    datetime(2020, 1, 1, 1, 2, 3, 4, tzinfo=UTC),
    datetime(2106, 2, 7, 6, 28, 15, tzinfo=UTC),
    datetime(2106, 2, 7, 6, 28, 16, tzinfo=UTC),
    datetime(2514, 5, 30, 1, 53, 3, tzinfo=UTC),
    datetime(2514, 5, 30, 1, 53, 4, tzinfo=UTC),
    datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(2020, 1, 1),
    datetime(2020, 1, 1, 1, 2, 3, 4000),
    date(2020, 1, 2),
    time(1, 2),
    time(1, 2, 3, 400),
    time(1, 2, tzinfo=UTC),
    time(1, 2, tzinfo=timezone(timedelta(hours=-3))),
    timedelta(),
    timedelta(1),
    timedelta(seconds=5),
    timedelta(microseconds=5),
    timedelta(-1),
    timedelta(-1, 5),
    timedelta(days=400, hours=3, milliseconds=1500),
)
OBJECTS = (
    bytearray(b"x"),
    memoryview(b"xyz"),
    memoryview(b"abcdef")[::2],
    array("i", [1, 2]),
    {1},
    frozenset((2,)),
    Plain(),
    Slotted(3),
    Unset(1),
    Plain,
    Colour.RED,
    Colour.BLUE,
    Colour,
    Number.FIVE,
    Letter.Q,
    Text("s"),
    Integer(300),
    Items([1]),
    Entries(a=1),
    Parts((1, 2)),
    Named(1, 2),
    UUID(int=7),
    Decimal("1.50"),
    OrderedDict(a=1),
    Counter("aab"),
    defaultdict(int, a=1),
    deque([1]),
    range(3),
    1j,
    object(),
    "\ud800",
    {"a": {1}, (1, 2): [Plain(), Colour.RED], None: Text("t")},
)


def outcome(pack_value: Any, value: Any) -> Any:
    try:
        return pack_value(value)
    except PACK_ERRORS as error:
        return type(error), str(error)


def name_of(value: Any) -> str:
    return type(value).__name__


@pytest.mark.parametrize("value", [*BORDERS, *MOMENTS, *OBJECTS], ids=name_of)
def test_values(value: Any) -> None:
    assert outcome(pack, value) == outcome(pack_in_c, value)


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length: int) -> None:
    numbers = range(length)
    for value in (
        "a" * length,
        "é" * length,
        b"a" * length,
        tuple(numbers),
        list(numbers),
        dict(zip(numbers, numbers, strict=True)),
    ):
        assert pack(value) == pack_in_c(value)


@given(record=RECORDS)
@example(record=float("nan"))
@example(record=-0.0)
def test_any_record(record: Any) -> None:
    assert outcome(pack, record) == outcome(pack_in_c, record)


def test_a_record_that_contains_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    subclass = Items()
    subclass.append(subclass)
    mapped: dict[str, Any] = {}
    mapped["itself"] = mapped
    for endless in (circle, subclass, mapped):
        with pytest.raises(RecursionError):
            pack(endless)
