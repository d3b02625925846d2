"""Values are restored as they were, lists as lists."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import SerializationError
from flinknet.records.key_groups import key_hash, mixed
from flinknet.state.value_serializer import ValueSerializer, serializer_name


@dataclass
class Account:
    name: str
    entries: list[Any]


class Pair(NamedTuple):
    first: Any
    second: Any


SERIALIZER = ValueSerializer([Account, Pair])

PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary()
VALUES = st.recursive(
    PLAIN | st.floats(allow_nan=False),
    lambda part: (
        st.lists(part)
        | st.lists(part).map(tuple)
        | st.dictionaries(PLAIN, part)
        | st.builds(Account, st.text(), st.lists(part))
        | st.builds(Pair, part, part)
    ),
    max_leaves=20,
)


def there_and_back(value: Any) -> Any:
    return SERIALIZER.unpack(SERIALIZER.pack(value))


def same_types(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return all(map(same_types, one, other))
    if isinstance(one, dict):
        return all(same_types(one[key], other[key]) for key in one)
    return not isinstance(one, Account) or same_types(one.entries, other.entries)


@given(VALUES)
def test_a_value_comes_back_as_what_it_was(value: Any) -> None:
    back = there_and_back(value)
    assert back == value
    assert same_types(back, value)


@pytest.mark.parametrize(
    "value", [datetime(2026, 11, 23, tzinfo=UTC), Decimal("1.50"), {1, 2}, frozenset("a")], ids=repr
)
def test_values_of_records_are_preserved(value: Any) -> None:
    assert there_and_back(value) == value


@given(st.text() | st.integers(-(2**63), 2**64 - 1))
def test_text_and_whole_numbers_are_their_own_form(key: Any) -> None:
    """Their key group is computed from the written bytes."""
    from zlib import crc32

    assert mixed(crc32(SERIALIZER.pack(key))) == key_hash(key)


@pytest.mark.parametrize("value", [object(), 2**64, [object()], lambda: None, {"a": [2**70]}])
def test_unserializable_values_are_refused(value: Any) -> None:
    with pytest.raises(SerializationError):
        SERIALIZER.pack(value)


def test_values_nested_too_deeply_are_refused() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(SerializationError, match="nested"):
        SERIALIZER.pack(value)


def test_a_pickle_is_not_read() -> None:
    with pytest.raises(ValueError, match=r".*"):
        SERIALIZER.unpack(pickle.dumps(Account("a", [])))


def test_a_class_that_is_not_registered_is_not_made() -> None:
    with pytest.raises(ValueError, match="no class is registered"):
        ValueSerializer().unpack(SERIALIZER.pack(Account("a", [])))


def test_a_serializer_is_called_by_its_class() -> None:
    assert serializer_name(None) is None
    assert serializer_name(ByText()) == "ByText"


class ByText:
    def serialize(self, value: Any) -> bytes:
        return str(value).encode()

    def deserialize(self, data: bytes) -> Any:
        return data.decode()
