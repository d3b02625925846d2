"""Sums and extremes of a field, as PyFlink has them."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from flinknet.errors import ConfigurationError
from flinknet.task.accumulators import ExtremeBy, Maximum, Minimum, Projection, Sum
from flinknet.task.row import Row

PAIRS = [("a", 3), ("b", 1), ("c", 1), ("d", 5)]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Sum(1), ("a", 10)),
        (Sum(-1), ("a", 10)),
        (Minimum(1), ("a", 1)),
        (Maximum(1), ("a", 5)),
        (ExtremeBy(1, greatest=False), ("b", 1)),
        (ExtremeBy(1, greatest=True), ("d", 5)),
    ],
)
def test_fields_of_tuples(function: Any, expected: tuple[str, int]) -> None:
    assert reduce(function.reduce, PAIRS) == expected


@pytest.mark.parametrize(
    ("field", "one", "other", "expected"),
    [
        (0, 1, 2, 3),
        ("n", Row(k="a", n=1), Row(k="b", n=2), Row(k="a", n=3)),
        (1, Row("a", 1), Row("b", 2), Row("a", 3)),
        (1, ["a", 1], ["b", 2], ["a", 3]),
        ("n", {"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "a", "n": 3}),
    ],
)
def test_fields_of_other_records_which_stay_as_they_are(
    field: Any, one: Any, other: Any, expected: Any
) -> None:
    before = repr((one, other))
    assert Sum(field).reduce(one, other) == expected
    assert repr((one, other)) == before


def test_a_field_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TypeError, match="no field 1"):
        Sum(1).reduce(1, 2)
    for field in (True, 1.5, None):
        with pytest.raises(ConfigurationError, match="position or a name"):
            Sum(field)  # type: ignore[arg-type]


def test_tuples_are_projected() -> None:
    projection = Projection((2, 0))
    assert projection((1, 2, 3)) == (3, 1)
    assert projection.of_type(["a", "b", "c"]) == ["c", "a"]
    with pytest.raises(TypeError, match="only tuples"):
        projection([1, 2, 3])
    with pytest.raises(ConfigurationError, match="0 to 1"):
        projection.of_type(["a", "b"])
    for fields in ((), (-1,), ("a",), (True,)):
        with pytest.raises(ConfigurationError, match="project"):
            Projection(fields)  # type: ignore[arg-type]
