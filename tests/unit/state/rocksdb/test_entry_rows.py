"""An entry is found under every key that equals its own, and is stored once."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from math import nan
from pathlib import Path
from typing import Any

import pytest

from flinknet.config.state import StateConfig
from flinknet.records.serialization.record_types import RecordTypes
from flinknet.state.rocksdb.database import Database, StateRows
from flinknet.state.rocksdb.entry_rows import EntryRows, entries_of
from flinknet.state.rocksdb.row_keys import RowKeys
from flinknet.state.value_serializer import ValueSerializer


class Color(Enum):
    RED = 1


SERIALIZER = ValueSerializer(RecordTypes((Color,)))


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[StateRows]:
    database = Database(tmp_path / "database", "operator", StateConfig())
    yield StateRows(database, "count")
    database.close()


def entry_rows(rows: StateRows) -> EntryRows:
    return EntryRows(rows, RowKeys(3, SERIALIZER, 16))


def stored(rows: StateRows) -> list[Any]:
    """Return the keys of all entries."""
    return [
        SERIALIZER.unpack(key)
        for row, value in rows.iterate(rows.snapshot())
        for _, number, _, key, _ in entries_of(row, value)
        if number == 3
    ]


@pytest.mark.parametrize("first", [1, 1.0, True], ids=repr)
def test_equal_keys_are_one_that_stays_as_it_was(rows: StateRows, first: Any) -> None:
    entries = entry_rows(rows)
    entries.put_all([(first, b"a")])
    for key in (1, 1.0, True):
        found, content = entries.find(key)
        assert (type(found), content) == (type(first), b"a")
    entries.put_all([(True, b"b")])
    assert stored(rows) == [1]
    assert entries.find(1)[1] == b"b"
    entries.remove(1.0)
    assert stored(rows) == []
    assert entries.find(1) == (1, None)


def test_different_keys_share_a_row(rows: StateRows) -> None:
    entries = entry_rows(rows)
    entries.put_all([(1, b"a"), (Color.RED, b"b")])
    assert entries.find(1) == (1, b"a")
    assert entries.find(Color.RED) == (Color.RED, b"b")
    entries.put_all([(1, b"c"), (True, b"d")])
    assert entries.find(1)[1] == b"d"
    assert len(stored(rows)) == 2
    entries.remove(1)
    assert stored(rows) == [Color.RED]
    entries.remove(Color.RED)
    assert list(rows.iterate(rows.snapshot())) == []


def test_nan_is_one_key(rows: StateRows) -> None:
    entries = entry_rows(rows)
    entries.put_all([(nan, b"a"), (True, b"")])
    entries.put_all([(nan, b"b")])
    assert entries.find(float("nan"))[1] == b"b"
    assert len(stored(rows)) == 2
    entries.remove(nan)
    assert stored(rows) == [True]


@pytest.mark.parametrize("key", [7, "seven", 2.5, None, True, Color.RED, (1, True)], ids=repr)
def test_a_place_is_that_of_the_entry(rows: StateRows, key: Any) -> None:
    entries = entry_rows(rows)
    entries.put_all([(key, b"value")])
    ((row, value),) = rows.iterate(rows.snapshot())
    ((_, number, place, packed, content),) = entries_of(row, value)
    assert (number, place, content) == (3, entries.place_of(key), b"value")
    assert packed == SERIALIZER.pack(key)
