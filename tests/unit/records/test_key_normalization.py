"""Values as keys: equal keys go to one channel in any form, and the hashes never change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum
from fractions import Fraction
from math import inf, nan
from struct import unpack
from sys import getsizeof
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import SerializationError
from flinknet.records.key_groups import key_hash
from flinknet.records.key_normalization import comparable_key, remembered_bytes
from tests.naming import spelled
from tests.unit.records import library_keys


class Colour(Enum):
    RED = 1
    GREEN = "green"
    WITHOUT_FORM = frozenset((1, 2))


class Number(IntEnum):
    ONE = 1


class Text(StrEnum):
    A = "a"


class Bits(Flag):
    ONE = 1
    TWO = 2


class IntegerBits(IntFlag):
    TWO = 2


class Day(date, Enum):
    FIRST = 2026, 1, 1


class Place(NamedTuple):
    name: str
    number: int


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0
    label: str = field(default="", compare=False)


@dataclass(frozen=True)
class Corner(Point):
    z: float = 0.0


@dataclass
class Changing:
    x: int


class SameAs(str):
    """Text that compares without regard to case."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())


class Tagged(Place):
    """A tuple subclass that can have any attribute."""


class Plain(str):
    """A text subclass that compares as text."""

    __slots__ = ()


BERLIN, TOKYO = ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=9))
NOON = datetime(2026, 11, 22, 12, 0, 0, 7, UTC)

GOLDEN: list[tuple[Any, int]] = [
    (None, 1099703863),
    (nan, 3501102890),
    (date(2026, 11, 22), 3251453744),
    (time(1, 2, 3, 4), 4016809282),
    (datetime(2026, 11, 22, 1, 2, 3, 4), 3237763845),
    (NOON, 776580532),
    (timedelta(1, 2, 3), 3847161223),
    (UUID(int=2**100 + 1), 4044213623),
    (Decimal("0.1"), 3519729111),
    (2**64, 2947170794),
    (2**200 + 1, 2483203781),
    (Fraction(1, 3), 708889099),
    (Fraction(1, 2**61 - 1), 3853033408),
    (1.5 + 2j, 3060043037),
    (Colour.RED, 2201457428),
    (Colour.GREEN, 3264489812),
    (Colour.WITHOUT_FORM, 4115506815),
    (Point(1, 2.5), 2348959043),
    (("a", None, date(1, 1, 1)), 325949536),
]
"""State is kept by key group, so a hash must never change."""


EQUAL: list[tuple[Any, ...]] = [
    (1, 1.0, True, Decimal(1), Decimal("1.000"), Fraction(1), 1 + 0j, Number.ONE),
    (0, 0.0, -0.0, False, Decimal("-0"), Decimal("0E+10"), -0j),
    (0.5, Decimal("0.5"), Decimal("0.50"), Fraction(1, 2), complex(0.5)),
    (Decimal("0.1"), Decimal("0.100"), Fraction(1, 10)),
    (Decimal("-0.1"), Fraction(-1, 10)),
    (2**70, 2.0**70, Decimal(2**70), Fraction(2**70)),
    (2**70 + 1, Decimal(2**70 + 1), Fraction(2**70 + 1)),
    (-(2**70) - 1, Decimal(-(2**70) - 1)),
    (10**400, Decimal("1E+400"), Fraction(10**400)),
    (2**63 - 1, Decimal(2**63 - 1)),
    (inf, Decimal("Infinity")),
    (2, IntegerBits.TWO),
    ("a", Text.A, Plain("a")),
    (b"key", bytearray(b"key"), memoryview(b"key"), memoryview(bytearray(b"key"))),
    (date(2026, 1, 1), Day.FIRST),
    (NOON, NOON.astimezone(BERLIN), NOON.astimezone(TOKYO)),
    (time(12, tzinfo=UTC), time(21, tzinfo=TOKYO)),
    (timedelta(hours=24), timedelta(days=1)),
    (("a", 1), Place("a", 1), Place("a", Decimal(1))),  # type: ignore[arg-type]
    (Point(1, 2, "one"), Point(1.0, Decimal(2), "other")),  # type: ignore[arg-type]
]

REFUSED: list[tuple[Any, str]] = [
    (Changing(1), "a dataclass is a key only if it is frozen"),
    (Point([1]), "unhashable type: 'list'"),  # type: ignore[arg-type]
    (SameAs("a"), "it does not compare as str does"),
    (Decimal("sNaN"), "a signaling NaN"),
    ({"a": 1}, "such a type has no stable hash"),
    (frozenset((1,)), "such a type has no stable hash"),
    (("a", ["b", {1}]), "such a type has no stable hash"),
    (int, "such a type has no stable hash"),
    ("\ud800", "surrogates not allowed"),
]

NOTHINGS: list[Any] = [None]

EQUAL += library_keys.EQUAL
GOLDEN += library_keys.GOLDEN
NOTHINGS += library_keys.NO_TIMES
REFUSED += library_keys.REFUSED


@pytest.mark.parametrize(("key", "value"), GOLDEN, ids=str)
def test_a_hash_of_a_key_of_any_type_never_changes(key: object, value: int) -> None:
    """Q2."""
    assert key_hash(key) == value


def test_hashes_of_all_types_do_not_depend_on_the_process() -> None:
    """Q2: Python's own hash of texts and dates has a salt, which must not matter."""
    program = (
        "from tests.unit.records.test_key_normalization import GOLDEN, key_hash;"
        "print(*(key_hash(key) for key, _ in GOLDEN))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "3"}
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True
    ).stdout
    assert [int(value) for value in printed.split()] == [key_hash(key) for key, _ in GOLDEN]


@pytest.mark.parametrize("equal", EQUAL, ids=lambda equal: f"{equal[0]!r:.30}")
def test_keys_that_python_says_are_equal_meet(equal: tuple[Any, ...]) -> None:
    """This also holds for parts of a key."""
    for one in equal:
        assert all(one == other for other in equal)
        assert key_hash(one) == key_hash(equal[0])
        assert key_hash((one, "a")) == key_hash((equal[0], "a"))


def test_a_number_too_long_to_be_written_out_meets_its_decimal() -> None:
    assert key_hash(10**6_000 + 7) == key_hash(Decimal((0, (1, *[0] * 5_999, 7), 0)))


class Shifting(tzinfo):
    """A zone with a clock that is put back."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        return None if when is None else timedelta(hours=2 - when.fold)

    def dst(self, when: datetime | None) -> timedelta | None:
        return timedelta()

    def tzname(self, when: datetime | None) -> str:
        return "shifting"


def test_the_hour_that_a_clock_strikes_twice_is_one_key_in_its_zone() -> None:
    """Python compares times of one zone without regard to fold."""
    twice = [datetime(2026, 10, 25, 2, 30, tzinfo=Shifting(), fold=fold) for fold in (0, 1)]
    shared = twice[0].tzinfo
    first, second = (one.replace(tzinfo=shared) for one in twice)
    assert first == second
    assert key_hash(first) == key_hash(second)


def test_a_time_without_a_zone_is_another_key() -> None:
    assert key_hash(NOON) != key_hash(NOON.replace(tzinfo=None))
    assert key_hash(date(1970, 1, 1)) != key_hash(datetime(1970, 1, 1))


def nans() -> Iterator[Any]:
    """Some of the many NaNs."""
    for bits in (0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0000, 0x7FF8_0000_0000_0001):
        yield unpack(">d", bits.to_bytes(8, "big"))[0]
    yield from (Decimal("NaN"), Decimal("-NaN123"))


def test_every_nan_is_one_key() -> None:
    """Spark does the same, though no NaN is equal to itself."""
    assert {key_hash(key) for key in nans()} == {key_hash(nan)}
    assert {key_hash(("a", [key])) for key in nans()} == {key_hash(("a", (nan,)))}
    kept = {comparable_key(("a", [key])): None for key in nans()}
    assert len(kept) == 1


@pytest.mark.parametrize("key", NOTHINGS, ids=repr)
def test_a_time_that_is_none_is_null(key: object) -> None:
    """Arrow treats it as null, too."""
    assert key_hash(key) == key_hash(None)
    assert comparable_key((key, 1)) == (None, 1)


numbers = st.integers() | st.floats(allow_nan=False) | st.decimals(allow_nan=False) | st.fractions()


@given(numbers, numbers)
def test_numbers_meet_if_they_are_equal(one: Any, other: Any) -> None:
    if one == other:
        assert key_hash(one) == key_hash(other)
    assert key_hash(one) == key_hash(Fraction(one) if abs(one) != inf else float(one))


@given(st.datetimes(timezones=st.timezones()), st.timezones())
def test_instants_meet_in_any_zone(instant: datetime, zone: tzinfo) -> None:
    try:
        elsewhere = instant.astimezone(zone)
    except OverflowError:
        return
    if instant == elsewhere:
        assert key_hash(instant) == key_hash(elsewhere)


@pytest.mark.parametrize(("key", "reason"), REFUSED, ids=spelled)
def test_an_invalid_key_is_refused_with_the_reason(key: object, reason: str) -> None:
    with pytest.raises(SerializationError, match=reason) as refused:
        key_hash(key)
    assert f"a key of type {type(key).__name__}" in str(refused.value)


def nested(levels: int) -> Any:
    key: Any = 1
    for _ in range(levels):
        key = (key,)
    return key


def test_how_deep_a_key_may_be_does_not_depend_on_the_stack() -> None:
    key_hash(nested(100))
    endless: list[Any] = []
    endless.append(endless)
    for deep in (nested(101), nested(100_000), endless):
        with pytest.raises(SerializationError, match="nested more than 100 levels deep"):
            key_hash(deep)


def test_a_number_with_a_huge_exponent_is_hashed_at_once() -> None:
    """Its digits are not written out."""
    for text in ("1E+999999", "-7E-999999", "1E+999999999999999999"):
        assert 0 <= key_hash(Decimal(text)) < 2**32


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ([1, [2]], (1, (2,))),
        (("a", bytearray(b"b")), ("a", b"b")),
        (memoryview(bytearray(b"b")), b"b"),
        (Place("a", [1]), ("a", (1,))),  # type: ignore[arg-type]
    ],
)
def test_keys_without_lookup_get_a_comparable_key(key: object, expected: object) -> None:
    assert comparable_key(key) == expected
    hash(comparable_key(key))


@pytest.mark.parametrize("key", [1, "a", None, ("a", 1), Place("a", 1), NOON, Point(1), Colour.RED])
def test_keys_with_lookup_are_their_own_comparable_key(key: object) -> None:
    assert comparable_key(key) is key


def test_keys_that_cannot_be_found_again_are_not_cached() -> None:
    """A key that may keep an unknown amount of memory alive is not remembered either."""
    alone = NOON.replace(tzinfo=ZoneInfo.no_cache("Europe/Berlin"))
    own = time(12, tzinfo=Shifting())
    tagged = Tagged("a", 1)
    forgotten = (nan, (1, nan), [1], Point(1), Plain("a"), alone, own, tagged, ("a", Point(1)))
    assert [remembered_bytes(key) for key in forgotten] == [None] * len(forgotten)


def held_bytes(key: Any) -> int:
    """Return the bytes of a key with its parts."""
    parts = key if isinstance(key, tuple) else ()
    return getsizeof(key) + sum(map(held_bytes, parts))


@pytest.mark.parametrize(
    "key",
    [
        *(None, True, 7, -(2**2_000), 1.5, Decimal("0." + "1" * 2_000)),
        *("", "JFK", "Zürich" * 100, "\U0001f6eb" * 100, b"JFK" * 100),
        *(NOON, NOON.replace(tzinfo=None), NOON.astimezone(BERLIN), time(12, tzinfo=TOKYO)),
        *(date(2026, 1, 1), timedelta(1), UUID(int=7), Colour.RED, Number.ONE),
        *((), ("a", (1, b"b", None)), Place("a", 1)),
    ],
    ids=spelled,
)
def test_a_remembered_key_takes_no_more_than_is_counted_for_it(key: object) -> None:
    counted = remembered_bytes(key)
    assert counted is not None
    assert counted >= held_bytes(key)
