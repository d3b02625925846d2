"""States of triggers, stored with the state of a window."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.durations import Time
from flinknet.functions.functions import AggregateFunction
from flinknet.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinknet.state.time_to_live import StateTtlConfig
from flinknet.state.trigger_state import merged_memory, merged_state, state_in


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


VALUE = ValueStateDescriptor("value")
LIST = ListStateDescriptor("list")
MAP = MapStateDescriptor("map")
LARGEST = ReducingStateDescriptor("largest", max)
MEAN = AggregatingStateDescriptor("mean", Mean())


def test_states_of_every_kind_are_views_of_the_memory() -> None:
    memory: dict[str, Any] = {}
    state_in(memory, VALUE).update("x")
    state_in(memory, LIST).add(1)
    state_in(memory, LIST).add(2)
    state_in(memory, MAP).put("a", 1)
    for value in (3, 5, 4):
        state_in(memory, LARGEST).add(value)
        state_in(memory, MEAN).add(value)
    assert memory == {
        "value": "x",
        "list": [1, 2],
        "map": {"a": 1},
        "largest": 5,
        "mean": (12, 3),
    }
    assert state_in(memory, VALUE).value() == "x"
    assert list(state_in(memory, LIST)) == [1, 2]
    assert state_in(memory, MAP).get("a") == 1
    assert state_in(memory, LARGEST).get() == 5
    assert state_in(memory, MEAN).get() == 4.0
    for descriptor in (VALUE, LIST, MAP, LARGEST, MEAN):
        state_in(memory, descriptor).clear()
    assert memory == {}


def test_a_state_of_a_trigger_neither_expires_nor_has_a_serializer() -> None:
    expiring = ValueStateDescriptor("seen")
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(ConfigurationError, match='"seen" is state of a window'):
        state_in({}, expiring)


def test_an_object_other_than_a_descriptor_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="with a descriptor, not str"):
        state_in({}, "seen")


def test_numbers_are_added_up_where_windows_become_one() -> None:
    parts = [{"count": 2, "list": [1]}, {"count": 3, "value": "x"}, {}]
    assert merged_memory(parts) == {"count": 5}


def test_lists_and_what_folds_can_be_merged() -> None:
    parts: list[dict[str, Any]] = [
        {"list": [1], "largest": 4, "mean": (3, 1)},
        {},
        {"list": [2, 3], "mean": (5, 1)},
    ]
    assert merged_state(parts, LIST) == [1, 2, 3]
    assert merged_state(parts, LARGEST) == 4
    assert merged_state(parts, MEAN) == (8, 2)
    assert merged_state([{}, {}], LIST) is None
    assert merged_state([{"largest": 4}, {"largest": 6}], LARGEST) == 6


@pytest.mark.parametrize("descriptor", [VALUE, MAP])
def test_values_and_maps_cannot(descriptor: Any) -> None:
    with pytest.raises(ConfigurationError, match="which cannot be merged"):
        merged_state([{descriptor.name: 1}], descriptor)
