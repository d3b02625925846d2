"""A function gets state from each of its stores in the same way."""

from __future__ import annotations

import pytest

from flinknet.functions.context import ProcessContext
from flinknet.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateKind,
    ValueStateDescriptor,
)
from flinknet.state.keyed_state import KeyedState
from flinknet.state.keyed_state_store import KeyedStateStore
from flinknet.state.window_state import GlobalStateStore, WindowStateStore
from tests.unit.operators.harness import context


class Total:
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return -accumulator


def stores() -> list[KeyedStateStore]:
    place = ProcessContext()
    place.current_key = "a"
    of_window = WindowStateStore(KeyedState(), place, merges=False)
    of_window.enter((0, 10))
    in_progress = context(keyed_state=KeyedState(), process_context=place)
    return [in_progress, GlobalStateStore(KeyedState(), place), of_window]


@pytest.mark.parametrize("store", stores(), ids=lambda store: type(store).__name__)
def test_a_getter_for_each_kind_of_state(store: KeyedStateStore) -> None:
    value = store.get_state(ValueStateDescriptor("value"))
    listed = store.get_list_state(ListStateDescriptor("list"))
    mapped = store.get_map_state(MapStateDescriptor("map"))
    reducing = store.get_reducing_state(ReducingStateDescriptor("reducing", max))
    aggregating = store.get_aggregating_state(AggregatingStateDescriptor("total", Total()))
    for number in (3, 1, 2):
        value.update(number)
        listed.add(number)
        mapped.put("n", number)
        reducing.add(number)
        aggregating.add(number)

    assert value.value() == 2
    assert list(listed) == [3, 1, 2]
    assert dict(mapped.items()) == {"n": 2}
    assert reducing.get() == 3
    assert aggregating.get() == -6


def test_each_kind_of_state_has_a_getter() -> None:
    getters = {name for name in vars(KeyedStateStore) if name.startswith("get_")}
    kinds = set(StateKind) - {StateKind.TIMERS}
    assert getters == {
        "get_state" if kind is StateKind.VALUE else f"get_{kind.value}_state" for kind in kinds
    }
