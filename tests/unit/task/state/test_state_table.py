"""A table is written as it was, whatever is done to it meanwhile, and loses nothing by it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flinknet.task.state.state_table import Entries, StateTable, TableCapture

KEYS = strategies.integers(0, 5)


class Holder:
    _entries: Entries


def filled(**entries: Any) -> StateTable:
    table = StateTable()
    table.live.update(entries)
    return table


def test_a_table_without_captures_is_a_plain_dict() -> None:
    assert type(StateTable().live) is dict


def test_what_is_written_later_is_not_captured() -> None:
    table = filled(a=1, b=2)
    capture = table.capture()
    table.live["a"] = 10
    table.live["c"] = 3
    table.live.pop("b")
    assert dict(capture.entries()) == {"a": 1, "b": 2}
    assert dict(table.entries()) == {"a": 10, "c": 3}
    assert len(table) == 2


def test_what_is_changed_in_place_is_not_captured() -> None:
    table = filled(a=[1])
    capture = table.capture()
    table.live["a"].append(2)
    assert dict(capture.entries()) == {"a": [1]}
    assert table.live["a"] == [1, 2]
    capture.close()
    while table.merge(1):
        pass
    assert table.live == {"a": [1, 2]}


def test_a_removed_value_belongs_to_whoever_removed_it() -> None:
    table = filled(a=[1])
    capture = table.capture()
    table.live.pop("a").append(2)
    assert dict(capture.entries()) == {"a": [1]}
    capture.close()
    assert table.live.pop("a", "nothing") == "nothing"


def test_what_is_removed_after_a_capture_was_written_is_not_copied() -> None:
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


def test_a_key_that_cannot_be_looked_up_is_a_type_error() -> None:
    table = filled(a=1)
    table.capture()
    with pytest.raises(TypeError):
        table.live[[]]


class TableMachine(RuleBasedStateMachine):
    """Any order of changes, captures and merges, beside a plain dict and copies of it."""

    def make_table(self) -> StateTable:
        return StateTable()

    @initialize()
    def begin(self) -> None:
        self.table = self.make_table()
        self.holder = Holder()
        self.table.attach(self.holder)
        self.plain: dict[Any, list[int]] = {}
        self.captures: list[tuple[TableCapture, Iterator[Any], list[Any], dict[int, Any]]] = []

    @rule(key=KEYS, value=KEYS)
    def write(self, key: int, value: int) -> None:
        self.holder._entries[key] = [value]
        self.plain[key] = [value]

    @rule(key=KEYS, value=KEYS)
    def change(self, key: int, value: int) -> None:
        if key in self.plain:
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
        capture = self.table.capture()
        expected = {key: list(value) for key, value in self.plain.items()}
        self.captures.append((capture, capture.entries(), [], expected))

    @rule(position=strategies.integers(0, 3))
    def write_some(self, position: int) -> None:
        if position < len(self.captures):
            _, entries, written, _ = self.captures[position]
            for key, value in islice(entries, 1):
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
        assert dict(self.table.entries()) == self.plain


TestTable = TableMachine.TestCase
