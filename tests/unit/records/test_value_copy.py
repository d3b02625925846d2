"""Copies of what is kept: with nothing in common that could change."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from flinknet.datastream import Row
from flinknet.records.value_copy import are_unchanging, copied


@dataclass
class Account:
    entries: list[int] = field(default_factory=list)


class Slotted:
    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries = [1]


class Saying:
    """Says itself what is kept of it."""

    def __init__(self) -> None:
        self.entries = [1]
        self.lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"entries": self.entries}


class Counting(dict[str, int]):
    """Has attributes beside what it is."""

    name = "none"


@pytest.mark.parametrize("value", [None, 1, 2.5, "text", b"bytes", (1, "a"), ((1, 2), 3)], ids=repr)
def test_what_cannot_change_is_its_own_copy(value: Any) -> None:
    assert copied(value) is value


@pytest.mark.parametrize(
    "value",
    [
        *([1, 2], {1, 2}, {"a": 1}, [[1], 2], {"a": [1]}, ([1], 2), Account([1])),
        *([{1}], {"a": {"b": ((1, 2), [3])}}, Row("a", [1]), [Account([2])], deque([[1]])),
    ],
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


def test_what_stands_in_a_value_twice_or_in_itself_does_so_in_the_copy() -> None:
    shared = Account([1])
    ring: list[Any] = []
    ring += [1, (ring,), shared, {"again": shared}, deque([shared])]
    copy = copied(ring)
    assert copy is not ring
    assert copy[1] == (copy,)
    assert copy[1][0] is copy
    assert copy[2] is not shared
    assert copy[2] is copy[3]["again"] is copy[4][0]
    pair: tuple[list[Any]] = ([],)
    pair[0].append(pair)
    again = copied(pair)
    assert again is not pair
    assert again[0][0] is again


def test_a_class_may_say_how_its_objects_are_copied() -> None:
    slotted = Slotted()
    assert copied(slotted).entries == [1]
    assert copied(slotted).entries is not slotted.entries
    said = copied([Saying()])[0]
    assert vars(said) == {"entries": [1]}
    counting = Counting(a=1)
    counting.name = "some"
    assert (copied(counting), copied(counting).name) == ({"a": 1}, "some")
    with pytest.raises(TypeError, match="cannot pickle"):
        copied([threading.Lock()])
