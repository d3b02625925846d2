"""Every value that a record may be arrives as the value that was sent."""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

import msgpack
import pytest

from flinknet.compiled_modules import COMPILED
from flinknet.errors import SerializationError
from flinknet.records.serialization.extension_types import EXTENSIONS_NESTED_MAX, NESTING_MAX
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES
from flinknet.records.serialization.limits import RecordLimits
from flinknet.records.serialization.packer import CheckedRecordPacker, RecordPacker
from flinknet.records.serialization.record_types import RecordTypes
from flinknet.records.serialization.serializer import RecordUnpacker
from tests.naming import spelled
from tests.plain_module import plain_module
from tests.unit.records.serialization.record_values import (
    TYPES,
    VALUES,
    Checked,
    Colour,
    FrozenAndSlotted,
    Permission,
    Point,
    Reading,
    Slotted,
    arrives,
    name_of,
    same,
)

KNOWN = RecordTypes(TYPES)
PACKERS = {"the writer's": RecordPacker(KNOWN).pack}
if COMPILED:
    plain_packer = RecordPacker(KNOWN)
    c_packer = plain_module("flinknet.records.serialization.c_packer").CPacker(KNOWN)
    plain_packer._pack, plain_packer._pack_otherwise = c_packer.pack, c_packer.pack_otherwise
    PACKERS["plain"] = plain_packer.pack
unpacker = RecordUnpacker(record_bytes_max=1 << 20, record_elements_max=1 << 16, types=KNOWN)


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize("value", VALUES, ids=name_of)
def test_a_value_arrives_as_what_was_sent(value: Any, pack: Any) -> None:
    """This holds alone, and inside every kind of container."""
    for record in (value, (value, 1), [value], {"a": value}, {1: value}, Slotted(1, (value,))):
        data = pack(record)
        assert same(unpacker.record(data), arrives(record))
        assert data == PACKERS["the writer's"](record)


def test_objects_are_made_without_their_own_methods() -> None:
    """As with pickle, an object that was checked when it was made is not checked again."""
    sent = Checked(1)
    sent.hidden = 8
    calls = Checked.calls
    came = unpacker.record(PACKERS["the writer's"](sent))
    assert (came.number, came.hidden, Checked.calls) == (1, 8, calls)


def plain(value: Any) -> Any:
    """Return the value that a reader without any of the types gets."""
    if isinstance(value, msgpack.ExtType):
        return value.code, plain(msgpack.unpackb(value.data, strict_map_key=False))
    return list(map(plain, value)) if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (date(2020, 1, 1), (1, 18262)),
        (time(1, fold=1), (2, [3_600_000_000, None, 1])),
        (datetime(1970, 1, 2), (3, [86_400_000_000, None, 0])),
        (timedelta(-1, 5, 6), (4, [-1, 5, 6])),
        (Decimal("1.50"), (5, "1.50")),
        (UUID(int=7), (6, UUID(int=7).bytes)),
        ({7}, (7, [7])),
        (frozenset({(7, 8)}), (8, [[7, 8]])),
        (Point(3, 4), (9, [4, 3, 4])),
        (Reading("a", 1.5), (9, [6, "a", 1.5, (8, [])])),
        (Colour.ALSO_RED, (10, [0, "RED"])),
        (Permission.READ | Permission.WRITE, (10, [3, 3])),
    ],
    ids=name_of,
)
def test_any_msgpack_library_reads_what_is_in_an_extension(value: Any, content: Any) -> None:
    data = PACKERS["the writer's"](value)
    assert plain(msgpack.unpackb(data)) == content


GOLDEN = {
    "d6ff5e0be100": datetime(2020, 1, 1, tzinfo=UTC),
    "c70301cd4756": date(2020, 1, 1),
    "d70293ced693a400c001": time(1, fold=1),
    "d70393ced693a400c000": datetime(1970, 1, 1, 1),
    "d60493ff0506": timedelta(-1, 5, 6),
    "c70505a4312e3530": Decimal("1.50"),
    "c71206c41000000000000000000000000000000007": UUID(int=7),
    "d5079107": {7},
    "d60891920708": frozenset({(7, 8)}),
    "d60993040304": Point(3, 4),
    "c7060a9200a3524544": Colour.RED,
    "c7030a920303": Permission.READ | Permission.WRITE,
}


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_golden_bytes_of_every_extension(pack: Any) -> None:
    """The bytes are part of the protocol; SPEC.md shows the same."""
    assert {pack(value).hex(): value for value in GOLDEN.values()} == GOLDEN


# -- refused values --------------------------------------------------------------------------------


class Text(str):
    __slots__ = ()


class Integer(int): ...


class Unnamed(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None

    dst = utcoffset

    def tzname(self, moment: datetime | None) -> str | None:
        return None


class Half(Unnamed):
    """A zone of the user's own class."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return timedelta(minutes=30)


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_any_other_time_zone_arrives_as_the_offset_that_it_has_then(pack: Any) -> None:
    for sent in (datetime(2020, 1, 1, tzinfo=Half()), time(1, tzinfo=Half())):
        came = unpacker.record(pack(sent))
        assert came == sent
        assert came.tzinfo == timezone(timedelta(minutes=30))


class Pair(NamedTuple):
    a: int
    b: int


class Other(Enum):
    ONE = 1


@dataclass
class Unregistered:
    number: int = 1


@dataclass
class DerivedReading(Reading):
    number: int = 1


@dataclass
class Unset:
    number: int = field(init=False)


def unset() -> Any:
    reading = Reading("a", 1.5)
    del reading.value
    return reading


REFUSED = [
    (2**64, "an int has at most 64 bits"),
    (-(2**63) - 1, "an int has at most 64 bits"),
    ("\ud800", "surrogates not allowed"),
    (memoryview(b"abcd")[::2], "not C-contiguous"),
    (range(1), "range has no form on the wire"),
    (object(), "object has no form"),
    (spelled, "function has no form"),
    (1j, "complex has no form"),
    (int, "type has no form"),
    (deque([1]), "deque has no form"),
    (array("i", [1]), "array has no form"),
    (Text("a"), "Text is derived from str"),
    (Integer(1), "Integer is derived from int"),
    (type("Double", (float,), {})(1.5), "Double is derived from float"),
    (type("Octets", (bytes,), {})(b"a"), "Octets is derived from bytes"),
    (type("Octets", (bytearray,), {})(b"a"), "Octets is derived from bytearray"),
    (type("Items", (list,), {})([1]), "Items is derived from list"),
    (type("Parts", (tuple,), {})([1]), "Parts is derived from tuple"),
    (type("Some", (set,), {})([1]), "Some is derived from set"),
    (type("Moment", (datetime,), {})(2020, 1, 1), "Moment is derived from datetime"),
    (type("Price", (Decimal,), {})(1), "Price is derived from Decimal"),
    (OrderedDict(a=1), "OrderedDict is derived from dict"),
    (defaultdict(int), "defaultdict is derived from dict"),
    (Counter("aab"), "Counter is derived from dict"),
    (time(1, tzinfo=Unnamed()), "its time zone .* has no offset"),
    (Unregistered(), r"Unregistered is a dataclass that .*env\.register_type\(Unregistered\)"),
    (Other.ONE, r"Other is an enumeration that is not registered: .*register_type\(Other\)"),
    (Pair(1, 2), "Pair is a named tuple that is not registered"),
    (DerivedReading("a", 1.5), "DerivedReading is a dataclass that is not registered"),
    (unset(), "has no attribute 'value'"),
]  # fmt: skip


@pytest.mark.parametrize("way", PACKERS)
@pytest.mark.parametrize(("value", "reason"), REFUSED, ids=name_of)
def test_everything_else_is_refused_with_its_type_and_what_to_do(
    value: Any, reason: str, way: str
) -> None:
    """This holds at any depth, and the packer goes on with the next record."""
    pack = PACKERS[way]
    for record in (value, [(1, value)], {"a": {1: [value]}}, Slotted(1, {2: Slotted(3, [value])})):
        if way != "the writer's":
            with pytest.raises(Exception, match=reason):
                pack(record)
        else:
            with pytest.raises(SerializationError, match=reason) as refused:
                pack(record)
            assert f"a record of type {name_of(record)} cannot be serialised" in str(refused.value)
        assert pack({1: 2}) == b"\x81\x01\x02"


def test_a_key_that_is_refused_is_explained_too() -> None:
    for key in (Unregistered, Text("b"), (1, Integer(2)), 2**64):
        with pytest.raises(SerializationError, match="derived from|no form|at most 64 bits"):
            PACKERS["the writer's"]({"a": 1, key: 2})


def test_a_refused_record_deep_in_objects_is_refused_at_once() -> None:
    """It is not tried again at each level, which would take two to the power of the levels."""
    asked = 0

    @dataclass
    class Counted:
        number: int

        @property
        def more(self) -> Any:
            nonlocal asked
            asked += 1
            return object()

    pack = RecordPacker([Slotted, Counted]).pack
    record: Any = Counted(1)
    Counted.__dataclass_fields__["more"] = Slotted.__dataclass_fields__["more"]
    pack = RecordPacker([Slotted, Counted]).pack
    for _ in range(EXTENSIONS_NESTED_MAX - 1):
        record = Slotted(1, record)
    with pytest.raises(SerializationError, match="object has no form"):
        pack(record)
    assert asked == 1


# -- depth -----------------------------------------------------------------------------------------


def nested(levels: int, wrap: Any, innermost: Any = None) -> Any:
    for _ in range(levels):
        innermost = wrap(innermost)
    return innermost


WRAPS = {
    "list": lambda each: [each],
    "tuple": lambda each: (each,),
    "map": lambda each: {"a": each},
    "map of numbers": lambda each: {1: each},
    "pair": lambda each: (each, 5),
}


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_the_writer_refuses_the_nesting_that_the_reader_refuses(wrap: Any, pack: Any) -> None:
    """The limit does not depend on the stack."""
    data = pack(nested(NESTING_MAX, wrap))
    value, depth = unpacker.record(data), 0
    while value is not None:
        value = value[next(iter(value)) if isinstance(value, dict) else 0]
        depth += 1
    assert depth == NESTING_MAX
    with pytest.raises(Exception, match=f"nested more than {NESTING_MAX} levels deep"):
        pack(nested(NESTING_MAX + 1, wrap))
    with pytest.raises(Exception, match=f"nested more than {NESTING_MAX} levels deep"):
        pack((1, {2: nested(NESTING_MAX - 1, wrap)}))
    too_deep = unpacked_as_block(b"\x91" + data)
    assert too_deep == "refused"
    assert unpacked_as_block(data) == "read"


def unpacked_as_block(data: bytes) -> str:
    """Return whether a buffer with one such record is read; the array around it is one level."""
    memory = memoryview(bytearray(5) + data)
    try:
        unpacker.whole_records(memory, 5, len(memory), 1)
    except (ValueError, msgpack.UnpackException):
        return "refused"
    return "read"


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize(
    "wrap", [lambda each: Slotted(1, each), lambda each: frozenset({each})], ids=["object", "set"]
)
def test_the_writer_refuses_as_many_extensions_in_one_another_as_the_reader(
    wrap: Any, pack: Any
) -> None:
    deep = nested(EXTENSIONS_NESTED_MAX, wrap)
    assert unpacker.record(pack(deep)) == deep
    expected = f"nested more than {EXTENSIONS_NESTED_MAX} levels deep"
    for record in (wrap(deep), {1: wrap(deep)}):
        with pytest.raises(Exception, match=expected):
            pack(record)
    packed = msgpack.packb(msgpack.ExtType(7, b"\x91" + pack(deep)))
    with pytest.raises(
        ValueError, match=f"it is nested in more than {EXTENSIONS_NESTED_MAX} other extensions"
    ):
        unpacker.record(packed)


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_a_record_that_contains_itself_is_refused(pack: Any) -> None:
    array_: list[Any] = []
    array_.append(array_)
    mapped: dict[Any, Any] = {}
    mapped[1] = mapped
    slotted = Slotted(1)
    slotted.more = slotted
    for endless in (array_, mapped, slotted):
        with pytest.raises(Exception, match="levels deep"):
            pack(endless)


def test_an_interruption_is_not_taken_for_a_refusal() -> None:
    """The packing library drops the errors of its hook."""

    @dataclass
    class Interrupting:
        @property
        def more(self) -> Any:
            raise KeyboardInterrupt

    Interrupting.__dataclass_fields__ = {"more": Slotted.__dataclass_fields__["more"]}
    pack = RecordPacker([Interrupting]).pack
    with pytest.raises(KeyboardInterrupt):
        pack((1, Interrupting()))
    assert pack(1) == b"\x01"


def test_a_registered_object_is_what_it_was_registered_as() -> None:
    """The numbers are the receiver's: it makes an object of its own class with this number."""
    data = RecordPacker({5: FrozenAndSlotted}).pack(FrozenAndSlotted(1, date.max))
    there = RecordUnpacker(record_bytes_max=99, record_elements_max=99, types={5: Point})
    assert same(there.record(data), Point(1, date.max))  # type: ignore[arg-type]


# -- record by record, as a writer packs -----------------------------------------------------------


def packed_as_writers_do(packer: RecordPacker, record: Any) -> bytes:
    """Pack a record as a writer does, without a Python call for most records."""
    try:
        return packer.encode(record, packer.form, packer.options)
    except TypeError:
        return packer.pack_otherwise(record)


@pytest.mark.parametrize("record", [(1, "two"), {3: Slotted(4, None)}], ids=spelled)
def test_a_writer_packs_as_anybody_does(record: Any) -> None:
    packer = RecordPacker(KNOWN)
    assert packed_as_writers_do(packer, record) == packer.pack(record)


def test_a_writer_is_told_why_a_record_is_refused() -> None:
    with pytest.raises(SerializationError, match="a record of type range cannot be serialised"):
        packed_as_writers_do(RecordPacker(KNOWN), range(1))


@pytest.mark.parametrize("key", ["text", 5], ids=["by the one packer", "by the other"])
def test_a_record_that_fits_a_long_buffer_is_checked_when_packed(key: Any) -> None:
    """Only a record that is long enough for the number of its keys to matter is checked."""
    packer = CheckedRecordPacker(KNOWN, RecordLimits(1 << 20, 1_000))
    short, long = {key: [0] * 2_000}, {key: [0] * COUNTED_FROM_BYTES}
    assert packed_as_writers_do(packer, short) == packer.pack(short) == RecordPacker().pack(short)
    for pack in (packer.pack, lambda record: packed_as_writers_do(packer, record)):
        with pytest.raises(SerializationError, match="record_elements_max"):
            pack(long)
