from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from math import inf, nan
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.errors import SerializationError
from flinknet.records.columns.row_channels import row_channels
from flinknet.records.key_groups import key_group

GROUPS = 32_768

BORDERS = sorted(
    {
        sign * 2**power + beside
        for power in (0, 5, 7, 8, 15, 16, 31, 32, 53, 63, 64)
        for sign in (1, -1)
        for beside in (-2, -1, 0, 1, 2)
    }
)
"""The integers at which msgpack's form changes, and their neighbours."""

FLOATS = [
    0.0, -0.0, 1.5, -1.5, inf, -inf, nan, -nan, 5e-324, 1e300, -1e300, 0.1, *map(float, BORDERS),
    2.0**63 - 1024, -(2.0**63) - 2048, 2.0**64 - 2048, 2.0**64, 65504.0, 2049.0,
]  # fmt: skip

INTEGER_TYPES = [
    getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)
]


def key_groups(columns: Sequence[pa.Array], max_parallelism: int) -> npt.NDArray[Any]:
    """Return the key group of each row, from its channel with one channel per group."""
    groups = np.arange(max_parallelism, dtype=np.uint32)
    return row_channels(columns, groups, partial(key_group, max_parallelism=max_parallelism))


def assert_groups_are_those_of_the_values(
    *columns: pa.Array, max_parallelisms: Iterable[int] = (GROUPS,)
) -> None:
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
    keys = [row[0] for row in rows] if len(columns) == 1 else rows
    for max_parallelism in max_parallelisms:
        groups = key_groups(columns, max_parallelism)
        assert groups.tolist() == [key_group(key, max_parallelism) for key in keys]


def limits_of(integer: pa.DataType) -> range:
    """Return all values of an integer type."""
    limits = np.iinfo(integer.to_pandas_dtype())
    return range(int(limits.min), int(limits.max) + 1)


@pytest.mark.parametrize("integer", INTEGER_TYPES, ids=str)
def test_integers(integer: pa.DataType) -> None:
    """All sizes are covered, in each of msgpack's forms and in any order."""
    values = [value for value in BORDERS if value in limits_of(integer)]
    column = pa.array(values, integer)
    assert_groups_are_those_of_the_values(column, max_parallelisms=(1, 2, 7, 128, GROUPS))
    Random(5).shuffle(values)
    assert_groups_are_those_of_the_values(pa.array(values, integer))
    for value in values:
        assert_groups_are_those_of_the_values(pa.array([value], integer))


@settings(max_examples=60)
@given(st.sampled_from(INTEGER_TYPES), st.data())
def test_any_integers(integer: pa.DataType, data: st.DataObject) -> None:
    limits = limits_of(integer)
    values = data.draw(st.lists(st.integers(limits[0], limits[-1]), max_size=20))
    assert_groups_are_those_of_the_values(pa.array(values, integer))


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_floats(bits: int) -> None:
    """A whole float hashes as the equal integer.

    The two zeros do not differ, and all NaNs are one key.
    """
    kind = np.dtype(f"float{bits}")
    with np.errstate(over="ignore"):
        values = np.array(FLOATS, kind)
    assert_groups_are_those_of_the_values(pa.array(values))
    for value in values:
        assert_groups_are_those_of_the_values(pa.array([value], pa.from_numpy_dtype(kind)))


@settings(max_examples=60)
@given(st.lists(st.floats() | st.integers(-(2**53), 2**53).map(float), max_size=20))
def test_any_floats(values: list[float]) -> None:
    assert_groups_are_those_of_the_values(pa.array(values, pa.float64()))


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_floats_that_are_no_number_are_one_key(bits: int) -> None:
    """Their bits do not matter, as for a value in a row."""
    quiet = {16: 0x7E00, 32: 0x7FC0_0000, 64: 0x7FF8_0000_0000_0000}[bits]
    patterns = [quiet, quiet | 1, quiet | 1 << bits - 1]
    column = pa.array(np.array(patterns, f"uint{bits}").view(f"float{bits}"))
    assert key_groups([column], GROUPS).tolist() == [key_group(nan, GROUPS)] * 3
    assert key_groups([column, column], GROUPS).tolist() == [key_group((nan, nan), GROUPS)] * 3


def test_equal_numbers_of_different_types_meet() -> None:
    numbers = [0, 1, 2, 100]
    columns = [
        pa.array(numbers).cast(kind) for kind in (*INTEGER_TYPES, pa.float32(), pa.float64())
    ]
    expected = [key_group(number, GROUPS) for number in numbers]
    for column in columns:
        assert key_groups([column], GROUPS).tolist() == expected
        assert key_groups([column.dictionary_encode()], GROUPS).tolist() == expected
    booleans = pa.array([False, True])
    assert key_groups([booleans], GROUPS).tolist() == expected[:2]


TEXTS = ["", "a", "flügel", "x" * 31, "x" * 32, "x" * 256, "x" * 70_000, "a"]
OTHERS = {
    "booleans": pa.array([True, False, True]),
    "strings": pa.array(TEXTS),
    "long strings": pa.array(TEXTS, pa.large_string()),
    "string views": pa.array(TEXTS, pa.string_view()),
    "bytes": pa.array([text.encode() for text in TEXTS]),
    "long bytes": pa.array([text.encode() for text in TEXTS], pa.large_binary()),
    "bytes of one size": pa.array([b"ab", b"cd", b"ab"], pa.binary(2)),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "dictionary of numbers": pa.array([5, -5, 5]).dictionary_encode(),
    "dictionary with small indices": pa.DictionaryArray.from_arrays(
        pa.array([2, 0, 2], pa.uint8()), pa.array(["a", "b", "c"])
    ),
    "dictionary with one value twice": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2]), pa.array(["a", "b", "a"])
    ),
}


@pytest.mark.parametrize("column", OTHERS.values(), ids=OTHERS)
def test_other_values(column: pa.Array) -> None:
    """This includes a part of a column that begins in the middle of its memory."""
    assert_groups_are_those_of_the_values(column, max_parallelisms=(1, 128, GROUPS))
    for part in (column[1:], column[1:2], column[:0]):
        assert_groups_are_those_of_the_values(part)


@pytest.mark.parametrize(
    "kind", [*INTEGER_TYPES, pa.float16(), pa.float32(), pa.float64()], ids=str
)
def test_parts_of_numbers(kind: pa.DataType) -> None:
    column = pa.array([1, 2, 3, 4]).cast(kind)
    for part in (column[1:3], column[3:], column[:0], column[4:]):
        assert_groups_are_those_of_the_values(part)


def test_several_columns_are_a_tuple() -> None:
    """They may be of any kind, and their order matters."""
    random = Random(3)
    rows = 500
    columns = [
        pa.array([random.randrange(-3, 3) for _ in range(rows)]),
        pa.array([random.choice([0.0, -0.0, 0.5, 1.0, nan]) for _ in range(rows)]),
        pa.array([random.choice("abc") for _ in range(rows)]),
        pa.array([random.choice("de") for _ in range(rows)]).dictionary_encode(),
        pa.array([random.random() < 0.5 for _ in range(rows)]),
    ]
    assert_groups_are_those_of_the_values(*columns)
    assert_groups_are_those_of_the_values(*reversed(columns))
    for one in columns:
        for other in columns:
            assert_groups_are_those_of_the_values(one, other)
            assert_groups_are_those_of_the_values(one[100:110], other[3:13])
            assert_groups_are_those_of_the_values(one[:0], other[:0])


def test_several_columns_of_many_values() -> None:
    """There are so many that numbers for all combinations would not fit 64 bits."""
    random = Random(4)
    columns = [pa.array([random.getrandbits(60) for _ in range(600)]) for _ in range(8)]
    assert_groups_are_those_of_the_values(*columns)


def nanoseconds(kind: pa.DataType) -> pa.Array:
    """Return times that Python can represent, and the epoch."""
    return pa.array([1_700_000_000_123_456_000, 0, -86_400_000_001_000, 7_000], kind)


ZONE = "Europe/Berlin"
TEMPORAL: dict[str, pa.Array] = {
    "dates": pa.array([0, 1, -1, 20_000, None], pa.date32()),
    "dates in milliseconds": pa.array([date(2026, 11, 22), date(1905, 1, 1), None], pa.date64()),
    "times in seconds": pa.array([time(1, 2, 3), time(), None], pa.time32("s")),
    "times in milliseconds": pa.array([time(1, 2, 3, 4_000), time(), None], pa.time32("ms")),
    "times": pa.array([time(23, 59, 59, 999_999), time(0, 0, 0, 1), None], pa.time64("us")),
    "times in nanoseconds": pa.array([3_723_000_004_000, 0, None], pa.time64("ns")),
    **{
        f"timestamps in {unit}{' of a zone' if zone else ''}": pa.array(
            [datetime(2026, 11, 22, 1, 2, 3), datetime(1905, 3, 4), datetime(1970, 1, 1), None]
        ).cast(pa.timestamp(unit, zone), safe=False)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", ZONE, "+05:30")
    },
    **{
        f"durations in {unit}": pa.array(
            [timedelta(1, 2), timedelta(-3), timedelta(), None], pa.duration(unit)
        )
        for unit in ("s", "ms", "us", "ns")
    },
    "nanoseconds": nanoseconds(pa.timestamp("ns")),
}
EXACT: dict[str, pa.Array] = {
    **{
        f"decimals of {bits} bits": pa.array(
            [Decimal("1.00"), Decimal("-0.10"), Decimal("0.25"), None],
            getattr(pa, f"decimal{bits}")(9, 2),
        )
        for bits in (32, 64, 128, 256)
    },
    "long decimals": pa.array([Decimal(10**60), Decimal(10**60 + 1)], pa.decimal256(62)),
    "UUIDs": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([b"x" * 16, b"y" * 16, None, b"x" * 16], pa.binary(16))
    ),
    "string views": pa.array(["a", None, "a long text beyond what a view holds"], pa.string_view()),
    "byte views": pa.array([b"a", None, b"a"], pa.binary_view()),
    "lists": pa.array([[1, 2], None, [1, 2], [None]]),
    "runs": pa.RunEndEncodedArray.from_arrays([1, 3, 4], ["a", None, "b"]),
    "dictionary of timestamps": pa.array([0, 1, 0, None], pa.timestamp("ms")).dictionary_encode(),
}
NULLABLE: dict[str, pa.Array] = {
    **{str(kind): pa.array([1, None, 3], kind) for kind in INTEGER_TYPES},
    **{f"float{bits}": pa.array([1.5, None, nan], f"float{bits}") for bits in (16, 32, 64)},
    "booleans": pa.array([None, True]),
    "strings": pa.array(["a", None]),
    "bytes": pa.array([b"a", None, b""]),
    "nulls": pa.nulls(3),
    "dictionary": pa.array(["a", None]).dictionary_encode(),
    "dictionary with a null": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 0]), pa.array(["a", None, "b"])
    ),
    "dictionary of nulls": pa.DictionaryArray.from_arrays(
        pa.array([None, 0]), pa.array([None], pa.string())
    ),
    "dictionary of nothing": pa.DictionaryArray.from_arrays(
        pa.array([None, None], pa.int8()), pa.array([], pa.string())
    ),
}


@pytest.mark.parametrize("columns", [TEMPORAL, EXACT, NULLABLE], ids=["temporal", "exact", "null"])
def test_a_row_hashes_as_the_record_of_its_key_whatever_the_column(
    columns: dict[str, pa.Array],
) -> None:
    """Dates, times, Decimals, UUIDs and nulls are covered, alone and as a part of a key.

    A column may begin in the middle of its memory.
    """
    for column in columns.values():
        assert_groups_are_those_of_the_values(column, max_parallelisms=(1, 128, GROUPS))
        assert_groups_are_those_of_the_values(column[1:])
        assert_groups_are_those_of_the_values(column[:0])
        other = pa.array([number % 2 for number in range(len(column))])
        assert_groups_are_those_of_the_values(column, other)
        assert_groups_are_those_of_the_values(other, column)


def test_times_beyond_pythons_have_a_group_to_the_microsecond() -> None:
    """No value of a column is refused because Python could not represent it."""
    fine = pa.array([1_999, 1_000, -1, -1_000], pa.timestamp("ns"))
    coarse = pa.array([1, 1, -1, -1], pa.timestamp("us"))
    assert key_groups([fine], GROUPS).tolist() == key_groups([coarse], GROUPS).tolist()
    times = pa.array([1_999, 1_000], pa.time64("ns"))
    assert len(set(key_groups([times], GROUPS).tolist())) == 1
    far = pa.array([2**62, -(2**62)], pa.timestamp("s"))
    assert len(key_groups([far, far], GROUPS)) == 2


def test_nanoseconds_of_rows_and_columns_meet() -> None:
    """This includes times before the epoch."""
    nanoseconds = [1_500, 999, -1, -1_500, 1_700_000_000_123_456_789]
    groups = key_groups([pa.array(nanoseconds, pa.timestamp("ns"))], 32_768).tolist()
    for make in (pd.Timestamp, lambda value: np.datetime64(value, "ns")):
        assert [key_group(make(value), 32_768) for value in nanoseconds] == groups


def test_a_zone_is_only_another_way_to_write_an_instant() -> None:
    instants = pa.array([0, 1_700_000_000], pa.timestamp("s", "UTC"))
    elsewhere = instants.cast(pa.timestamp("ns", ZONE))
    expected = key_groups([instants], GROUPS).tolist()
    assert key_groups([elsewhere], GROUPS).tolist() == expected
    assert key_groups([instants.cast(pa.timestamp("s"))], GROUPS).tolist() != expected


def test_only_what_occurs_counts() -> None:
    """Other values in a dictionary, or in the memory around a part of a column, do not count."""
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 2, 0]), pa.array(["a", None, "b"]))
    assert_groups_are_those_of_the_values(dictionary)
    assert_groups_are_those_of_the_values(dictionary, dictionary)
    for column in (pa.array([1, None, 2]), pa.array(["a", None, "b"])):
        assert_groups_are_those_of_the_values(column[2:])
        assert_groups_are_those_of_the_values(column[2:], column[:1])


UNHASHABLE: list[Any] = [
    pa.array([{"a": 1}]),
    pa.array([[{"a": 1}]]),
]


@pytest.mark.parametrize("column", UNHASHABLE, ids=lambda column: str(column.type))
def test_a_key_that_cannot_be_hashed_is_refused(column: pa.Array) -> None:
    for columns in ([column], [column, pa.array([1])]):
        with pytest.raises(SerializationError, match="cannot be hashed") as refused:
            key_groups(columns, GROUPS)
        assert "a key is None, a number" in str(refused.value)
