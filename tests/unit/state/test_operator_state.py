"""Operator state: lists and broadcast state."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flinknet.datastream import ListStateDescriptor, MapStateDescriptor, StateTtlConfig
from flinknet.errors import ConfigurationError, StateError
from flinknet.state.operator_state import OperatorStateStore, StateMode
from flinknet.state.value_serializer import ValueSerializer


class Hexadecimal:
    def serialize(self, value: int) -> bytes:
        return b"%x" % value

    def deserialize(self, data: bytes) -> int:
        return int(data, 16)


def test_a_list() -> None:
    store = OperatorStateStore()
    state = store.get_list_state(ListStateDescriptor("positions"))
    state.add(1)
    state.add_all([2, 3])
    state.get().append(4)
    assert list(state) == state.get() == [1, 2, 3]
    state.update([5])
    assert store.get_list_state(ListStateDescriptor("positions")).get() == [5]
    state.clear()
    assert state.get() == []


def test_broadcast_state() -> None:
    state = OperatorStateStore().get_broadcast_state(MapStateDescriptor("rules"))
    assert state.is_empty()
    state.put("a", 1)
    state.put_all({"b": 2, "c": 3})
    state["d"] = 4
    del state["d"]
    state.remove("c")
    assert "a" in state
    assert not state.contains("c")
    assert state["a"] == state.get("a") == 1
    assert state.get("c") is None
    assert list(state) == list(state.keys()) == ["a", "b"]
    assert list(state.values()) == [1, 2]
    assert list(state.items()) == [("a", 1), ("b", 2)]
    state.clear()
    assert state.is_empty()


def test_a_name_is_of_one_mode() -> None:
    store = OperatorStateStore()
    store.get_list_state(ListStateDescriptor("positions"))
    with pytest.raises(ConfigurationError, match="is split state, and cannot be union state"):
        store.get_union_list_state(ListStateDescriptor("positions"))


def test_a_name_has_one_serializer() -> None:
    store = OperatorStateStore()
    store.get_list_state(ListStateDescriptor("positions"))
    with pytest.raises(ConfigurationError, match="use the same descriptor"):
        store.get_list_state(ListStateDescriptor("positions", serializer=Hexadecimal()))


def test_operator_state_does_not_expire() -> None:
    descriptor = ListStateDescriptor("positions")
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(timedelta(seconds=1)).build())
    with pytest.raises(ConfigurationError, match="cannot expire"):
        OperatorStateStore().get_list_state(descriptor)


@pytest.mark.parametrize(("serializer", "name"), [(None, None), (Hexadecimal(), "Hexadecimal")])
def test_restored_state_is_available_on_request(serializer: Any, name: Any) -> None:
    store = OperatorStateStore()
    pack = ValueSerializer().pack
    positions = store.named("positions", StateMode.UNION, name)
    positions.restored = [pack(255 if name is None else b"ff")]
    rules = store.named("rules", StateMode.BROADCAST, name)
    rules.restored = [pack(("a", 255 if name is None else b"ff"))]
    assert positions.serializer_name == rules.serializer_name == name

    listed = ListStateDescriptor("positions", serializer=serializer)
    mapped = MapStateDescriptor("rules", serializer=serializer)
    assert store.get_union_list_state(listed).get() == [255]
    assert store.get_broadcast_state(mapped).get("a") == 255
    assert store.get_broadcast_state(mapped).get("a") == 255
    assert positions.serializer_name == name
    assert positions.restored == [], "it is the list's now"
    assert store.pack(positions, 255) == pack(255 if name is None else b"ff")
    assert store.pack(rules, ("a", 255)) == pack(("a", 255 if name is None else b"ff"))


def test_another_serializer_does_not_read_it() -> None:
    store = OperatorStateStore()
    store.named("positions", StateMode.SPLIT, "Other").restored = [b"\xc0"]
    with pytest.raises(StateError, match="by the serializer Other: .* not with that of records"):
        store.get_list_state(ListStateDescriptor("positions"))


def test_unreadable_state_is_refused() -> None:
    store = OperatorStateStore()
    store.named("positions", StateMode.SPLIT).restored = [b"\xc1"]
    with pytest.raises(StateError, match='"positions" cannot be restored'):
        store.get_list_state(ListStateDescriptor("positions"))
