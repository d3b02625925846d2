"""The state of a keyed operator, by name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flinknet.datastream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flinknet.errors import ConfigurationError, StateError
from flinknet.state.descriptors import StateKind
from flinknet.state.keyed_state import KeyedState
from tests.unit.state.backends import Backends
from tests.unit.state.keys import Key

KEY = Key("a")
TTL = StateTtlConfig.new_builder(timedelta(seconds=1)).build()


class Hexadecimal:
    def serialize(self, value: int) -> bytes:
        return b"%x" % value

    def deserialize(self, data: bytes) -> int:
        return int(data, 16)


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator


def expiring(descriptor: Any) -> Any:
    descriptor.enable_time_to_live(TTL)
    return descriptor


def test_each_state_has_its_own_values(backends: Backends) -> None:
    state = backends.state()
    state.state(ValueStateDescriptor("count"), KEY).update(1)
    assert state.state(ValueStateDescriptor("sum"), KEY).value() is None
    assert state.state(ValueStateDescriptor("count"), KEY).value() == 1


@pytest.mark.parametrize("wrapped", [lambda one: one, expiring])
def test_every_kind(backends: Backends, wrapped: Any) -> None:
    state = backends.state()
    listed = state.state(wrapped(ListStateDescriptor("list")), KEY)
    listed.add(1)
    assert list(listed) == [1]
    mapped = state.state(wrapped(MapStateDescriptor("map")), KEY)
    mapped.put("a", 1)
    assert mapped.get("a") == 1
    reducing = state.state(wrapped(ReducingStateDescriptor("reducing", max)), KEY)
    reducing.add(1)
    assert reducing.get() == 1
    total = AggregatingStateDescriptor("aggregating", Total())
    aggregating = state.state(wrapped(total), KEY)
    aggregating.add(1)
    assert aggregating.get() == 1
    value = state.state(wrapped(ValueStateDescriptor("value")), KEY)
    value.update(1)
    assert value.value() == 1
    assert all(entry.timed == (wrapped is expiring) for entry in state.entries.values())


def test_a_name_is_of_one_kind(backends: Backends) -> None:
    state = backends.state()
    state.state(ValueStateDescriptor("count"), KEY)
    with pytest.raises(ConfigurationError, match="is a state of kind value, and cannot be a list"):
        state.state(ListStateDescriptor("count"), KEY)


def test_a_name_is_kept_in_one_way(backends: Backends) -> None:
    state = backends.state()
    state.state(ValueStateDescriptor("count"), KEY)
    with pytest.raises(ConfigurationError, match="use the same descriptor"):
        state.state(expiring(ValueStateDescriptor("count")), KEY)


def restored(backends: Backends, **fields: Any) -> KeyedState:
    """Return state from a checkpoint that no function has asked for yet."""
    state = backends.state(lambda: 500)
    entry = state.add("count", StateKind.VALUE, **fields)
    written: dict[str, Any] = {"written_by": b"ff", "timed": (1, 255), "": 255}
    entry.table.live["a"] = written["".join(fields)]
    return state


def test_values_that_get_a_time_to_live(backends: Backends) -> None:
    state = restored(backends)
    value = state.state(expiring(ValueStateDescriptor("count")), KEY)
    assert dict(state.entries["count"].table.entries()) == {"a": (500, 255)}
    assert value.value() == 255


def test_values_that_lose_it(backends: Backends) -> None:
    assert restored(backends, timed=True).state(ValueStateDescriptor("count"), KEY).value() == 255


def test_a_serializer_reads_what_it_has_written(backends: Backends) -> None:
    state = restored(backends, written_by="Hexadecimal")
    assert state.entries["count"].serializer_name == "Hexadecimal"
    descriptor = ValueStateDescriptor("count", serializer=Hexadecimal())
    assert state.state(descriptor, KEY).value() == 255
    assert state.entries["count"].serializer_name == "Hexadecimal"
    serialised = state.entries["count"].serialising()
    assert serialised is not None
    assert serialised(255) == b"ff"


def test_another_serializer_does_not(backends: Backends) -> None:
    with pytest.raises(StateError, match="by the serializer Hexadecimal: .* not with none"):
        restored(backends, written_by="Hexadecimal").state(ValueStateDescriptor("count"), KEY)


def test_a_serializer_that_fails(backends: Backends) -> None:
    state = restored(backends, written_by="Hexadecimal")
    state.entries["count"].table.live["a"] = b"xyz"
    descriptor = ValueStateDescriptor("count", serializer=Hexadecimal())
    messages = {
        "heap": "Hexadecimal of state .* cannot read .*ValueError",
        "rocksdb": 'state "count" of operator "Count" .* cannot be read where it is kept',
    }
    with pytest.raises(StateError, match=messages[backends.kind]):
        state.state(descriptor, KEY).value()


def test_values_with_a_serializer_are_copied_by_it(backends: Backends) -> None:
    class Pickled:
        """A value that can only be copied by pickling."""

        def __init__(self, number: int) -> None:
            self.number = number

        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("not so")

    class Numbers:
        def serialize(self, value: Pickled) -> bytes:
            return b"%d" % value.number

        def deserialize(self, data: bytes) -> Pickled:
            return Pickled(int(data))

    state = backends.state()
    listed = state.state(ListStateDescriptor("list", serializer=Numbers()), KEY)
    listed.add(Pickled(1))
    capture = state.entries["list"].table.capture()
    listed.add(Pickled(2))
    assert [one.number for one in listed] == [1, 2]
    assert [[one.number for one in kept] for _, kept in capture.entries()] == [[1]]
    capture.close()
    while state.merge(1):
        pass
    state.entries["list"].table.check_invariants()
    assert [one.number for one in listed] == [1, 2]


def test_flinknets_own_tables(backends: Backends) -> None:
    state = backends.state()
    assert state.table("value", StateKind.REDUCING) is state.table("value", StateKind.REDUCING)
