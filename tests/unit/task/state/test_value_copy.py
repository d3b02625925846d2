"""Copies of what is kept: with nothing in common that could change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from flinknet.task.state.value_copy import are_unchanging, copied


@dataclass
class Account:
    entries: list[int] = field(default_factory=list)


@pytest.mark.parametrize("value", [None, 1, 2.5, "text", b"bytes", (1, "a"), ((1, 2), 3)], ids=repr)
def test_what_cannot_change_is_its_own_copy(value: Any) -> None:
    assert copied(value) is value


@pytest.mark.parametrize(
    "value",
    [[1, 2], {1, 2}, {"a": 1}, [[1], 2], {"a": [1]}, ([1], 2), Account([1])],
    ids=repr,
)
def test_what_can_change_is_copied(value: Any) -> None:
    copy = copied(value)
    assert copy == value
    assert copy is not value


def test_what_is_inside_is_copied_too() -> None:
    kept = {"a": [[1]]}
    copied(kept)["a"][0].append(2)
    assert kept == {"a": [[1]]}


@pytest.mark.parametrize("values", [[], [1, "a"], [1, (1, "a")], [(), None]], ids=repr)
def test_values_that_cannot_change(values: list[Any]) -> None:
    assert are_unchanging(values)


@pytest.mark.parametrize("values", [[[]], [1, {}], [1, (1, [2])], [Account()]], ids=repr)
def test_one_of_the_values_can_change(values: list[Any]) -> None:
    assert not are_unchanging(values)
