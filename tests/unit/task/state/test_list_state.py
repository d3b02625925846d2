"""A list per key."""

from __future__ import annotations

from flinknet.task.state.list_state import ListState
from tests.unit.task.state.backends import Backends
from tests.unit.task.state.keys import Key


def test_a_list_grows_and_is_replaced(backends: Backends) -> None:
    table, key = backends.table(), Key("a")
    state = ListState(table, key)
    assert list(state.get()) == []
    state.add(1)
    state.add_all(number for number in (2, 3))
    assert list(state) == list(state.get()) == [1, 2, 3]
    key.current_key = "b"
    assert list(state) == []
    state.add_all([4])
    key.current_key = "a"
    state.update([5])
    assert list(state) == [5]
    state.update([])
    assert list(state) == []
    assert dict(table.entries()) == {"b": [4]}
    state.clear()


def test_a_list_that_grows_is_not_that_of_a_checkpoint(backends: Backends) -> None:
    table = backends.table()
    state = ListState(table, Key("a"))
    state.add(1)
    capture = table.capture()
    state.add(2)
    assert dict(capture.entries()) == {"a": [1]}
    assert list(state) == [1, 2]
