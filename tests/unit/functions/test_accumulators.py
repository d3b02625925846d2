"""PyFlink's sums and extremes of a field."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import msgspec
import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.accumulators import ExtremeBy, Maximum, Minimum, Projection, Sum
from flinknet.functions.row import Row


class Point(NamedTuple):
    k: str
    n: int


@dataclass
class Plain:
    k: str
    n: int


@dataclass(frozen=True, slots=True)
class Frozen:
    k: str
    n: int


class Packed(msgspec.Struct, frozen=True):
    k: str
    n: int


class Heir(tuple[Any, ...]):
    """A tuple without names."""

    __slots__ = ()


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


NAMED = [(Point, "n"), (Point, 1), (Point, -1), (Plain, "n"), (Frozen, "n"), (Packed, "n")]


@pytest.mark.parametrize(("kind", "field"), [*NAMED, (lambda *fields: Heir(fields), 1)])
def test_results_are_records_of_their_class(kind: Any, field: Any) -> None:
    records = [kind(key, number) for key, number in PAIRS]
    before = repr(records)
    for function, expected in (
        (Sum(field), ("a", 10)),
        (Minimum(field), ("a", 1)),
        (Maximum(field), ("a", 5)),
        (ExtremeBy(field, greatest=False), ("b", 1)),
        (ExtremeBy(field, greatest=True), ("d", 5)),
    ):
        result = reduce(function.reduce, records)
        assert result == kind(*expected)
        assert type(result) is type(records[0])
    assert repr(records) == before


@pytest.mark.parametrize("kind", [Point, Plain, Frozen, Packed])
@pytest.mark.parametrize("field", ["m", 2, -3])
@pytest.mark.parametrize("function", [Sum, lambda field: ExtremeBy(field, greatest=True)])
def test_a_field_that_a_class_has_not_is_refused_by_name(
    kind: Any, field: Any, function: Any
) -> None:
    said = f"a {kind.__name__} has no field {field!r}: choose one of k, n"
    with pytest.raises(TypeError, match=said):
        function(field).reduce(kind("a", 1), kind("b", 2))


def test_a_dataclass_has_no_positions() -> None:
    """Only tuples have them. Position 0 would be taken for the whole object and give a number."""
    with pytest.raises(TypeError, match="a Frozen has no field 0"):
        Sum(0).reduce(Frozen("a", 1), Frozen("a", 1))


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
