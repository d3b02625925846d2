"""A map per key."""

from __future__ import annotations

from flinknet.task.state.map_state import MapState
from tests.unit.task.state.backends import Backends
from tests.unit.task.state.keys import Key


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
