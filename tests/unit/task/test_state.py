"""Keyed state: one value per key, found again whatever the key is equal to."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.records.key_groups import key_group
from flinknet.task.context import ProcessContext
from flinknet.task.state import KeyedState, ValueState


@pytest.fixture
def state() -> KeyedState:
    return KeyedState(128)


def value_of(state: KeyedState, key: Any, name: str = "count") -> ValueState:
    """The value of one key."""
    place = ProcessContext()
    place.current_key = key
    return ValueState(state.values_of(name), place)


@pytest.mark.parametrize("key", [1, "a", ("a", 1), None, ["a", 1]])
def test_a_value_is_kept_until_it_is_cleared(state: KeyedState, key: Any) -> None:
    """Also for a key that Python cannot hash."""
    value = value_of(state, key)
    assert value.value() is None
    value.update(7)
    assert value.value() == 7
    value.update(8)
    assert value.value() == 8
    value.clear()
    assert value.value() is None
    value.clear()


def test_each_key_has_its_own_value(state: KeyedState) -> None:
    value_of(state, "a").update(1)
    value_of(state, "b").update(2)
    assert [value_of(state, key).value() for key in "abc"] == [1, 2, None]


def test_each_state_has_its_own_values(state: KeyedState) -> None:
    value_of(state, "a", "count").update(1)
    assert value_of(state, "a", "sum").value() is None


@pytest.mark.parametrize(("one", "same"), [(1, 1.0), (("a", 1), ["a", 1])])
def test_keys_that_arrive_as_equal_share_a_value(state: KeyedState, one: Any, same: Any) -> None:
    """They go to one subtask, so they must be one key there."""
    value_of(state, one).update("kept")
    assert value_of(state, same).value() == "kept"


def test_a_state_is_taken_apart_by_key_groups(state: KeyedState) -> None:
    keys = [f"key {number}" for number in range(50)]
    for number, key in enumerate(keys):
        value_of(state, key).update(number)
    groups = state.key_groups("count")
    assert all(values for values in groups.values())
    assert {
        key: (group, value) for group, values in groups.items() for key, value in values.items()
    } == {key: (key_group(key, 128), number) for number, key in enumerate(keys)}
    assert state.key_groups("of nothing") == {}
