"""Settings of operators: names, descriptions, and operators that cannot be parallel."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flinknet.datastream import (
    CollectionSource,
    DataStream,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flinknet.datastream.operator_settings import checked_parallelism
from flinknet.errors import ConfigurationError


def test_names_can_be_asked_for() -> None:
    stream = StreamExecutionEnvironment().from_collection([1]).map(str)
    assert stream.get_name() == "Map"
    assert stream.name("text").get_name() == "text"
    assert stream.print().name("out").get_name() == "out"


def test_an_operator_that_is_not_parallel_stays_so() -> None:
    environment = StreamExecutionEnvironment().set_parallelism(4)
    stream = environment.from_collection([1]).map(str).force_non_parallel()
    assert stream.set_parallelism(1) is stream
    with pytest.raises(ConfigurationError, match="not parallel"):
        stream.set_parallelism(2)
    stream.print()
    assert environment.job_graph().vertices[1].max_parallelism == 1


def test_a_slot_sharing_group_is_a_name() -> None:
    stream = StreamExecutionEnvironment().from_collection([1])
    with pytest.raises(ConfigurationError, match="is a name"):
        stream.slot_sharing_group(object())  # type: ignore[arg-type]


@pytest.mark.parametrize("parallelism", [0, True, 1.5, 1 << 16])
def test_a_parallelism_is_a_positive_number(parallelism: int) -> None:
    with pytest.raises(ConfigurationError, match="parallelism"):
        checked_parallelism(parallelism)


def change(setting: str, *values: object) -> Callable[[DataStream], object]:
    return lambda stream: getattr(stream, setting)(*values)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], (1, 128, "default")),
        ([change("set_parallelism", 3)], (3, 128, "default")),
        ([change("set_max_parallelism", 7)], (1, 7, "default")),
        ([change("force_non_parallel")], (1, 1, "default")),
        ([change("slot_sharing_group", "in")], (1, 128, "in")),
    ],
    ids=["none", "parallelism", "max parallelism", "not parallel", "slots"],
)
def test_a_source_and_its_timestamps_are_one_task(
    changes: list[Callable[[DataStream], object]], expected: tuple[int, int, str]
) -> None:
    """Subtasks of other parallelism in between would change the order of a key's records."""
    environment = StreamExecutionEnvironment().set_parallelism(2)
    monotonous = WatermarkStrategy.for_monotonous_timestamps()
    by_value = monotonous.with_timestamp_assigner(lambda value, _: value)
    stream = environment.from_source(CollectionSource(range(9)), by_value, "numbers")
    for make in changes:
        make(stream)
    stream.key_by(lambda value: 0).map(str).print()
    source = environment.job_graph().vertices[0]
    assert source.name == "Source: numbers -> Timestamps/Watermarks"
    assert (source.parallelism, source.max_parallelism, source.slot_sharing_group) == expected


def test_the_name_and_the_id_of_a_stream_with_timestamps_are_those_of_its_source() -> None:
    """The source has the state that a job continues with under the same id."""
    environment = StreamExecutionEnvironment()
    monotonous = WatermarkStrategy.for_monotonous_timestamps()
    by_value = monotonous.with_timestamp_assigner(lambda value, _: value)
    stream = environment.from_source(CollectionSource(range(9)), by_value, "numbers")
    assert stream.get_name() == "numbers"
    stream.uid("read").name("readings").set_description("all of them").print()
    (task,) = environment.job_graph().vertices
    assert task.name == "Source: readings -> Timestamps/Watermarks -> Sink: Print"
    assert task.operators[0].uid == "read"
    assert "read" not in {operator.uid for operator in task.operators[1:]}
