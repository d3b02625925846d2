"""A map per key."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping
from typing import Any

import pytest

from flinknet.state.map_state import MapState
from flinknet.state.operator_state import BroadcastState
from tests.unit.state.backends import Backends
from tests.unit.state.keys import Key, expiring


def test_a_map(backends: Backends) -> None:
    table, key = backends.table(), Key(1)
    state = MapState(table, key)
    assert state.is_empty()
    assert state.get("a") is None
    state.remove("a")
    state.put("a", 1)
    state.put_all({"b": 2, "c": 3})
    state["d"] = 4
    assert state.contains("a")
    assert "d" in state
    assert "e" not in state
    assert state["b"] == state.get("b") == 2
    del state["d"]
    state.remove("c")
    assert list(state.items()) == [("a", 1), ("b", 2)]
    assert list(state) == list(state.keys()) == ["a", "b"]
    assert list(state.values()) == [1, 2]
    key.current_key = 2
    assert state.is_empty()
    key.current_key = 1
    state.remove("a")
    state.remove("b")
    assert len(table) == 0, "a map without entries is none"
    state.put("a", 1)
    state.clear()
    assert state.is_empty()


def plain_map(backends: Backends) -> Any:
    return MapState(backends.table(), Key("a"))


def expiring_map(backends: Backends) -> Any:
    return expiring(backends, "map")


def broadcast_map(backends: Backends) -> Any:
    return BroadcastState()


MAPS = [plain_map, expiring_map, broadcast_map]


class Doubled(Mapping[int, int]):
    """The entries of a state with other keys, made while they are iterated."""

    def __init__(self, state: Any, *, fails: bool = False) -> None:
        self._state = state
        self._fails = fails

    def __getitem__(self, key: int) -> int:
        return int(self._state[key // 2])

    def __iter__(self) -> Iterator[int]:
        for key in self._state:
            yield 2 * key
        if self._fails:
            raise OSError("no more")

    def __len__(self) -> int:
        return len(list(self._state.keys()))

    def items(self) -> ItemsView[int, int]:
        return ItemsView(self)


@pytest.mark.parametrize("make", MAPS)
def test_entries_may_be_made_of_the_map_itself(
    backends: Backends, make: Callable[[Backends], Any]
) -> None:
    state = make(backends)
    state.put_all({3: 1, 5: 2})
    state.put_all(Doubled(state))
    assert dict(state.items()) == {3: 1, 5: 2, 6: 1, 10: 2}
    with pytest.raises(OSError, match="no more"):
        state.put_all(Doubled(state, fails=True))
    assert dict(state.items()) == {3: 1, 5: 2, 6: 1, 10: 2}, "nothing has changed"


@pytest.mark.parametrize("make", MAPS)
@pytest.mark.parametrize("nan", [lambda: float("nan"), lambda: (float("nan"), "b")])
def test_all_nan_are_one_key(
    backends: Backends, make: Callable[[Backends], Any], nan: Callable[[], Any]
) -> None:
    state = make(backends)
    state.put("other", 0)
    for value in (1, 2, 3):
        state.put(nan(), value)
        assert state.get(nan()) == state[nan()] == value
        assert state.contains(nan())
    assert len(list(state.keys())) == 2
    state.put_all({nan(): 4})
    assert state.get(nan()) == 4
    state.remove(nan())
    assert not state.contains(nan())
    assert state.get(nan()) is None
    assert list(state.keys()) == ["other"]


def test_a_nan_is_found_when_its_map_was_written_and_read(backends: Backends) -> None:
    table, key = backends.table(), Key("a")
    state = MapState(table, key)
    state.put(float("nan"), 1)
    for other in range(10):  # more than RocksDB's table keeps in memory
        key.current_key = other
        state.put("x", other)
    key.current_key = "a"
    state.put(float("nan"), 2)
    assert [*state.values()] == [2]
