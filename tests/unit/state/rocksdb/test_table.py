"""A table on disk acts like one in memory: no entry is lost or mixed up, whenever it is evicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from math import nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from flinknet.config.state import StateConfig
from flinknet.errors import StateError
from flinknet.records.serialization.record_types import RecordTypes
from flinknet.state.rocksdb.database import Database
from flinknet.state.rocksdb.table import RocksDBTable
from flinknet.state.state_table import Entries, TableCapture
from flinknet.state.value_serializer import ValueSerializer


class Color(Enum):
    RED = 1


@dataclass(frozen=True)
class Point:
    x: int
    y: str


KEYS: list[Any] = [
    *(0, 1, 1.0, True, Color.RED, 2.5, nan, None),
    *("a", b"a", (1, "b"), (1.0, "b"), (True, "b"), Point(1, "b"), ()),
]
"""Equal keys, and different keys with one form."""

SERIALIZER = ValueSerializer(RecordTypes((Color, Point)))


class Holder:
    _entries: Entries


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "database", 'operator "Count" (uid count)', StateConfig())
    yield made
    made.close()
    assert not made.directory.exists()


def table(database: Database, cached_max: int = 2, number: int = 1) -> RocksDBTable:
    return RocksDBTable(
        database,
        number,
        "count",
        serializer=SERIALIZER,
        max_parallelism=4,
        cached_max=cached_max,
    )


def test_little_stays_in_memory_and_all_is_found(database: Database) -> None:
    one = table(database, 200)
    for number in range(10_000):
        assert one.live.get(number) is None
        one.live[number] = [number]
    assert len(one.live) < 400
    assert [one.live[number] for number in range(10_000)] == [[n] for n in range(10_000)]
    assert len(one) == 10_000


def test_values_changed_in_place_are_written_back(database: Database) -> None:
    one = table(database)
    for number in range(100):
        one.live[number] = []
    for number in range(100):
        one.live[number].append(number)
    assert dict(one.entries()) == {number: [number] for number in range(100)}


def test_unchanged_values_are_not_written_again(database: Database) -> None:
    one = table(database)
    for number in range(10):
        one.live[number] = [number]
    one.convert(lambda value: value)
    before = database.rows_written
    assert [one.live[number] for number in range(10)] == [[number] for number in range(10)]
    one.trim()
    assert database.rows_written == before


def test_keys_keep_their_types(database: Database) -> None:
    """Equal keys are one key, and keep the form of the first."""
    one = table(database, 0)
    for key in KEYS:
        if one.live.get(key) is None:
            one.live[key] = repr(key)
        one.trim()
    found = [(repr(key), value) for key, value in one.entries()]
    assert sorted(found) == sorted((value, value) for _, value in found)
    assert len(found) == len({repr(nan) if key != key else key for key in KEYS})
    for key in reversed(KEYS):
        one.live.pop(key)
    assert len(one) == 0
    assert list(one.rows.iterate(one.rows.snapshot())) == []


def test_tables_of_one_database_are_apart(database: Database) -> None:
    one, other = table(database, 0), table(database, 0, number=2)
    one.live["a"], other.live["a"] = 1, 2
    one.trim()
    other.trim()
    assert (one.live["a"], other.live["a"]) == (1, 2)
    assert (dict(one.entries()), dict(other.entries())) == ({"a": 1}, {"a": 2})
    one.convert(lambda value: -value)
    assert (one.live["a"], other.live["a"]) == (-1, 2)


def test_an_invalid_key_is_refused_at_its_lookup(database: Database) -> None:
    one = table(database)
    for key in (2**70, object(), (1, 2**70)):
        with pytest.raises(
            StateError, match=r'state "count" of operator "Count".*cannot be looked'
        ):
            one.live.get(key)
    with pytest.raises(TypeError):
        one.live[[]]


def test_an_unserializable_value_is_refused_when_it_leaves_memory(database: Database) -> None:
    one = table(database, 0)
    one.live["a"] = object()
    with pytest.raises(StateError, match=r"cannot be written where it is kept.*at the key 'a'"):
        one.trim()
    one.live.pop("a")
    assert len(one) == 0


def test_a_capture_of_what_was_converted_since(database: Database) -> None:
    """It shows the values as they were, with the serializer of that time."""
    one = table(database, 0)
    one.live.update({"a": b"a", "b": b"b"})
    one.trim()
    one.live["b"] = b"B"
    capture = one.capture()
    one.use_serializer(str.encode, bytes.decode)
    assert one.live["b"] == "B"
    one.live["a"] = "A"
    one.trim()
    assert dict(capture.entries()) == {"a": b"a", "b": b"B"}
    capture.close()
    capture.close()
    assert dict(one.entries()) == {"a": "A", "b": "B"}
    one.check_invariants()


def test_expired_entries_are_removed_on_disk(database: Database) -> None:
    """Entries of other tables and entries in memory are left alone. Keys may share a row."""
    one, other = table(database, 0), table(database, 0, number=2)
    for key in [*range(100), True, 2.0, Color.RED, "live"]:
        one.live.get(key)
        one.live[key] = other.live[key] = (0, "old") if key != 7 else (9, "new")
    one.trim()
    other.trim()
    assert "live" in one.live, "now it is in memory"
    capture = one.capture()
    assert one.live["live"] == (0, "old")
    row, steps = b"", 0
    while row or not steps:
        row = one.sweep(lambda kept: kept if kept[0] else None, row, 10)
        steps += 1
    assert steps == 21
    assert dict(one.entries()) == {7: (9, "new"), "live": (0, "old")}
    assert len(other) == 102
    capture.close()
    assert one.sweep(lambda kept: (kept[0] + 1, "left"), b"", 1000) == b""
    assert one.live[7] == (10, "left")
    one.check_invariants()


class DiskTableMachine(RuleBasedStateMachine):
    """Any order of changes, captures and merges, beside a plain dict and copies of it."""

    database: Database
    tables = 10

    @initialize(cached_max=strategies.integers(0, 4))
    def begin(self, cached_max: int) -> None:
        type(self).tables += 1
        self.table = table(self.database, cached_max, type(self).tables % 60_000)
        self.holder = Holder()
        self.table.attach(self.holder)
        self.plain: dict[Any, list[int]] = {}
        self.captures: list[tuple[TableCapture, Iterator[Any], list[Any], dict[Any, Any]]] = []

    @rule(key=strategies.sampled_from(KEYS), value=strategies.integers(0, 9))
    def write(self, key: Any, value: int) -> None:
        assert self.holder._entries.get(key) == self.plain.get(key)
        self.holder._entries[key] = [value]
        self.plain[key] = [value]

    @rule(key=strategies.sampled_from(KEYS), value=strategies.integers(0, 9))
    def change(self, key: Any, value: int) -> None:
        if key in self.plain:
            self.holder._entries[key].append(value)
            self.plain[key].append(value)

    @rule(key=strategies.sampled_from(KEYS))
    def remove(self, key: Any) -> None:
        assert self.holder._entries.pop(key, None) == self.plain.pop(key, None)

    @rule(key=strategies.sampled_from(KEYS))
    def read(self, key: Any) -> None:
        assert (key in self.holder._entries) == (key in self.plain)
        assert self.holder._entries.get(key) == self.plain.get(key)

    @rule()
    def trim(self) -> None:
        self.table.trim()

    @rule()
    def convert(self) -> None:
        self.table.convert(lambda value: [*value, -1])
        self.plain = {key: [*value, -1] for key, value in self.plain.items()}

    @rule()
    def capture(self) -> None:
        capture = self.table.capture()
        expected = {key: list(value) for key, value in self.plain.items()}
        self.captures.append((capture, capture.entries(), [], expected))

    @rule(position=strategies.integers(0, 3), count=strategies.integers(1, 3))
    def write_some(self, position: int, count: int) -> None:
        if position < len(self.captures):
            _, entries, written, _ = self.captures[position]
            for key, value in islice(entries, count):
                written.append((key, list(value)))

    @rule(position=strategies.integers(0, 3))
    def end_capture(self, position: int) -> None:
        if position < len(self.captures):
            capture, entries, written, expected = self.captures.pop(position)
            written.extend((key, list(value)) for key, value in entries)
            assert len(written) == len(expected)
            assert dict(written) == expected
            capture.close()

    @rule(position=strategies.integers(0, 3))
    def give_up_capture(self, position: int) -> None:
        if position < len(self.captures):
            self.captures.pop(position)[0].close()

    @rule(entries=strategies.integers(1, 4))
    def merge(self, entries: int) -> None:
        self.table.merge(entries)

    @invariant()
    def nothing_is_lost(self) -> None:
        self.table.check_invariants()
        found = list(self.table.entries())
        assert dict(found) == self.plain
        assert len(found) == len(self.plain)

    def teardown(self) -> None:
        for key in list(self.plain):
            self.table.live.pop(key)
        assert list(self.table.rows.iterate(self.table.rows.snapshot())) == []


def test_any_order_of_changes_captures_and_merges(database: Database) -> None:
    class Machine(DiskTableMachine):
        pass

    Machine.database = database
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
