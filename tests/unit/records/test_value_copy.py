"""Copies of kept values share no mutable object with them."""

from __future__ import annotations

import copyreg
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flinknet.datastream import Row
from flinknet.records.value_copy import (
    Detachment,
    are_unchanging,
    copied,
    copied_as,
    is_unchanging,
    never_changes,
)
from tests.naming import spelled


class Colour(Enum):
    RED = 1


class Point(NamedTuple):
    x: Any
    y: Any


class Named(Point):
    """Has attributes beside its elements."""

    def __repr__(self) -> str:
        return f"{super().__repr__()} with {vars(self)}"


@dataclass
class Account:
    entries: list[int] = field(default_factory=list)


@dataclass
class Open:
    value: Any


@dataclass(frozen=True)
class Fixed:
    value: Any


@dataclass(frozen=True, slots=True)
class FixedSlotted:
    value: Any


class Derived(Fixed):
    """Is no dataclass itself: its objects have attributes that can be set."""


@never_changes
class Declared:
    """Looks mutable, and cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Slotted:
    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries = [1]


class Saying:
    """Defines its own pickled form."""

    def __init__(self) -> None:
        self.entries = [1]
        self.lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"entries": self.entries}


class Counting(dict[str, int]):
    """Has attributes beside the value of its base class."""

    name = "none"


class FrozenStruct(msgspec.Struct, frozen=True):
    value: Any


class OpenStruct(msgspec.Struct):
    value: Any


UNCHANGING: list[Any] = [
    *(None, 1, 2.5, "text", b"bytes", 1j, range(3), print, spelled, int, Colour.RED, Declared()),
    *((1, "a"), ((1, 2), 3), frozenset((1, (2,))), Point(1, "a"), Fixed((1, 2)), FixedSlotted(1)),
    *(Fixed(Point(1, Fixed(2))), (Colour.RED, 1j), memoryview(b"bytes")),
    *(np.float64(1), np.True_, np.datetime64("2026-01-01"), np.str_("a")),
    *(pd.Timestamp(0), pd.Timedelta(1), pd.NaT),
    *(pa.record_batch({"a": [1]}), pa.table({"a": [1]}), FrozenStruct((1, "a"))),
]

CHANGES: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (lambda: {"a": [[1]]}, lambda kept: kept["a"][0].append(2)),
    (lambda: {Fixed(1): 1}, lambda kept: kept.clear()),
    (lambda: [Account([1])], lambda kept: kept[0].entries.append(2)),
    (lambda: bytearray(b"a"), lambda kept: kept.append(2)),
    (lambda: [bytearray(b"a")], lambda kept: kept[0].append(2)),
    (lambda: Point(1, [2]), lambda kept: kept.y.append(3)),
    (lambda: Fixed([1]), lambda kept: kept.value.append(2)),
    (lambda: FixedSlotted([1]), lambda kept: kept.value.append(2)),
    (lambda: FixedSlotted(Fixed([1])), lambda kept: kept.value.value.append(2)),
    (lambda: Fixed(Open(1)), lambda kept: setattr(kept.value, "value", 2)),
    (lambda: Derived(1), lambda kept: vars(kept).update(value=2)),
    (lambda: Named(1, 2), lambda kept: vars(kept).update(z=3)),
    (lambda: frozenset((Derived(1),)), lambda kept: vars(*kept).update(value=2)),
    (lambda: np.array([1, 2]), lambda kept: kept.fill(3)),
    (lambda: np.zeros(1, "i4, i4")[0], lambda kept: kept.__setitem__(0, 3)),
    (lambda: pd.DataFrame({"a": [1]}), lambda kept: kept.__setitem__("a", [3])),
    (lambda: FrozenStruct([1]), lambda kept: kept.value.append(3)),
    (lambda: OpenStruct(1), lambda kept: setattr(kept, "value", 3)),
]
"""How to make a value, and how to change it."""


@pytest.mark.parametrize("value", UNCHANGING, ids=spelled)
def test_an_immutable_value_is_its_own_copy(value: Any) -> None:
    assert is_unchanging(value)
    assert copied(value) is value
    assert copied([[value]])[0][0] is value


@pytest.mark.parametrize(
    "value",
    [
        *([1, 2], {1, 2}, {"a": 1}, [[1], 2], {"a": [1]}, ([1], 2), Account([1])),
        *([{1}], {"a": {"b": ((1, 2), [3])}}, Row("a", [1]), [Account([2])], deque([[1]])),
    ],
    ids=repr,
)
def test_a_mutable_value_is_copied(value: Any) -> None:
    copy = copied(value)
    assert copy == value
    assert copy is not value


@pytest.mark.parametrize(("make", "change"), CHANGES)
def test_a_change_of_the_value_is_none_of_its_copy(
    make: Callable[[], Any], change: Callable[[Any], Any]
) -> None:
    kept = make()
    assert not is_unchanging(kept)
    copy = copied(kept)
    assert type(copy) is type(kept)
    change(kept)
    assert repr(copy) == repr(make()) != repr(kept)


@pytest.mark.parametrize(
    "view_of",
    [
        memoryview,
        lambda memory: memoryview(memory).toreadonly(),
        lambda memory: memoryview(memory).cast("i"),
        lambda memory: memoryview(memory).cast("h", [2, 2, 2]),
        lambda memory: memoryview(memory)[::-2],
    ],
)
def test_the_memory_that_is_viewed_is_copied(view_of: Callable[[bytearray], memoryview]) -> None:
    """It keeps the format and the shape of the view, and is copied once."""
    memory = bytearray(range(16))
    view = view_of(memory)
    assert not is_unchanging(view)
    copy, again = copied([view, view])
    assert copy is again
    assert copy == view
    assert (copy.format, copy.shape) == (view.format, view.shape)
    memory[:] = bytes(16)
    assert copy == view_of(bytearray(range(16)))


@pytest.mark.parametrize("values", [[], [1, "a"], [1, (1, "a")], [(), None]], ids=repr)
def test_values_that_cannot_change(values: list[Any]) -> None:
    assert are_unchanging(values)


@pytest.mark.parametrize("values", [[[]], [1, {}], [1, (1, [2])], [Account()]], ids=repr)
def test_one_of_the_values_can_change(values: list[Any]) -> None:
    assert not are_unchanging(values)


def test_repeated_and_recursive_parts_are_so_in_the_copy() -> None:
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


OWN_WAYS: dict[str, Callable[..., Any]] = {
    "__deepcopy__": lambda value, memo: Account([2]),
    "__reduce__": lambda value: (Account, ([2],)),
    "__reduce_ex__": lambda value, protocol: (Account, ([2],)),
    "__getstate__": lambda value: {"entries": [2]},
    "__setstate__": lambda value, state: setattr(value, "entries", [2]),
    "copyreg": lambda value: (Account, ([2],)),
}


@pytest.mark.parametrize("way", OWN_WAYS)
def test_each_way_to_say_how_objects_are_copied(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type("Own", (Account,), {way: OWN_WAYS[way]})
    if way == "copyreg":
        monkeypatch.setitem(copyreg.dispatch_table, kind, OWN_WAYS[way])
    assert copied([kind([1])])[0].entries == [2]


def test_a_value_that_cannot_be_copied_is_an_error_or_its_own_copy() -> None:
    locked = [threading.Lock()]
    with pytest.raises(TypeError, match=r"a list, .*cannot pickle.*enable_object_reuse") as failed:
        copied_as(Detachment.ALWAYS, locked)
    assert type(failed.value.__cause__) is TypeError
    assert copied_as(Detachment.IF_POSSIBLE, locked) is locked
    account = Account([1])
    for detachment in (Detachment.IF_POSSIBLE, Detachment.ALWAYS):
        copy = copied_as(detachment, account)
        assert copy == account
        assert copy.entries is not account.entries
