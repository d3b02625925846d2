"""Descriptors of state."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flinknet.errors import ConfigurationError
from flinknet.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateKind,
    ValueStateDescriptor,
)
from flinknet.state.time_to_live import StateTtlConfig


def test_types_are_taken_as_pyflink_takes_them() -> None:
    descriptors = [
        ValueStateDescriptor("a", "type"),
        ListStateDescriptor("a", "type"),
        MapStateDescriptor("a", "type", "type"),
        ReducingStateDescriptor("a", max, "type"),
        AggregatingStateDescriptor("a", None, "type"),
    ]
    assert [descriptor.get_name() for descriptor in descriptors] == ["a"] * 5
    kinds = [StateKind.VALUE, StateKind.LIST, StateKind.MAP]
    assert [one.kind for one in descriptors] == [*kinds, StateKind.REDUCING, StateKind.AGGREGATING]


@pytest.mark.parametrize("name", ["", 1, None])
def test_a_state_has_a_name(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="non-empty text"):
        ValueStateDescriptor(name)


def test_time_to_live_that_is_disabled_is_none() -> None:
    descriptor = ValueStateDescriptor("a")
    builder = StateTtlConfig.new_builder(timedelta(seconds=1))
    descriptor.enable_time_to_live(builder.build())
    assert descriptor.ttl_config is not None
    disabled = StateTtlConfig.UpdateType.Disabled
    descriptor.enable_time_to_live(builder.set_update_type(disabled).build())
    assert descriptor.ttl_config is None


@pytest.mark.parametrize(
    ("kind", "kept", "timed"),
    [
        (StateKind.VALUE, 1, (7, 1)),
        (StateKind.LIST, [1, 2], [(7, 1), (7, 2)]),
        (StateKind.MAP, {"a": 1}, {"a": (7, 1)}),
    ],
)
def test_times_stand_before_each_value(kind: StateKind, kept: Any, timed: Any) -> None:
    assert kind.with_times(kept, 7) == timed
    assert kind.without_times(timed) == kept
    assert kind.without_times(kind.mapped(str, timed, timed=True)) == kind.mapped(str, kept)
