"""The subtask of a function, and the requests that a function may make to it."""

from __future__ import annotations

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.context import ProcessContext
from flinknet.functions.functions import AggregateFunction
from flinknet.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinknet.state.keyed_state import KeyedState
from tests.unit.operators.harness import context


def test_a_function_is_told_its_place_among_the_subtasks() -> None:
    place = context(task_name="Map", index=1, parallelism=4, max_parallelism=64, attempt=2)
    assert place.get_task_name() == "Map"
    assert place.get_task_name_with_subtasks() == "Map (2/4)", "people count from 1"
    assert place.get_index_of_this_subtask() == 1
    assert place.get_number_of_parallel_subtasks() == 4
    assert place.get_max_number_of_parallel_subtasks() == 64
    assert place.get_attempt_number() == 2


def test_each_operator_has_metrics_of_its_own() -> None:
    one, other = context(), context()
    one.metrics["late"] = 3
    assert other.metrics == {}


def test_state_is_of_the_key_in_progress() -> None:
    place = context(keyed_state=KeyedState())
    count = place.get_state(ValueStateDescriptor("count"))
    place.process_context.current_key = "a"
    count.update(1)
    assert place.process_context.get_current_key() == "a"
    place.process_context.current_key = "b"
    assert count.value() is None


def test_every_kind_of_state() -> None:
    place = context(keyed_state=KeyedState())
    place.process_context.current_key = "a"
    listed = place.get_list_state(ListStateDescriptor("list"))
    listed.add(1)
    mapped = place.get_map_state(MapStateDescriptor("map"))
    mapped.put("a", 1)
    reducing = place.get_reducing_state(ReducingStateDescriptor("reducing", max))
    reducing.add(1)
    aggregating = place.get_aggregating_state(AggregatingStateDescriptor("sum", Total()))
    aggregating.add(1)
    assert (list(listed), mapped.get("a"), reducing.get(), aggregating.get()) == ([1], 1, 1, 1)


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator


def test_a_function_without_keys_has_no_state() -> None:
    with pytest.raises(ConfigurationError, match='operator "tested" requests keyed state'):
        context().get_state(ValueStateDescriptor("count"))


def test_a_stream_that_is_not_keyed_has_no_current_key() -> None:
    assert ProcessContext().get_current_key() is None


def test_a_source_that_is_not_timed_may_idle_all_the_same() -> None:
    with context().idle():
        pass
