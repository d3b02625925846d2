"""The classes for two inputs: their abstract methods, and those with a default."""

from __future__ import annotations

import pytest

from flinknet.functions.functions import Function
from flinknet.functions.two_input_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)


@pytest.mark.parametrize(
    ("kind", "methods"),
    [
        (CoMapFunction, {"map1", "map2"}),
        (CoFlatMapFunction, {"flat_map1", "flat_map2"}),
        (CoProcessFunction, {"process_element1", "process_element2"}),
        (KeyedCoProcessFunction, {"process_element1", "process_element2"}),
        (BroadcastProcessFunction, {"process_element", "process_broadcast_element"}),
        (KeyedBroadcastProcessFunction, {"process_element", "process_broadcast_element"}),
    ],
)
def test_both_methods_have_to_be_written(kind: type[Function], methods: set[str]) -> None:
    assert kind.__abstractmethods__ == methods  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="abstract"):
        kind()
