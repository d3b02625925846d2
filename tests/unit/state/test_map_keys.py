"""Equality of map keys."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from flinknet.state.map_keys import place_of


def other_nan() -> float:
    """Return a NaN other than the one of ``math``, as one from a checkpoint is."""
    return float("nan")


@pytest.mark.parametrize(
    "key", [1, 1.0, True, "a", b"a", None, (1, "a"), Decimal(1), frozenset((1,))]
)
def test_most_keys_are_what_they_are(key: Any) -> None:
    assert place_of(key, {key: 1}, tuple) is key
    assert place_of(key, {}, tuple) is key


@pytest.mark.parametrize("make", [other_nan, lambda: (1, other_nan()), lambda: ((other_nan(),), 2)])
def test_all_nan_are_one(make: Any) -> None:
    kept = {0: "zero", place_of(make(), (), tuple): "nan"}
    place = place_of(make(), kept, kept.keys)
    assert kept[place] == "nan"
    restored = {0: "zero", make(): "nan"}
    for key in (make(), next(reversed(kept))):
        assert restored[place_of(key, restored, restored.keys)] == "nan"
    assert place_of(make(), {0: "zero"}, {0: "zero"}.keys) not in restored


def test_keys_without_a_hash_are_found() -> None:
    kept = {place_of(key, (), tuple): key for key in ([1, [2, math.nan]], bytearray(b"a"))}
    assert [*kept] == [(1, (2, math.nan)), b"a"]
    assert place_of([1, [2, other_nan()]], kept, kept.keys) in kept
