"""Classes that PyFlink's programs subscript with types."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet import datastream

GENERIC = {
    "AggregatingState": 2,
    "AllWindowFunction": 3,
    "AsyncFunction": 2,
    "AsyncRetryPredicate": 1,
    "AsyncRetryStrategy": 1,
    "BroadcastProcessFunction": 3,
    "BroadcastState": 2,
    "ExponentialBackoffDelayRetryStrategy": 1,
    "FixedDelayRetryStrategy": 1,
    "KeyedBroadcastProcessFunction": 4,
    "ListState": 1,
    "MapState": 2,
    "NoRetryStrategy": 1,
    "ProcessAllWindowFunction": 3,
    "ProcessWindowFunction": 4,
    "ReadOnlyBroadcastState": 2,
    "ReducingState": 1,
    "RetryPredicate": 1,
    "Trigger": 2,
    "ValueState": 1,
    "WindowAssigner": 2,
    "WindowFunction": 4,
}
"""PyFlink's generic classes, and the number of types that each takes."""


@pytest.mark.parametrize("name", GENERIC)
def test_a_generic_class_of_pyflink_takes_types(name: str) -> None:
    class_: Any = getattr(datastream, name)
    types = (int,) * GENERIC[name]
    assert class_[types if len(types) > 1 else int] is class_
