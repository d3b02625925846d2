from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, Flag
from typing import Any, NamedTuple

import msgpack
import pytest

from flinknet.errors import ConfigurationError
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.record_types import RecordTypes, kind_of_class
from flinknet.records.serialization.serializer import UNPACK_ERRORS, RecordUnpacker
from tests.unit.records.serialization.record_values import (
    Checked,
    Colour,
    Frozen,
    Permission,
    Point,
    Slotted,
    name_of,
    same,
)


def unpack(types: Any, data: bytes) -> Any:
    unpacker = RecordUnpacker(record_bytes_max=1 << 16, record_elements_max=1 << 16, types=types)
    return unpacker.record(data)


def test_a_sequence_is_numbered_from_0() -> None:
    assert RecordTypes([Colour, Point]).numbered == {0: Colour, 1: Point}
    assert RecordTypes({7: Colour}).numbered == {7: Colour}
    assert RecordTypes.of(None).numbered == {}
    types = RecordTypes((Colour,))
    assert RecordTypes.of(types) is types


def test_the_kind_that_a_class_is_registered_as() -> None:
    assert kind_of_class(Colour) == kind_of_class(Permission) == "an enumeration"
    assert kind_of_class(Point) == "a named tuple"
    assert kind_of_class(Frozen) == "a dataclass"
    assert kind_of_class(tuple) is kind_of_class(int) is None


@pytest.mark.parametrize(
    "value",
    [Frozen(1), Slotted(1, "more"), Point(1, 2), Colour.RED, Permission.READ, Permission(3)],
    ids=name_of,
)
def test_registered_classes_arrive(value: Any) -> None:
    types = [Frozen, Slotted, Point, Colour, Permission]
    assert same(unpack(types, RecordPacker(types).pack(value)), value)


def test_a_struct_arrives_and_is_called_one() -> None:
    msgspec = pytest.importorskip("msgspec")
    order = msgspec.defstruct("Order", [("number", int), ("items", tuple, ())])
    assert kind_of_class(order) == "a Struct"
    sent = order(1, (2, 3))
    assert unpack([order], RecordPacker([order]).pack(sent)) == sent


class Abstract(abc.ABC):
    @abc.abstractmethod
    def number(self) -> int: ...


AbstractData = dataclass(Abstract)  # type: ignore[type-abstract]


@dataclass
class DataList(list[int]):
    number: int = 1


@dataclass
class DataError(Exception):
    number: int = 1


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ([int], "int cannot be registered: it is not a dataclass"),
        ([dict], "dict cannot be registered"),
        ([object], "object cannot be registered"),
        ([type("Plain", (), {})], "Plain cannot be registered"),
        ([Colour.RED], "it is not a class"),
        (["Colour"], "it is not a class"),
        ([Colour, Point, Colour], "Colour is registered twice"),
        ({-1: Colour}, "under -1: choose 0"),
        ({2**32: Colour}, "choose 0"),
        ({"a": Colour}, "under 'a'"),
        ({True: Colour}, "under True"),
        ([DataList], "DataList cannot be registered: it has state besides its fields"),
        ([DataError], "DataError cannot be registered: it has state besides its fields"),
        ([AbstractData], "Abstract cannot be registered"),
    ],
)
def test_an_invalid_class_is_refused(types: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        RecordTypes(types)


def test_only_the_number_of_a_class_travels() -> None:
    data = RecordPacker([Frozen, Colour]).pack((Frozen(1), Colour.RED))
    assert b"Frozen" not in data
    assert b"Colour" not in data
    assert RecordTypes([Frozen]).numbered == {0: Frozen}
    with pytest.raises(ValueError, match="no class is registered here under number 0: register"):
        unpack(None, data)
    with pytest.raises(ValueError, match="no class is registered here under number 1"):
        unpack([Frozen], data)


class OtherFrozen(NamedTuple):
    number: int
    more: int


class OtherColour(Enum):
    GREEN = 1


def test_a_class_that_differs_at_the_other_end_is_told() -> None:
    data = RecordPacker([Frozen, Colour]).pack(Frozen(1))
    with pytest.raises(ValueError, match="1 fields arrived for OtherFrozen, which has 2 fields"):
        unpack([OtherFrozen], data)
    with pytest.raises(ValueError, match="no class is registered here under number 0"):
        unpack([Colour], data)
    data = RecordPacker([Frozen, Colour]).pack(Colour.RED)
    with pytest.raises(ValueError, match="not a member of OtherColour here: .*RED"):
        unpack([Frozen, OtherColour], data)


@dataclass(frozen=True)
class Shouting:
    text: str

    def __hash__(self) -> int:
        return hash(self.text.upper())


TYPES = (Frozen, Colour, Permission, Shouting, Checked, Slotted)

STRAY: tuple[Any, ...] = (None, "x", b"x", 1.5, {}, True)
CONTENTS: list[tuple[int, Any]] = [
    *((code, content) for code in range(1, 11) for content in STRAY),
    *((code, []) for code in (1, 2, 3, 4, 5, 6, 9, 10)),
    (1, 2**63),
    (1, -(2**63)),
    (1, 3_000_000),
    (2, [-1, None, 0]),
    (2, [86_400_000_000, None, 0]),
    (2, [0, None, 2]),
    (2, [0, 86_400_000_000, 0]),
    (2, [0, "no such zone", 0]),
    (2, [0, "../../etc/passwd", 0]),
    (2, [0, "Europe", 0]),
    (2, [0, "", 0]),
    (2, [0, "\0", 0]),
    (2, [0, [1], 0]),
    (2, [0, ["a", 1], 0]),
    (2, [0, None]),
    (3, [2**63, None, 0]),
    (3, [0, 1.5, 0]),
    (3, [0, None, None]),
    (4, [2**63, 0, 0]),
    (4, [1, 2]),
    (4, [1, 2, "3"]),
    (5, "1.2.3"),
    (5, "1E+x"),
    (5, 1),
    (6, b"x" * 15),
    (6, b"x" * 17),
    (7, [{}]),
    (8, [[{}]]),
    (9, [0]),
    (9, [0, 1, 2]),
    (9, [1, "RED"]),
    (9, ["0", 1]),
    (9, [-1, 1]),
    (9, [2**40, 1]),
    (9, [True, 1]),
    (10, [1]),
    (10, [1, "RED", "BLUE"]),
    (10, [1, "PINK"]),
    (10, [1, 1]),
    (10, [1, "__class__"]),
    (10, [2, 8]),
    (10, [2, -9]),
    (10, [0, 1]),
]


@pytest.mark.parametrize(("code", "content"), CONTENTS, ids=repr)
def test_no_content_of_an_extension_does_harm(code: int, content: Any) -> None:
    """Contents that no writer makes are refused, and the unpacker goes on."""
    unpacker = RecordUnpacker(record_bytes_max=1 << 16, record_elements_max=1 << 16, types=TYPES)
    extension = msgpack.ExtType(code, msgpack.packb(content))
    try:
        accepted = unpacker.record(msgpack.packb([extension]))
    except UNPACK_ERRORS:
        accepted = None
    assert accepted in (None, (set(),), (frozenset(),), ({True},), ({1.5},))
    assert unpacker.record(b"\x05") == 5


@pytest.mark.parametrize("content", [b"", b"\x01\x02", b"\x92\x01", b"\xc1", b"\xc4\x05"])
@pytest.mark.parametrize("code", range(1, 11))
def test_the_content_of_an_extension_is_one_value(code: int, content: bytes) -> None:
    data = msgpack.packb([msgpack.ExtType(code, content), 1])
    with pytest.raises(ValueError, match=f"an extension of type {code} cannot be read"):
        unpack(TYPES, data)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda hostile: msgpack.ExtType(7, msgpack.packb([hostile])),
        lambda hostile: {hostile: 1},
        lambda hostile: msgpack.ExtType(9, msgpack.packb([5, 1, {hostile: 1}])),
    ],
    ids=["set", "key", "key in an object"],
)
def test_a_hash_that_fails_is_an_error_of_the_record(wrap: Callable[[Any], Any]) -> None:
    """Its hash method is the only code of a class that reading an object may run."""
    hostile = msgpack.ExtType(9, msgpack.packb([3, 5]))
    with pytest.raises(ValueError, match="'int' object has no attribute 'upper'"):
        unpack(TYPES, msgpack.packb(wrap(hostile)))


class Bits(Flag):
    LOW = 1
    HIGH = 1 << 70


def test_a_flag_that_has_more_than_64_bits_is_refused() -> None:
    pack = RecordPacker([Bits]).pack
    assert unpack([Bits], pack(Bits.LOW)) is Bits.LOW
    with pytest.raises(Exception, match="at most 64 bits"):
        pack(Bits.HIGH)
