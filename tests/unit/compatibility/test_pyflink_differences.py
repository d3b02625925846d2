"""PyFlink's names that flinknet lacks are refused, with the reason."""

from __future__ import annotations

import copy
import pickle

import pytest

from flinknet import datastream
from flinknet.compatibility.pyflink_differences import ALL_OF_IT, DIFFERENCES, PyFlinkNames
from flinknet.datastream import KeyedStream, StreamExecutionEnvironment, WatermarkStrategy

REFUSED = [
    (found, method, why)
    for name, differences in DIFFERENCES.items()
    for found in [getattr(datastream, name, None)]
    if isinstance(found, type) and issubclass(found, PyFlinkNames)
    for method, why in differences.items()
    if method != ALL_OF_IT and not hasattr(found, method)
]


@pytest.mark.parametrize(
    ("class_", "method", "why"),
    REFUSED,
    ids=[f"{class_.__name__}.{method}" for class_, method, _ in REFUSED],
)
def test_a_method_that_is_not_here_says_why(
    class_: type[PyFlinkNames], method: str, why: str
) -> None:
    with pytest.raises(AttributeError) as refused:
        getattr(class_.__new__(class_), method)
    assert str(refused.value).endswith(f".{method} is not in flinknet, {why}")


def test_a_program_is_told_where_it_stands() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.raises(AttributeError, match="with_watermark_alignment is not in flinknet, never:"):
        strategy.with_watermark_alignment("group", None)  # type: ignore[attr-defined]
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    keyed = stream.key_by(lambda number: number)
    with pytest.raises(AttributeError, match="get_execution_config is not in flinknet"):
        keyed.get_execution_config()  # type: ignore[attr-defined]


def test_what_pyflink_has_not_either_is_no_attribute() -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(AttributeError, match="'DataStream' object has no attribute 'mop'") as error:
        stream.mop()  # type: ignore[attr-defined]
    assert (error.value.name, error.value.obj) == ("mop", stream)
    assert not hasattr(KeyedStream, "set_uid_hash")


def test_objects_are_pickled_and_copied_as_others_are() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    assert copy.deepcopy(strategy) == pickle.loads(pickle.dumps(strategy)) == strategy
