"""Keys of numpy's, pandas' and msgspec's types, which are equal to Python's."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flinknet.errors import SerializationError
from flinknet.records.columns.key_groups import key_groups
from flinknet.records.key_forms import comparable_key
from flinknet.records.key_groups import key_group, key_hash
from flinknet.records.partitioner import HashPartitioner

NOON = datetime(2026, 11, 22, 12, 0, 0, 7)

EQUAL: list[tuple[Any, ...]] = [
    (7, np.int8(7), np.uint64(7), np.float16(7), np.float32(7), np.float64(7), np.complex64(7)),
    (1, np.True_),
    (0.5, np.float16(0.5), np.float64(0.5)),
    ("a", np.str_("a")),
    (b"a", np.bytes_(b"a")),
    (NOON, np.datetime64(NOON), pd.Timestamp(NOON)),
    (NOON.replace(tzinfo=UTC), pd.Timestamp(NOON, tz="UTC").tz_convert("Europe/Berlin")),
    (timedelta(1, 2, 3), np.timedelta64(timedelta(1, 2, 3)), pd.Timedelta(timedelta(1, 2, 3))),
    (date(2026, 1, 1), np.datetime64("2026-01-01")),
]


@pytest.mark.parametrize("equal", EQUAL, ids=lambda equal: repr(equal[0]))
def test_equal_keys_meet_whichever_came_first(equal: tuple[Any, ...]) -> None:
    """Row by row, and as parts of a key."""
    group = key_group(equal[0], 128)
    for first, second in product(equal, equal):
        assert first == second
        partitioner = HashPartitioner(lambda record: record)
        partitioner.setup(128)
        assert (partitioner.select(first), partitioner.select(second)) == (group, group)
        assert key_hash((first, "a")) == key_hash((second, "a"))


@pytest.mark.parametrize(
    "key", [pd.NaT, np.datetime64("NaT", "us"), np.timedelta64("NaT", "us")], ids=str
)
def test_a_time_that_is_none_is_null(key: object) -> None:
    """As Arrow takes it."""
    assert key_hash(key) == key_hash(None)
    assert comparable_key((key, 1)) == (None, 1)


def test_nanoseconds_of_rows_and_columns_meet() -> None:
    """Also before the epoch."""
    nanoseconds = [1_500, 999, -1, -1_500, 1_700_000_000_123_456_789]
    groups = key_groups([pa.array(nanoseconds, pa.timestamp("ns"))], 32_768).tolist()
    for make in (pd.Timestamp, lambda value: np.datetime64(value, "ns")):
        assert [key_group(make(value), 32_768) for value in nanoseconds] == groups


def test_numbers_that_python_has_no_type_for_are_refused() -> None:
    """Python has no float that long."""
    for key in (np.longdouble(1), np.void(b"a"), np.array([1])):
        with pytest.raises(SerializationError, match=f"a key of type {type(key).__name__}"):
            key_hash(key)


class Frozen(msgspec.Struct, frozen=True):
    name: str
    number: int


class Changing(msgspec.Struct):
    name: str


def test_a_frozen_struct_is_a_key() -> None:
    assert key_hash(Frozen("a", 1)) == key_hash(Frozen("a", 1)) == key_hash(("a", 1))
    with pytest.raises(SerializationError, match="a Struct is a key only if it is frozen"):
        key_hash(Changing("a"))
