"""A capture keeps a table's entries as they were, and later changes to the table are not lost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flinknet.records.value_copy import copied
from flinknet.state.state_table import Entries, StateTable, TableCapture

KEYS = strategies.integers(0, 5)


class Holder:
    _entries: Entries


def filled(**entries: Any) -> StateTable:
    table = StateTable()
    table.live.update(entries)
    return table


def test_a_table_without_captures_is_a_plain_dict() -> None:
    assert type(StateTable().live) is dict


def test_later_writes_are_not_captured() -> None:
    table = filled(a=1, b=2)
    capture = table.capture()
    table.live["a"] = 10
    table.live["c"] = 3
    table.live.pop("b")
    assert dict(capture.entries()) == {"a": 1, "b": 2}
    assert dict(table.entries()) == {"a": 10, "c": 3}
    assert len(table) == 2


def test_later_changes_in_place_are_not_captured() -> None:
    table = filled(a=[1])
    capture = table.capture()
    table.live["a"].append(2)
    assert dict(capture.entries()) == {"a": [1]}
    assert table.live["a"] == [1, 2]
    capture.close()
    while table.merge(1):
        pass
    assert table.live == {"a": [1, 2]}


def test_a_removed_value_belongs_to_the_remover() -> None:
    table = filled(a=[1])
    capture = table.capture()
    table.live.pop("a").append(2)
    assert dict(capture.entries()) == {"a": [1]}
    capture.close()
    assert table.live.pop("a", "nothing") == "nothing"


def test_values_removed_after_a_written_capture_are_not_copied() -> None:
    table = filled(a=[1])
    kept = table.live["a"]
    table.capture().close()
    assert table.live["a"] is kept
    assert table.live.pop("a") is kept


def test_after_merging_a_table_is_a_plain_dict_again() -> None:
    table = filled(**{f"key {number}": number for number in range(10)})
    before = table.live
    holder = Holder()
    table.attach(holder)
    capture = table.capture()
    assert holder._entries is table.live is not before
    table.live.update({"key 1": -1, "new": 1})
    table.live.pop("key 2")
    assert not table.merge(100), "what is captured is not touched"
    capture.close()
    capture.close()
    assert [table.merge(1) for _ in range(3)] == [True, True, False], "one deleted, two written"
    assert holder._entries is table.live is before
    assert before == {f"key {n}": n for n in range(10) if n not in (1, 2)} | {"key 1": -1, "new": 1}


def test_an_iteration_outlives_a_capture_and_its_end() -> None:
    table = filled(a=1, b=2)
    entries = table.entries()
    read = [next(entries)]
    table.capture().close()
    assert not table.merge(10), "what is iterated is not touched"
    assert [*read, *entries] == [("a", 1), ("b", 2)]
    table.merge(10)
    assert type(table.live) is dict


def test_an_empty_table_costs_no_layer() -> None:
    table = StateTable()
    capture = table.capture()
    table.live["a"] = 1
    assert dict(capture.entries()) == {}
    assert type(table.live) is dict


def test_a_capture_right_behind_another_shares_its_layers() -> None:
    table = filled(a=[1])
    first = table.capture()
    first.close()
    live = table.live
    second = table.capture()
    assert table.live is live
    table.live["a"].append(2)
    assert dict(second.entries()) == {"a": [1]}


def test_a_table_is_plain_again_when_its_capture_is_detached() -> None:
    table = filled(a=1, b=(2, "two"), c=None)
    capture = table.capture()
    table.live["a"] = 10
    assert capture.detach(2)
    assert capture.detached is None
    assert not table.merge(10), "it is not detached yet"
    assert not capture.detach(2)
    assert not capture.detach(2)
    assert not table.merge(10)
    assert type(table.live) is dict
    table.live.update(b=0, d=4)
    assert capture.detached is not None
    assert dict(capture.entries()) == {"a": 1, "b": (2, "two"), "c": None}
    assert table.live == {"a": 10, "b": 0, "c": None, "d": 4}


def test_mutable_values_are_not_detached() -> None:
    table = filled(a=1, b=([2],))
    capture = table.capture()
    assert capture.detach(1)
    assert not capture.detach(1)
    assert not capture.detach(1)
    table.live["b"][0].append(3)
    assert dict(capture.entries()) == {"a": 1, "b": ([2],)}


def test_several_layers_are_not_detached() -> None:
    table = filled(a=1)
    first = table.capture()
    table.live["b"] = 2
    second = table.capture()
    assert not second.detach(10)
    assert not first.detach(10)
    assert dict(first.entries()) == {"a": 1}
    assert dict(second.entries()) == {"a": 1, "b": 2}


def test_a_capture_that_was_closed_has_nothing() -> None:
    for detaches in (True, False):
        capture = filled(a=1).capture()
        if detaches:
            capture.detach(10)
        capture.close()
        assert not capture.detach(10)
        assert dict(capture.entries()) == {}


def test_a_key_that_cannot_be_looked_up_is_a_type_error() -> None:
    table = filled(a=1)
    table.capture()
    with pytest.raises(TypeError):
        table.live[[]]


class Written:
    """A capture, with its written entries and the expected ones."""

    def __init__(self, capture: TableCapture, plain: dict[Any, Any]) -> None:
        self.capture = capture
        self.expected = {key: copied(value) for key, value in plain.items()}
        self.entries: Iterator[Any] | None = None
        self._written: list[tuple[Any, Any]] = []

    def write(self, count: int | None) -> None:
        if self.entries is None:
            self.entries = self.capture.entries()
        self._written.extend((key, copied(value)) for key, value in islice(self.entries, count))

    def end(self) -> None:
        self.write(None)
        assert len(self._written) == len(self.expected)
        assert dict(self._written) == self.expected
        self.capture.close()


class TableMachine(RuleBasedStateMachine):
    """Any order of changes, captures and merges, beside a plain dict and copies of it."""

    def make_table(self) -> StateTable:
        return StateTable()

    @initialize()
    def begin(self) -> None:
        self.table = self.make_table()
        self.holder = Holder()
        self.table.attach(self.holder)
        self.plain: dict[Any, Any] = {}
        self.captures: list[Written] = []

    @rule(key=KEYS, value=KEYS)
    def write_list(self, key: int, value: int) -> None:
        self.holder._entries[key] = [value]
        self.plain[key] = [value]

    @rule(key=KEYS, value=KEYS)
    def write(self, key: int, value: int) -> None:
        self.holder._entries[key] = self.plain[key] = (value,)

    @rule(key=KEYS, value=KEYS)
    def change(self, key: int, value: int) -> None:
        if isinstance(self.plain.get(key), list):
            self.holder._entries[key].append(value)
            self.plain[key].append(value)

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        assert self.holder._entries.pop(key, None) == self.plain.pop(key, None)

    @rule(key=KEYS)
    def read(self, key: int) -> None:
        assert (key in self.holder._entries) == (key in self.plain)
        assert self.holder._entries.get(key) == self.plain.get(key)

    @rule()
    def capture(self) -> None:
        self.captures.append(Written(self.table.capture(), self.plain))

    @rule(position=strategies.integers(0, 3), entries=strategies.integers(1, 4))
    def detach_some(self, position: int, entries: int) -> None:
        if position < len(self.captures) and self.captures[position].entries is None:
            self.captures[position].capture.detach(entries)

    @rule(position=strategies.integers(0, 3))
    def write_some(self, position: int) -> None:
        if position < len(self.captures):
            self.captures[position].write(1)

    @rule(position=strategies.integers(0, 3))
    def end_capture(self, position: int) -> None:
        if position < len(self.captures):
            self.captures.pop(position).end()

    @rule(position=strategies.integers(0, 3))
    def give_up_capture(self, position: int) -> None:
        if position < len(self.captures):
            self.captures.pop(position).capture.close()

    @rule(entries=strategies.integers(1, 4))
    def merge(self, entries: int) -> None:
        self.table.merge(entries)

    @invariant()
    def nothing_is_lost(self) -> None:
        self.table.check_invariants()
        assert dict(self.table.entries()) == self.plain
        assert len(self.table) == len(self.plain)


TestTable = TableMachine.TestCase
