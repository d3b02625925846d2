"""Rows are ordered by key group, and equal keys have one form."""

from __future__ import annotations

from decimal import Decimal
from math import nan
from typing import Any

import pytest

from flinknet.errors import SerializationError
from flinknet.records.key_groups import key_group
from flinknet.state.rocksdb.row_keys import RowKeys, parse_row_key
from flinknet.state.value_serializer import ValueSerializer

KEYS = RowKeys(7, ValueSerializer(), 300)


@pytest.mark.parametrize("key", [1, -1, 2**63, "a", "", ("a", 1), ()], ids=repr)
def test_most_keys_have_a_row_of_their_own(key: Any) -> None:
    row = KEYS.plain(key)
    assert row is not None
    place = KEYS.of(key)
    assert (place.own, place.is_own) == (row, True)
    group, number, is_own, form = parse_row_key(row)
    assert (group, number, is_own) == (key_group(key, 300), 7, True)
    assert KEYS.key_of(form) == key


@pytest.mark.parametrize("key", [2.5, b"a", None, nan, ("a", 2.5), ("a", ("b", 1))], ids=repr)
def test_some_are_found_to_by_their_bytes(key: Any) -> None:
    assert KEYS.plain(key) is None
    place = KEYS.of(key)
    assert place.is_own
    assert parse_row_key(place.own)[0] == key_group(key, 300)
    found = KEYS.key_of(place.packed)
    assert found is key or found == key


@pytest.mark.parametrize("key", [True, 1.0, Decimal(1)], ids=repr)
def test_others_share_the_row_of_what_they_are_equal_to(key: Any) -> None:
    place = KEYS.of(key)
    assert not place.is_own
    assert place.own == KEYS.plain(1)
    assert place.shared == KEYS.of(1).shared
    assert parse_row_key(place.shared)[2] is False
    assert type(KEYS.key_of(place.packed)) is type(key)


def test_an_invalid_key() -> None:
    for key in (2**70, (1, 2**70)):
        with pytest.raises(SerializationError, match="64 bits"):
            KEYS.plain(key)
    with pytest.raises(SerializationError, match="object"):
        KEYS.of(object())
