"""State that folds all values of a key into one."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.datastream import AggregateFunction, ReduceFunction
from flinknet.errors import ConfigurationError
from flinknet.state.folding_state import AggregatingState, ReducingState
from flinknet.state.value_state import ValueState
from tests.unit.state.backends import Backends
from tests.unit.state.keys import Key


class Largest(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2)


class Mean(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [accumulator[0] + value, accumulator[1] + 1]

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]


@pytest.mark.parametrize("function", [max, Largest()])
def test_reducing(backends: Backends, function: Any) -> None:
    state = ReducingState(ValueState(backends.table(), Key("a")), function)
    assert state.get() is None
    for value in (2, 5, 3):
        state.add(value)
    assert state.get() == 5
    state.clear()
    assert state.get() is None


def test_aggregating(backends: Backends) -> None:
    state = AggregatingState(ValueState(backends.table(), Key("a")), Mean())
    assert state.get() is None
    state.add(1)
    state.add(2)
    assert state.get() == 1.5
    state.clear()
    assert state.get() is None


def test_an_object_other_than_a_function_is_refused(backends: Backends) -> None:
    kept = ValueState(backends.table(), Key("a"))
    with pytest.raises(ConfigurationError, match="ReduceFunction or a callable, not int"):
        ReducingState(kept, 1)
    with pytest.raises(ConfigurationError, match="AggregateFunction, not int"):
        AggregatingState(kept, 1)
