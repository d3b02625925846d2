"""State of a key in one window, and in all its windows."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.context import ProcessContext
from flinknet.functions.durations import Time
from flinknet.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateKind,
    ValueStateDescriptor,
)
from flinknet.state.keyed_state import KeyedState
from flinknet.state.time_to_live import StateTtlConfig
from flinknet.state.window_state import GlobalStateStore, WindowStateStore

VALUE, LIST, MAP = ValueStateDescriptor("v"), ListStateDescriptor("l"), MapStateDescriptor("m")
FIRST, SECOND = (0, 10), (10, 20)


class Total:
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator


REDUCING = ReducingStateDescriptor("r", int.__add__)
AGGREGATING = AggregatingStateDescriptor("a", Total())


class Stores:
    def __init__(self, *, merges: bool = False) -> None:
        self.state, self.view = KeyedState(), ProcessContext()
        self.of_window = WindowStateStore(self.state, self.view, merges=merges)
        self.of_key = GlobalStateStore(self.state, self.view)

    def at(self, key: Any, window: tuple[int, int]) -> WindowStateStore:
        self.view.current_key = key
        self.of_window.enter(window)
        return self.of_window


def write(store: GlobalStateStore, number: int) -> None:
    store.get_state(VALUE).update(number)
    store.get_list_state(LIST).add(number)
    store.get_map_state(MAP).put("n", number)
    store.get_reducing_state(REDUCING).add(number)
    store.get_aggregating_state(AGGREGATING).add(number)


def read(store: GlobalStateStore) -> list[Any]:
    return [
        store.get_state(VALUE).value(),
        list(store.get_list_state(LIST).get()),
        dict(store.get_map_state(MAP).items()),
        store.get_reducing_state(REDUCING).get(),
        store.get_aggregating_state(AGGREGATING).get(),
    ]


NOTHING: list[Any] = [None, [], {}, None, None]


def test_each_window_of_each_key_has_its_own() -> None:
    stores = Stores()
    write(stores.at("a", FIRST), 1)
    write(stores.at("a", FIRST), 1)
    write(stores.at("a", SECOND), 5)
    write(stores.at("b", FIRST), 7)
    assert read(stores.at("a", FIRST)) == [1, [1, 1], {"n": 1}, 2, 2]
    assert read(stores.at("a", SECOND)) == [5, [5], {"n": 5}, 5, 5]
    assert read(stores.at("b", FIRST)) == [7, [7], {"n": 7}, 7, 7]
    assert read(stores.at("b", SECOND)) == NOTHING


def test_all_of_it_goes_with_the_window() -> None:
    stores = Stores()
    write(stores.at("a", FIRST), 1)
    write(stores.at("a", SECOND), 5)
    stores.at("a", FIRST).remove()
    assert read(stores.of_window) == NOTHING
    stores.at("a", SECOND).remove()
    stores.at("b", SECOND).remove()
    assert not any(len(entry.table) for entry in stores.state.entries.values())


def test_state_may_be_cleared_before() -> None:
    stores = Stores()
    write(stores.at("a", FIRST), 1)
    for state in (
        stores.of_window.get_state(VALUE),
        stores.of_window.get_list_state(LIST),
        stores.of_window.get_map_state(MAP),
        stores.of_window.get_reducing_state(REDUCING),
        stores.of_window.get_aggregating_state(AGGREGATING),
    ):
        state.clear()
        state.clear()
    assert read(stores.of_window) == NOTHING


def test_global_state_is_that_of_the_key() -> None:
    stores = Stores(merges=True)
    stores.at("a", FIRST)
    write(stores.of_key, 1)
    stores.at("a", SECOND)
    write(stores.of_key, 2)
    assert read(stores.of_key) == [2, [1, 2], {"n": 2}, 3, 3]
    stores.of_window.remove()
    assert read(stores.of_key) == [2, [1, 2], {"n": 2}, 3, 3]
    stores.at("b", FIRST)
    assert read(stores.of_key) == NOTHING


def test_a_state_is_made_once() -> None:
    stores = Stores()
    for store in (stores.of_window, stores.of_key):
        assert store.get_state(VALUE) is store.get_state(ValueStateDescriptor("v"))


def test_restored_window_state_is_removed_without_a_request() -> None:
    stores = Stores()
    write(stores.at("a", FIRST), 1)
    again = WindowStateStore(stores.state, stores.view, merges=False)
    again.enter(FIRST)
    again.remove()
    assert not any(len(entry.table) for entry in stores.state.entries.values())


def test_a_capture_does_not_see_what_comes_behind_it() -> None:
    stores = Stores()
    write(stores.at("a", FIRST), 1)
    table = stores.state.table("_window_state/l", StateKind.MAP)
    capture = table.capture()
    stores.of_window.get_list_state(LIST).add(2)
    assert dict(capture.entries()) == {"a": {FIRST: [1]}}
    assert list(stores.of_window.get_list_state(LIST)) == [1, 2]
    capture.close()


def test_invalid_combinations_are_refused() -> None:
    with pytest.raises(ConfigurationError, match='"v" is state of a window, and session windows'):
        Stores(merges=True).at("a", FIRST).get_state(VALUE)
    expiring = ValueStateDescriptor("v")
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(ConfigurationError, match="neither a time to live nor a serializer"):
        Stores().at("a", FIRST).get_state(expiring)
    stores = Stores()
    stores.of_window.get_state(VALUE)
    with pytest.raises(ConfigurationError, match="cannot be a list state, too"):
        stores.of_window.get_list_state(ListStateDescriptor("v"))
    stores.of_key.get_state(VALUE)
    with pytest.raises(ConfigurationError, match="cannot be a list state, too"):
        stores.of_key.get_list_state(ListStateDescriptor("v"))
