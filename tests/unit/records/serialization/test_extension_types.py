"""The wire form of Python's own types, and refused contents."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgpack
import pytest

from flinknet.records.serialization.extension_types import (
    OWN_EXTENSIONS,
    READERS,
    SETS,
    TIMESTAMP,
    WRITERS,
)
from tests.naming import spelled

VALUES = [
    date(1, 1, 1),
    date(2026, 5, 17),
    time(23, 59, 59, 999_999),
    time(1, fold=1),
    time(1, tzinfo=ZoneInfo("Europe/Berlin")),
    time(1, tzinfo=timezone(timedelta(hours=2))),
    time(1, tzinfo=timezone(timedelta(hours=2), "summer")),
    datetime(2026, 5, 17, 1, 2, 3, 4),
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2026, 5, 17, fold=1, tzinfo=UTC),
    timedelta(days=-1, seconds=5, microseconds=6),
    Decimal("-1.50"),
    Decimal("NaN"),
    UUID(int=2**128 - 1),
    {1, "a"},
    frozenset({(1, 2)}),
]


NO_DECIMALS = (
    *("one", "", "-", ".", "1_0", " 1", "1 ", "1\n", "+1", "--1", ".5", "5.", "1.2.3", "1,5"),
    *(
        "1e",
        "1e+",
        "1e1_0",
        "e5",
        "0x1",
        "inf",
        "nan",
        "INFINITY",
        "NaN ",
        "NaN1.5",
        "\u0661",
        "1\uff11",
    ),
)
"""Python accepts most of them."""

DECIMALS = (
    *("0", "-0", "007", "1.50", "-1.50E+7", "1e5", "2E-7", "0E-20", "Infinity", "-Infinity"),
    *("NaN", "-NaN123", "sNaN", "-sNaN7"),
)


def pack(value: Any) -> bytes:
    data: bytes = msgpack.packb(value)
    return data


def read(code: int, content: bytes) -> Any:
    return READERS[code](msgpack.unpackb(content, use_list=False, strict_map_key=False))


@pytest.mark.parametrize("value", VALUES, ids=spelled)
def test_a_value_arrives_as_what_was_written(value: Any) -> None:
    code, content = WRITERS[type(value)](value, pack)
    assert code in OWN_EXTENSIONS
    again = read(code, content)
    assert type(again) is type(value)
    assert again == value or repr(again) == repr(value)
    assert getattr(again, "fold", 0) == getattr(value, "fold", 0)
    assert getattr(again, "tzinfo", None) == getattr(value, "tzinfo", None)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 4),
        (datetime(2026, 5, 17, 1, 2, 3, 4, tzinfo=UTC), 8),
        (datetime(2300, 1, 1, tzinfo=UTC), 8),
        (datetime(1969, 12, 31, tzinfo=UTC), 12),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 12),
    ],
)
def test_a_time_in_utc_is_msgpacks_own_in_its_shortest_form(value: datetime, size: int) -> None:
    code, content = WRITERS[datetime](value, pack)
    assert (code, len(content)) == (TIMESTAMP, size)
    assert msgpack.Timestamp.from_bytes(content).to_datetime() == value


@pytest.mark.parametrize("text", DECIMALS)
def test_a_decimal_is_read_as_it_is_written(text: str) -> None:
    assert repr(read(5, pack(text))) == repr(Decimal(text))


class Nowhere(tzinfo):
    """A zone without an offset."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None

    dst = utcoffset

    def tzname(self, moment: datetime | None) -> str | None:
        return None


class Summer(Nowhere):
    """A zone of the user's own class."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return timedelta(hours=2)


def test_another_zone_is_its_offset_and_one_without_offset_is_refused() -> None:
    code, content = WRITERS[time](time(1, tzinfo=Summer()), pack)
    assert read(code, content) == time(1, tzinfo=timezone(timedelta(hours=2)))
    with pytest.raises(TypeError, match="has no offset: use a timezone or a ZoneInfo"):
        WRITERS[time](time(1, tzinfo=Nowhere()), pack)


@pytest.mark.parametrize(
    ("code", "content"),
    [
        (1, "text"),
        (1, 10**12),
        (2, (0, None)),
        (2, (-1, None, 0)),
        (2, (86_400_000_000, None, 0)),
        (2, (0, None, 2)),
        (2, (0, "Nowhere/City", 0)),
        (2, (0, "../etc/passwd", 0)),
        (2, (0, (0, 1), 0)),
        (2, (0, 10**12, 0)),
        (3, (2**62, None, 0)),
        (3, ("0", None, 0)),
        (4, (0, 0)),
        (4, (10**12, 0, 0)),
        (5, 1),
        *((5, text) for text in NO_DECIMALS),
        (6, "text"),
        (6, b"15 bytes......."),
        (7, 1),
        (8, {"a": 1}),
        (8, (({},),)),
    ],
)
def test_content_that_no_writer_produces_is_refused(code: int, content: Any) -> None:
    """The errors are those that a reader of records expects, and no code of the content is run."""
    with pytest.raises((ValueError, TypeError, LookupError, ArithmeticError)):
        READERS[code](content)


def test_sets_are_known_as_such() -> None:
    assert {WRITERS[kind](kind(), pack)[0] for kind in (set, frozenset)} == SETS
