"""Emitted values: both forms, and the objects that they share with kept values."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from itertools import combinations, repeat
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.compiled_modules import COMPILED
from flinknet.datastream import Row
from flinknet.records import detached as in_use
from flinknet.records.value_copy import Detachment, is_unchanging
from tests.naming import spelled
from tests.plain_module import plain_module

OWNS = COMPILED and sys.version_info < (3, 14)
"""Whether a value without other references is emitted without a copy."""


@pytest.fixture(params=["plain"] + ["compiled"] * COMPILED)
def form(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "compiled":
        return in_use
    return plain_module("flinknet.records.detached")


class Colour(Enum):
    RED = 1


class Point(NamedTuple):
    x: Any
    y: Any


class Pair(NamedTuple):
    first: Any
    second: Any


class Named(Pair):
    """Has attributes beside its elements."""


@dataclass(frozen=True)
class Fixed:
    value: Any


@dataclass
class Account:
    entries: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Slotted:
    entries: list[int]


class Bare:
    """Refers to nothing, so the collector does not visit its objects, as for ``object`` itself."""

    __slots__ = ()


class Derived(Fixed):
    """Is no dataclass itself: its objects have attributes that can be set."""


class FrozenStruct(msgspec.Struct, frozen=True):
    value: Any


class OpenStruct(msgspec.Struct):
    value: Any


UNCHANGING: list[Any] = [
    *(
        None,
        True,
        1,
        2.5,
        "a",
        b"a",
        1j,
        Colour.RED,
        int,
        Decimal(1),
        datetime(2026, 1, 2, tzinfo=UTC),
    ),
    *((1, ("a", None)), frozenset((1, (2,))), Point(1, "a"), Fixed((1, 2)), FrozenStruct(1)),
    *((Fixed(Point(1, 2)), Colour.RED), memoryview(b"a"), print, range(3)),
]

CHANGING: list[Callable[[], Any]] = [
    *(lambda: [1], lambda: {"a": 1}, lambda: {1}, lambda: bytearray(b"a"), lambda: Account([1])),
    *(lambda: (1, [2]), lambda: {"a": {"b": [1]}}, lambda: Point(1, [2]), lambda: Fixed([1])),
    *(lambda: Named(1, 2), lambda: Row(a=1, b=[2]), lambda: Slotted([1]), lambda: Derived(1)),
    *(lambda: FrozenStruct([1]), lambda: OpenStruct(1), lambda: Counter("aab"), lambda: [[], []]),
    *(lambda: frozenset((Fixed((1, 2)),)) and [Fixed([1])], lambda: memoryview(bytearray(b"a"))),
    *(object, Bare),
]


@pytest.mark.parametrize("value", UNCHANGING, ids=spelled)
def test_a_value_that_cannot_change_is_given_away_as_it_is(form: ModuleType, value: Any) -> None:
    assert is_unchanging(value)
    assert form.detached(value) is value
    assert next(form.each_detached(iter([value]))) is value
    assert form.all_detached([value, value])


def parts_of(value: Any) -> dict[int, Any]:
    """Return all mutable parts of a value by identity, as the collector sees them."""
    found: dict[int, Any] = {}
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, memoryview):
            part = part.obj
        if id(part) in found or is_unchanging(part) or isinstance(part, type):
            continue
        found[id(part)] = part
        left += gc.get_referents(part)
    return found


def assert_apart(kept: Any, given_away: Any) -> None:
    kept_parts, parts = parts_of(kept), parts_of(given_away)
    assert not [part for at, part in parts.items() if at in kept_parts and part is kept_parts[at]]


@pytest.mark.parametrize("make", CHANGING)
def test_a_retained_value_shares_nothing_with_the_emitted_copy(
    form: ModuleType, make: Callable[[], Any]
) -> None:
    kept = make()
    assert not is_unchanging(kept)
    ways: list[Any] = [
        form.detached(kept),
        *form.each_detached([kept]),
        *form.each_detached(iter((kept, kept))),
        *form.each_result(iter([[kept], None, (kept,), (one for one in (kept,))])),
        *form.each_returned(lambda record: kept, iter([1, 2])),
        *form.each_returned(lambda record: record, iter([kept])),
        *form.each_passed(lambda record: True, iter([kept, kept])),
        *form.all_detached([kept]),
        *form.each_detached(zip([kept], strict=True)),
        *form.each_detached(combinations([kept, kept], 1)),
        *form.each_detached((1, one) for one in [kept]),
        *form.each_detached({"inside": one} for one in (kept,)),
    ]
    for given_away in ways:
        assert_apart(kept, given_away)
    assert len({id(one) for one in ways}) == len(ways), "nor with anything given away before"
    assert repr(ways[0]).startswith(repr(kept)[:8])


@pytest.mark.skipif(not OWNS, reason="the plain form copies whatever can be changed")
@pytest.mark.parametrize("make", [make for make in CHANGING if type(make()) is not memoryview])
def test_a_value_without_other_references_is_not_copied(
    make: Callable[[], Any],
) -> None:
    places: list[int] = []

    def made(record: Any = None) -> Any:
        value = make()
        places.append(id(value))
        return value

    given_away = [
        *in_use.each_returned(made, iter([1, 2])),
        *in_use.each_result(made() for _ in range(0)),
        *in_use.each_detached(map(made, range(2))),
        *in_use.each_detached([made(), made()]),
        *in_use.each_result([made()] for _ in range(2)),
        *in_use.each_passed(lambda record: True, iter([made(), made()])),
    ]
    assert list(map(id, given_away)) == places


RUDE: dict[str, Callable[[Any, list[Any]], Any]] = {
    "an attribute or table": lambda value, kept: kept.append(value),
    "a part of it": lambda value, kept: kept.append(value["part"]),
    "a part of a part": lambda value, kept: kept.append(value["part"][0]),
    "a closure": lambda value, kept: kept.append(lambda: value),
    "a default": lambda value, kept: kept.append(partial(print, value)),
    "an iterator": lambda value, kept: kept.append(iter(value["part"])),
    "a view of its values": lambda value, kept: kept.append(value.values()),
    "a weak reference": lambda value, kept: kept.append(weakref.ref(value["account"])),
    "its attributes": lambda value, kept: kept.append(vars(value["account"])),
    "a view of its bytes": lambda value, kept: kept.append(memoryview(value["bytes"])),
    "a bound method": lambda value, kept: kept.append(value["part"].append),
    "itself": lambda value, kept: value["part"].append(value),
    "one part twice": lambda value, kept: value["part"].append(value["part"][0]),
}


@pytest.mark.parametrize("rude", RUDE.values(), ids=RUDE)
def test_a_reference_of_any_kind_is_seen(
    form: ModuleType, rude: Callable[[Any, list[Any]], Any]
) -> None:
    """For any way that leads back into the value, a copy is emitted."""
    kept: list[Any] = []
    places: list[int] = []

    def give(record: Any) -> Any:
        value = {"part": [[1], 2], "account": Account([1]), "bytes": bytearray(b"a")}
        places.append(id(value))
        rude(value, kept)
        return value

    (given_away,) = form.each_returned(give, iter([1]))
    assert given_away["account"] == Account([1])
    for one in kept:
        if isinstance(one, weakref.ref):
            assert one() is not given_away["account"]
        else:
            assert_apart(gc.get_referents(one) if gc.is_tracked(one) else one, given_away)


def test_a_generator_that_fills_one_object_again(form: ModuleType) -> None:
    def fill() -> Iterator[dict[str, Any]]:
        row: dict[str, Any] = {"inside": []}
        for number in range(3):
            row["number"] = number
            row["inside"].append(number)
            yield row

    expected = [{"inside": list(range(n + 1)), "number": n} for n in range(3)]
    assert list(form.each_detached(fill())) == expected
    assert list(form.each_result(repeat(fill(), 1))) == expected
    assert [one["number"] for one in form.each_detached(fill(), Detachment.NONE)] == [0, 1, 2]
    (*_, last) = form.each_detached(fill(), Detachment.NONE)
    assert len(last["inside"]) == 3


def test_a_batch_that_only_iterates_is_no_reference_but_a_kept_record_is(
    form: ModuleType,
) -> None:
    seen: list[Any] = []

    def keep(record: Any) -> bool:
        seen.append(record)
        return True

    for given_away in (
        *form.each_passed(keep, iter([{"n": [n]} for n in range(3)])),
        *form.each_returned(lambda record: keep(record) and record, iter([{"n": [1]}])),
    ):
        assert_apart(seen, given_away)


class Uncopied:
    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("only one of me")


def test_a_value_that_cannot_be_copied(form: ModuleType) -> None:
    """It raises an error with a remedy, or is passed on unchanged."""
    kept = Uncopied()
    for give in (form.detached, lambda value: list(form.each_detached(iter([value])))):
        with pytest.raises(TypeError, match=r"Uncopied.*only one of me.*enable_object_reuse"):
            give(kept)
    assert form.detached(kept, Detachment.IF_POSSIBLE) is kept
    assert list(form.each_detached([kept], Detachment.IF_POSSIBLE)) == [kept]


def test_records_for_which_the_function_is_false_are_left_out(form: ModuleType) -> None:
    records = iter([{"n": n} for n in range(5)])
    passed = form.each_passed(lambda record: record["n"] % 2, records)
    assert list(passed) == [{"n": 1}, {"n": 3}]


def test_errors_come_where_they_are_raised(form: ModuleType) -> None:
    """Errors of functions and iterables come behind the values before them.

    A StopIteration is no end.
    """

    def fail(number: int) -> int:
        if number == 2:
            raise StopIteration
        return number

    for values in (form.each_returned(fail, iter([1, 2, 3])), form.each_passed(fail, iter([1, 2]))):
        assert next(values) == 1
        with pytest.raises(RuntimeError, match="StopIteration"):
            next(values)
    values = form.each_result(iter([[1], 2]))
    assert next(values) == 1
    with pytest.raises(TypeError, match="not iterable"):
        next(values)
    assert list(form.each_result(iter([]))) == list(form.each_detached([])) == []


LEAVES = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.floats(allow_nan=False))
VALUES = st.recursive(
    LEAVES,
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.dictionaries(st.text(max_size=2), inside, max_size=3),
        st.tuples(inside, inside),
        st.builds(Fixed, inside),
        st.builds(Account, st.lists(st.integers(), max_size=2)),
        st.builds(Point, inside, inside),
    ),
    max_leaves=8,
)


@given(VALUES, st.integers(0, 3))
def test_any_value(value: Any, held: int) -> None:
    """Both forms emit an equal value that shares no mutable object with the kept one."""
    expected = deepcopy(value)
    kept = list(parts_of(value).values())[:held]
    box = [value]
    del value
    (given_away,) = in_use.each_detached(box.pop() for _ in range(1))
    assert given_away == expected
    assert_apart(kept, given_away)
    plain = plain_module("flinknet.records.detached").detached(given_away)
    assert plain == expected
    assert_apart(given_away, plain)


def test_a_part_that_occurs_twice_does_so_in_the_copy(form: ModuleType) -> None:
    inner: list[Any] = [1]
    kept = [inner, (inner, {"a": inner}), [[2], {"b": (3, [4])}]]
    given_away: Any = form.detached(kept)
    assert given_away == kept
    assert_apart(kept, given_away)
    assert given_away[0] is given_away[1][0] is given_away[1][1]["a"]
    own: list[Any] = [[1]]
    own.append(own)
    given_away = form.detached(own)
    assert given_away[1] is given_away is not own
    assert given_away[0] is not own[0]
