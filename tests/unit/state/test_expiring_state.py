"""State that expires when it was not used for a while."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flinknet.state.descriptors import StateKind
from flinknet.state.expiring_state import expiring_state, unexpired
from flinknet.state.state_table import StateTable
from flinknet.state.time_to_live import StateTtlConfig
from tests.unit.state.backends import Backends
from tests.unit.state.keys import Key


def config() -> StateTtlConfig.Builder:
    """Return a lifetime of ten milliseconds, with cleanup only on reading."""
    ttl = timedelta(milliseconds=10)
    return StateTtlConfig.new_builder(ttl).disable_cleanup_in_background()


class World:
    """One expiring state and its clock."""

    def __init__(
        self, backends: Backends, kind: StateKind, builder: StateTtlConfig.Builder
    ) -> None:
        self.now_ms = 0
        self.key = Key("a")
        self.table = backends.table()
        self.state: Any = expiring_state(
            self.table, self.key, kind, builder.build(), lambda: self.now_ms
        )


def test_a_value_expires_unless_it_is_written(backends: Backends) -> None:
    world = World(backends, StateKind.VALUE, config())
    world.state.update(1)
    world.now_ms = 9
    assert world.state.value() == 1
    world.state.update(2)
    world.now_ms = 18
    assert world.state.value() == 2
    world.now_ms = 19
    assert world.state.value() is None
    assert len(world.table) == 0
    world.state.clear()


def test_a_value_that_is_read_lives_on(backends: Backends) -> None:
    world = World(backends, StateKind.VALUE, config().update_ttl_on_read_and_write())
    world.state.update(1)
    for now_ms in (9, 18, 27):
        world.now_ms = now_ms
        assert world.state.value() == 1
    world.now_ms = 37
    assert world.state.value() is None


def test_an_expired_value_may_be_seen_once_more(backends: Backends) -> None:
    world = World(backends, StateKind.VALUE, config().return_expired_if_not_cleaned_up())
    world.state.update(1)
    world.now_ms = 10
    assert world.state.value() == 1
    assert world.state.value() is None


def test_elements_of_a_list_expire_one_by_one(backends: Backends) -> None:
    world = World(backends, StateKind.LIST, config())
    world.state.add_all([])
    world.state.add(1)
    world.now_ms = 5
    world.state.add_all([2, 3])
    world.now_ms = 10
    assert list(world.state) == world.state.get() == [2, 3]
    world.state.update([4])
    world.now_ms = 19
    assert list(world.state) == [4]
    world.now_ms = 20
    assert list(world.state) == []
    assert len(world.table) == 0


def test_values_of_a_map_expire_one_by_one(backends: Backends) -> None:
    world = World(backends, StateKind.MAP, config())
    assert world.state.get("a") is None
    world.state.put("a", 1)
    world.now_ms = 5
    world.state.put("b", 2)
    assert world.state.contains("a")
    world.now_ms = 10
    assert not world.state.contains("a")
    assert world.state.get("b") == 2
    assert list(world.state.items()) == [("b", 2)]
    world.state.put("c", 3)
    world.now_ms = 15
    assert list(world.state.keys()) == ["c"]
    world.now_ms = 20
    assert world.state.is_empty()
    assert len(world.table) == 0


def test_one_value_of_a_map_that_is_read_lives_on(backends: Backends) -> None:
    world = World(backends, StateKind.MAP, config().update_ttl_on_read_and_write())
    world.state.put_all({"a": 1, "b": 2})
    world.now_ms = 9
    assert world.state.get("a") == 1
    world.now_ms = 10
    assert list(world.state.items()) == [("a", 1)]


def test_an_expired_value_of_a_map_may_be_seen_once_more(backends: Backends) -> None:
    world = World(backends, StateKind.MAP, config().return_expired_if_not_cleaned_up())
    world.state.put("a", 1)
    world.now_ms = 10
    assert world.state.get("a") == 1
    assert world.state.get("a") is None


@pytest.mark.parametrize("kind", [StateKind.VALUE, StateKind.LIST, StateKind.MAP])
def test_unread_entries_are_cleaned_up(backends: Backends, kind: StateKind) -> None:
    world = World(backends, kind, config().cleanup_incrementally(3))

    def write() -> None:
        if kind is StateKind.VALUE:
            world.state.update(1)
        elif kind is StateKind.LIST:
            world.state.add(1)
        else:
            world.state.put("a", 1)

    for number in range(30):
        world.key.current_key = number
        write()
    world.now_ms = 10
    world.key.current_key = "used"
    for _ in range({"heap": 20, "rocksdb": 200}[backends.kind]):
        write()
    assert [key for key, _ in world.table.entries()] == ["used"]
    world.state.clear()
    write()
    assert len(world.table) == 1


def test_restored_entries_are_cleaned_up() -> None:
    table, key, builder = StateTable(), Key("b"), config().cleanup_incrementally(5)
    table.live.update({"a": [(0, 1), (9, 2)]})
    state = expiring_state(table, key, StateKind.LIST, builder.build(), lambda: 10)
    state.get()
    assert dict(table.entries()) == {"a": [(9, 2)]}


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (StateKind.REDUCING, (0, 1)),
        (StateKind.LIST, [(0, 1)]),
        (StateKind.MAP, {"a": (0, 1)}),
    ],
)
def test_unexpired_values_are_returned_unchanged(kind: StateKind, kept: Any) -> None:
    assert unexpired(kind, config().build(), kept, 9) is kept
    assert unexpired(kind, config().build(), kept, 10) is None
