from __future__ import annotations

import pickle
from collections.abc import Iterable
from functools import partial
from typing import Any, get_type_hints

from flinknet.functions.context import OnTimerContext, ProcessContext
from flinknet.functions.functions import (
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    find_attributes_fast,
)


class Sum(MapFunction):
    def __init__(self, addend: int) -> None:
        self.addend = addend

    def map(self, value: Any) -> Any:
        return value + self.addend


class First(KeySelector):
    def __init__(self) -> None:
        self.index = 0

    def get_key(self, value: Any) -> Any:
        return value[self.index]


class RestoredInItsOwnWay:
    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class OwnSum(RestoredInItsOwnWay, Sum):
    pass


class OwnFirst(RestoredInItsOwnWay, First):
    pass


def test_a_function_keeps_its_attributes_and_its_method_its_function() -> None:
    function: Sum = pickle.loads(pickle.dumps(OwnSum(3)))
    method = function.map
    restored = vars(function)
    find_attributes_fast(function)
    assert vars(function) == {"addend": 3}
    assert vars(function) is not restored, "the dictionary that pickle has filled is still there"
    function.addend = 4
    assert method(1) == 5


def test_the_object_of_a_method_is_meant_too() -> None:
    select = pickle.loads(pickle.dumps(OwnFirst().get_key))
    restored = vars(select.__self__)
    find_attributes_fast(select)
    assert vars(select.__self__) is not restored
    assert select((7, 8)) == 7


def test_anything_else_is_left_alone() -> None:
    plain = partial(len)
    plain.note = "mine"  # type: ignore[attr-defined]
    attributes = vars(plain)
    kinds: list[Any] = [plain, len, [].append, int, lambda record: record]
    for anything in kinds:
        find_attributes_fast(anything)
    assert vars(plain) is attributes


class NamesContexts(KeyedProcessFunction):
    """Written like PyFlink's programs; a type checker must know these names as types."""

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[int]:
        return [value]

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterable[int] | None:
        return None


def test_the_contexts_of_a_function_are_its_attributes_too() -> None:
    assert get_type_hints(NamesContexts.process_element)["ctx"] is ProcessContext
    assert get_type_hints(NamesContexts.on_timer)["ctx"] is OnTimerContext
