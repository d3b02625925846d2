"""The contents of windows, and the arguments of window functions."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.context import ProcessContext
from flinknet.functions.functions import AggregateFunction
from flinknet.functions.window_functions import (
    AggregatedContents,
    ElementContents,
    ReducedContents,
    WindowContents,
    WindowContext,
)
from flinknet.functions.windows import TimeWindow
from flinknet.state.keyed_state import KeyedState
from flinknet.state.window_state import GlobalStateStore, WindowStateStore


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]


class MergingMean(Mean):
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


async def later(one: int, other: int) -> int:
    return one


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (ElementContents(), [1, 2, 3, 6]),
        (ReducedContents(lambda one, other: one + other), [12]),
        (AggregatedContents(MergingMean(), merges=True), [3.0]),
    ],
    ids=["elements", "reduced", "aggregated"],
)
def test_windows_keep_what_is_needed_and_merge_it(
    contents: WindowContents, expected: list[Any]
) -> None:
    one = contents.add(contents.first(1), 2)
    other = contents.add(contents.first(3), 6)
    assert contents.elements(contents.merge(one, other)) == expected


def test_a_function_that_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be a coroutine function here"):
        ReducedContents(later)
    with pytest.raises(ConfigurationError, match="needs an AggregateFunction, not function"):
        AggregatedContents(later, merges=False)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="Mean has no merge, which session windows need"):
        AggregatedContents(Mean(), merges=True)
    with pytest.raises(TypeError, match="Mean has no merge"):
        Mean().merge(1, 2)


def test_a_context_says_where_and_when() -> None:
    state, view = KeyedState(), ProcessContext()
    of_window, of_key = WindowStateStore(state, view, merges=False), GlobalStateStore(state, view)
    context = WindowContext(TimeWindow(0, 10), 9, 1000, of_window, of_key)
    assert context.window() == (0, 10)
    assert (context.window_state(), context.global_state()) == (of_window, of_key)
    assert (context.current_watermark(), context.current_processing_time()) == (9, 1000)
