"""Arrow arrays with exactly the values they are made of."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flinknet.datastream.connectors.exact_arrays import (
    InexactError,
    are_alike,
    cast_exactly,
    exact_array,
)


@pytest.mark.parametrize("bad", range(9))
def test_the_first_value_that_a_cast_would_change_is_found(bad: int) -> None:
    """This holds for any position, and for any values behind it."""
    values: list[Any] = [None, 1.0, 2.0] * 3
    values[bad:] = [0.5] * (9 - bad)
    with pytest.raises(InexactError, match="0.5 is not exactly a value of the type int64") as error:
        cast_exactly(pa.array(values), pa.int64())
    assert error.value.index == bad
    with pytest.raises(InexactError) as error:
        exact_array(values, pa.int64())
    assert error.value.index == bad


def test_a_value_that_is_refused_beside_others_only_is_named() -> None:
    """An empty text alone would be taken for a struct without fields."""
    kind = pa.struct([("a", pa.int64())])
    with pytest.raises(InexactError, match="was expecting a dict") as refused:
        exact_array([{"a": 1}, {"a": 2}, "", {"a": 3}], kind)
    assert refused.value.index == 2


def test_a_cast_without_values() -> None:
    assert cast_exactly(pa.array([], pa.float64()), pa.int8()).type == pa.int8()
    assert cast_exactly(pa.array([None, None]), pa.date32()).to_pylist() == [None, None]


def test_numbers_that_are_none_survive_a_cast() -> None:
    nan, inf = float("nan"), float("inf")
    array = pa.array([nan, 1.5, inf, None])
    assert repr(cast_exactly(array, pa.float32()).to_pylist()) == repr(array.to_pylist())


def test_dictionaries_are_another_way_to_store_values() -> None:
    texts = pa.array(["a", None, "a"])
    encoded = cast_exactly(texts, pa.dictionary(pa.int8(), pa.string()))
    assert pa.types.is_dictionary(encoded.type)
    assert cast_exactly(encoded, pa.large_string()).to_pylist() == ["a", None, "a"]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (pa.int8(), pa.uint64(), True),
        (pa.int64(), pa.float64(), False),
        (pa.string(), pa.dictionary(pa.int8(), pa.large_string()), True),
        (pa.string(), pa.binary(), False),
        (pa.timestamp("s"), pa.timestamp("ns"), True),
        (pa.timestamp("s", "UTC"), pa.timestamp("s", "Europe/Rome"), True),
        (pa.timestamp("s", "UTC"), pa.timestamp("s"), False),
        (pa.date32(), pa.timestamp("s"), False),
        (pa.null(), pa.int8(), True),
        (pa.list_(pa.int8()), pa.list_(pa.int64()), False),
    ],
    ids=str,
)
def test_types_whose_values_are_of_one_type(
    one: pa.DataType, other: pa.DataType, alike: bool
) -> None:
    assert (are_alike(one, other), are_alike(other, one)) == (alike, alike)
