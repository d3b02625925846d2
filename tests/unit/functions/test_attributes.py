"""Attributes of objects arrive completely, for any class, and are fast to look up."""

from __future__ import annotations

import pickle
import subprocess
import sys
from abc import ABC
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Self, TypeVar

import pytest

from flinknet.functions.attributes import give_own_dictionary, reduced
from flinknet.graph.pickler import dumps_to_run

T = TypeVar("T")


def arrived(value: T) -> T:
    made: T = pickle.loads(dumps_to_run(value))
    return made


class Plain:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Slotted(ABC, Generic[T]):
    __slots__ = ("first", "second")

    def __init__(self, first: T) -> None:
        self.first = first


class SlottedAndMore(Slotted[int]):
    def __init__(self) -> None:
        super().__init__(1)
        self.more = 2


@dataclass(frozen=True)
class Frozen:
    value: int


class WithProperty:
    def __init__(self) -> None:
        vars(self)["value"] = 3

    @property
    def value(self) -> int:
        return int(vars(self)["value"])


class Guarded:
    def __init__(self) -> None:
        vars(self)["value"] = 4

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("on purpose")


class ByArguments:
    def __new__(cls, number: int) -> Self:
        made = super().__new__(cls)
        vars(made)["number"] = -number
        return made

    def __getnewargs__(self) -> tuple[int]:
        return (-vars(self)["number"],)


class WithSomeState:
    def __init__(self) -> None:
        self.kept, self.left = 5, object()

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": self.kept}


class InItsOwnWay(Plain):
    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, own=True)


class ReducedInItsOwnWay(Plain):
    def __reduce__(self) -> tuple[Any, ...]:
        return InItsOwnWay, (), {"value": 6}


class Numbered(dict[str, int]):
    note = ""


class ByRegistration(Plain):
    pass


@pytest.mark.parametrize(
    "value",
    [Plain(), Plain(a=1, b=[2], **{"no name": 3}), Frozen(7), WithProperty(), Guarded()],
    ids=lambda value: type(value).__name__,
)
def test_all_attributes_arrive(value: Any) -> None:
    made = arrived(value)
    assert type(made) is type(value)
    assert vars(made) == vars(value)


def test_slots_arrive_and_what_is_beside_them() -> None:
    slotted = arrived(Slotted("text"))
    assert slotted.first == "text"
    assert not hasattr(slotted, "second")
    both = arrived(SlottedAndMore())
    assert (both.first, both.more) == (1, 2)


def test_a_class_says_what_is_kept_and_how_it_is_made() -> None:
    assert vars(arrived(WithSomeState())) == {"kept": 5}
    assert vars(arrived(ByArguments(8))) == {"number": -8}


def test_a_class_with_a_way_of_its_own_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert vars(arrived(InItsOwnWay(a=1))) == {"a": 1, "own": True}
    assert vars(arrived(ReducedInItsOwnWay())) == {"value": 6, "own": True}
    numbered = Numbered(one=1)
    numbered.note = "mine"
    assert (arrived(numbered), arrived(numbered).note) == ({"one": 1}, "mine")
    monkeypatch.setitem(pickle.dispatch_table, ByRegistration, lambda _: (Plain, ()))  # type: ignore[attr-defined]
    assert type(arrived(ByRegistration())) is Plain


BY_VALUE = """
import pickle
from dataclasses import dataclass, fields
from flinknet.graph.pickler import dumps_to_run

@dataclass(frozen=True)
class Reading:
    colour: str

made = pickle.loads(dumps_to_run(Reading("red")))
copy = pickle.loads(bytes.fromhex({pickled!r})) if {pickled!r} else made
print(dumps_to_run(made).hex(), *(field.name for field in fields(copy)), copy.colour)
"""


def test_a_dataclass_that_travels_by_value_still_knows_its_fields() -> None:
    """Their marks are compared by identity.

    In another process they would not be found, and a record of the class would be sent without its
    fields.
    """

    def run(pickled: str) -> list[str]:
        program = BY_VALUE.format(pickled=pickled)
        return subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        ).stdout.split()

    pickled, *told = run("")
    assert told == run(pickled)[1:] == ["colour", "red"]


def test_objects_that_know_each_other_arrive_once_each() -> None:
    one, other = Plain(), Plain()
    vars(one).update(other=other, itself=one)
    vars(other)["one"] = one
    made: Any = arrived([one, other])
    assert made[0].other is made[1]
    assert made[1].one is made[0] is made[0].itself


def test_an_attribute_whose_name_is_none_is_left_to_pickle() -> None:
    value = Plain()
    vars(value)[7] = 8  # type: ignore[index]
    assert reduced(value) is None
    assert str(vars(arrived(value))) == "{7: 8}"


def test_an_unpicklable_object_is_named() -> None:
    with pytest.raises(TypeError, match="generator"):
        arrived(Plain(value=(one for one in "text")))


def test_another_way_of_restoring_leaves_a_dictionary_that_is_replaced() -> None:
    value = arrived(InItsOwnWay(a=1))
    before = vars(value)
    give_own_dictionary(value)
    assert vars(value) == before == {"a": 1, "own": True}
    assert vars(value) is not before


def test_no_other_dictionary_is_replaced() -> None:
    value = arrived(Plain(a=1))
    before = vars(value)
    give_own_dictionary(value)
    assert vars(value) is before


FIND_IT = """
import dis, pickle, sys
from flinknet.functions.attributes import give_own_dictionary
from flinknet.functions.functions import MapFunction
from flinknet.graph.pickler import dumps, dumps_to_run

class Sum(MapFunction):
    def __init__(self):
        self.addend, self.calls = 3, 0
    def map(self, value):
        self.calls += 1
        return value + self.addend

def found(function):
    for value in range(100):
        assert function.map(value) == value + 3
    ways = {one.opname for one in dis.get_instructions(type(function).map, adaptive=True)}
    return sorted(way for way in ways if way.startswith(("LOAD_ATTR_", "STORE_ATTR_")))

Sum.__module__ = "__main__"
print(*found(pickle.loads({dumps}(Sum()))))
"""


def test_attributes_are_restored_at_the_index_of_the_class() -> None:
    """It is found by an index, without a dictionary.

    The test has a process of its own, as no debugger may be attached.
    """

    def ways(dumps: str) -> str:
        program = FIND_IT.replace("{dumps}", dumps)
        return subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        ).stdout.strip()

    assert ways("dumps_to_run") == "LOAD_ATTR_INSTANCE_VALUE STORE_ATTR_INSTANCE_VALUE"
    if sys.version_info < (3, 13):  # later ones manage with few attributes
        assert ways("dumps") != ways("dumps_to_run")


def test_functions_without_attributes_of_their_own_are_left_alone() -> None:
    assert reduced(partial(len)) is None
    assert reduced(len) is None
    assert reduced(int) is None
