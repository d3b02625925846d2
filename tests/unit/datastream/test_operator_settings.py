"""Settings of operators: names, descriptions, and operators that cannot be parallel."""

from __future__ import annotations

import pytest

from flinknet.datastream import StreamExecutionEnvironment
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
