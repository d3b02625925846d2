"""Conversions do the same as the types' own ``convert``, value by value, errors included.

Both forms are tested, over generated types with valid and invalid values.
"""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import IntEnum
from math import inf, nan
from operator import itemgetter
from random import Random
from struct import pack, unpack
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pytest

from flinknet.compiled_modules import COMPILED
from flinknet.functions import type_information
from flinknet.functions.durations import Instant
from flinknet.functions.row import Row, RowKind
from flinknet.functions.type_information import (
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
    converter,
)
from flinknet.records import conversion as in_use
from flinknet.records.conversion import ConvertedKey
from tests.naming import spelled
from tests.plain_module import plain_module

FORMS: list[ModuleType] = [plain_module("flinknet.records.conversion")]
if COMPILED:
    FORMS.append(in_use)

INT, LONG, TEXT, DOUBLE = Types.INT(), Types.LONG(), Types.STRING(), Types.DOUBLE()
PAIR = Types.TUPLE([LONG, TEXT])
NAMED = Types.ROW_NAMED(["id", "name"], [LONG, TEXT])


@pytest.fixture(params=FORMS, ids=lambda form: form.__name__)
def make(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[TypeInformation], Any]:
    """Return a maker of conversions, in each of the forms."""
    monkeypatch.setattr(type_information, "forms", request.param)
    return lambda kind: kind.conversion()


class Pair(NamedTuple):
    first: Any
    second: Any


class Reversed(tuple[Any, ...]):
    """Iterates in another order than that of its elements."""

    __slots__ = ()

    def __iter__(self) -> Any:
        return iter(self[::-1])


class Doubled(list[Any]):
    def __iter__(self) -> Any:
        return iter([*super().__iter__(), *super().__iter__()])


class Number(int):
    """An int subclass."""


class Real(float):
    pass


class Colour(IntEnum):
    RED = 1


class SubRow(Row):
    """A subclass of Row."""


@dataclass
class Person:
    id: Any
    name: Any


class Slotted:
    __slots__ = ("id", "name")


class Indexed:
    def __index__(self) -> int:
        return 7


class Rude:
    def __index__(self) -> int:
        raise LookupError("no number today")

    def __float__(self) -> float:
        raise LookupError("no float today")


class Upper(BasicTypeInfo):
    """A user's type, derived from one of flinknet's, with another conversion."""

    def __init__(self) -> None:
        super().__init__("String")

    def convert(self, value: Any) -> Any:
        return str(super().convert(value)).upper()


def unnamed(row_kind: RowKind, *values: Any) -> Row:
    return Row.of_kind(row_kind, *values)


def arrived(**values: Any) -> Row:
    """Return a row as it comes over the network, with tuples in place of lists."""
    row = Row(**values)
    row._values = tuple(values.values())
    row._fields = tuple(values)
    return row


def integer(bits: int) -> Callable[[Random], int]:
    return lambda random: random.choice([0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))])


EXACT: dict[str, Callable[[Random], Any]] = {
    "String": lambda random: random.choice(["", "a", "ab", "\U0001f600"]),
    "Byte": integer(8),
    "Boolean": lambda random: random.random() < 0.5,
    "Short": integer(16),
    "Integer": integer(32),
    "Long": integer(64),
    "Float": lambda random: random.choice([0.0, -0.0, 0.5, inf, 2.0**127]),
    "Double": lambda random: random.choice([0.1, -0.0, nan, -inf, random.gauss(0, 1e9)]),
    "Char": lambda random: random.choice("a\U0001f600"),
    "BigInteger": integer(100),
    "BigDecimal": lambda random: Decimal(random.randrange(9)) / 8,
    "Instant": lambda random: Instant(random.randrange(9), 2),
    "Date": lambda random: date(2024, 1, random.randrange(1, 9)),
    "Time": lambda random: time(random.randrange(9)),
    "Timestamp": lambda random: datetime(2024, 1, random.randrange(1, 9)),
}
"""Makers of valid values of the basic types."""

ODD: list[Any] = [
        None, True, 0, -1, 2**7, 2**15, 2**31, -(2**31) - 1, 2**63, 2**70, 10**400, 0.0, -0.0, 0.1,
        1e300, inf, -inf, nan, unpack("<d", pack("<Q", 0x7FF8000000000123))[0], "", "ab", b"ab",
        bytearray(b"ab"), np.int64(3), np.int8(3), np.float32(0.5), np.float64(0.1), np.bool_(True),
        Number(5), Real(1.5), Colour.RED, Indexed(), Rude(), Decimal(3), Decimal("0.1"),
        date(2024, 1, 2), datetime(2024, 1, 2), time(1, 2), Instant(3, 4), {1}, object(), 1j,
        (1, "a"), [1, "a"], ("a", 1), (1, None), (None, None), (), [], (1, 2, 3), Pair(1, "a"),
        Pair("a", None), Reversed((1, "a")), Doubled([1]), Row(1, "a"), Row(id=1, name="a"),
        Row(name="a", id=1), Row(id=1), Row(id=1, name="a", more=2), Row(1, 2, 3),
        Row(id="a", name=1),
        arrived(id=1, name="a"), arrived(id="a", name=1),
        unnamed(RowKind.DELETE, 1, "a"), SubRow(1, "a"), {"id": 1, "name": "a"}, {"name": "a"}, {},
        {1: "a"}, {"a": 1, "b": None}, {None: 1}, OrderedDict(id=1, name="a"), Person(1, "a"),
        Person("a", 1), SimpleNamespace(id=1), Slotted(), Person, lambda: None, range(2), "id",
]  # fmt: skip
"""Values that a type may have to convert or refuse."""


NUMBERS = ("Boolean", "Byte", "Short", "Integer", "Long", "Float", "Double", "Char")


def some_type(random: Random, depth: int = 2) -> TypeInformation:
    basic = BasicTypeInfo(random.choice([*EXACT]))
    if not depth or random.random() < 0.3:
        number = BasicTypeInfo(random.choice(NUMBERS))
        few: list[Callable[[], TypeInformation]] = [
            Types.PICKLED_BYTE_ARRAY,
            Upper,
            lambda: Types.BASIC_ARRAY(basic),
            lambda: Types.PRIMITIVE_ARRAY(number),
        ]
        return random.choice([*[lambda: basic] * 6, *few])()
    inner = [some_type(random, depth - 1) for _ in range(random.choice([0, 1, 2, 2, 3]))]
    pair = [some_type(random, depth - 1) for _ in range(2)]
    return random.choice(
        [
            lambda: Types.TUPLE(inner),
            lambda: Types.TUPLE(pair),
            lambda: Types.ROW(inner),
            lambda: Types.ROW_NAMED(["id", "name"], pair),
            lambda: Types.LIST(pair[0]),
            lambda: Types.OBJECT_ARRAY(pair[0]),
            lambda: Types.MAP(basic, pair[0]),
        ]
    )()


def some_value(random: Random, kind: TypeInformation) -> Any:
    """Make a value that a type accepts, converts or refuses."""
    if random.random() < 0.08:
        return random.choice(ODD)
    if isinstance(kind, TupleTypeInfo | RowTypeInfo):
        values = [some_value(random, one) for one in kind.get_field_types()]
        names = kind.get_field_names() if isinstance(kind, RowTypeInfo) else []
        named = dict(zip(names, values, strict=False))
        backwards = dict(reversed(named.items()))
        return random.choice(
            [
                tuple(values), tuple(values), list(values), Row(*values), Row(**named),
                arrived(**named), Row(**backwards), named, SimpleNamespace(**named),
            ]
        )  # fmt: skip
    if isinstance(kind, PrimitiveArrayTypeInfo) and not kind.has_lists:
        return random.choice([b"", b"ab", bytearray(b"ab")])
    if isinstance(kind, ListTypeInfo):
        elements = [some_value(random, kind.element_type) for _ in range(random.randrange(4))]
        return random.choice([elements, tuple(elements)])
    if isinstance(kind, MapTypeInfo):
        keys = [some_value(random, kind._key) for _ in range(random.randrange(4))]
        return {key: some_value(random, kind._value) for key in keys if is_hashable(key)}
    if isinstance(kind, BasicTypeInfo):
        return EXACT[kind.name](random)
    return random.choice(ODD)


def is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a call, taken apart, or its error."""
    try:
        return taken_apart(call(*arguments))
    except Exception as error:
        return type(error), str(error)


def taken_apart(value: Any) -> Any:
    """Return a form of a value that is equal only for equal values of exactly the same classes."""
    if isinstance(value, Row):
        parts: Any = [taken_apart(one) for one in value]
        return type(value), value.field_names(), value.get_row_kind(), parts
    if type(value) in (list, tuple):
        return type(value), [taken_apart(one) for one in value]
    if type(value) is dict:
        return dict, [(taken_apart(key), taken_apart(one)) for key, one in value.items()]
    if isinstance(value, float):
        return type(value), pack("<d", value)
    if isinstance(value, int | str | bytes | Decimal | date | time | Instant):
        return type(value), repr(value)
    return id(value)


def one_by_one(kind: TypeInformation, records: list[Any]) -> list[Any]:
    return [kind.convert(record) for record in records]


TYPES_TRIED, BATCHES_OF_EACH = 1500, 4


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_records_become_what_the_type_makes_of_each(
    form: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type_information, "forms", form)
    random = Random(0)
    seen: Counter[str] = Counter()
    for _ in range(TYPES_TRIED):
        kind = some_type(random)
        made: Any = kind.conversion()
        for _ in range(BATCHES_OF_EACH):
            records = [some_value(random, kind) for _ in range(random.randrange(1, 4))]
            said = f"{kind!r} of {records!r}"
            expected = outcome(one_by_one, kind, records)
            assert outcome(made.each, records) == expected, said
            assert outcome(made.each, tuple(records)) == expected, "a batch need not be a list"
            if expected[0] is not list:
                seen["refused"] += 1
            else:
                seen["right" if made.each(records) is records else "made"] += 1
            assert outcome(list, made.as_they_come(records)) == expected, said
            check_values(kind, made, records)
    assert min(seen.values()) > TYPES_TRIED // 4, "each was tried many times"


def check_values(kind: TypeInformation, made: Any, values: list[Any]) -> None:
    for value in values:
        converted = outcome(kind.convert, value)
        assert outcome(made, value) == converted
        if made.fits(value):
            assert converted == taken_apart(value), "what fits is what it would become"
            assert made(value) is value


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        (PAIR, (1, "a")),
        (PAIR, (None, None)),
        (Types.TUPLE([PAIR, DOUBLE]), ((1, "a"), 0.5)),
        (Types.LIST(PAIR), [(1, "a"), None]),
        (Types.PRIMITIVE_ARRAY(Types.FLOAT()), [0.5]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab"),
        (Types.MAP(TEXT, Types.LIST(INT)), {"a": [1, None], "b": None}),
        (NAMED, Row(id=1, name="a")),
        (NAMED, arrived(id=1, name=None)),
        (Types.ROW([NAMED, Types.CHAR()]), Row(f0=Row(id=1, name="a"), f1="x")),
        (Types.BIG_INT(), 2**70),
        (Types.SQL_TIMESTAMP(), datetime(2024, 1, 2)),
    ],
    ids=spelled,
)
def test_a_batch_that_is_right_goes_on_as_it_is(
    make: Callable[[TypeInformation], Any], kind: TypeInformation, right: Any
) -> None:
    made = make(kind)
    assert made(right) is right
    records = [right, right]
    assert made.each(records) is records


def row_with(**own: Any) -> Row:
    """Return a row that its own methods would never make, as a program or a pickle can."""
    row = Row(id=1, name="a")
    vars(row).update(own)
    return row


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.FLOAT(), 1e300),
        (Types.FLOAT(), -1e300),
        (Types.FLOAT(), 10**300),
        (Types.LIST(Types.FLOAT()), [0.5, 1e300]),
        (NAMED, row_with(_kind="INSERT", _values=[1, b"a"])),
        (NAMED, row_with(_fields=("name", "id"), _kind=9)),
        (NAMED, row_with(_fields=("name",))),
        (NAMED, row_with(_fields=("name", "id", "more"))),
        (PAIR, row_with(_values=range(2))),
    ],
    ids=lambda value: spelled(vars(value) if isinstance(value, Row) else value),
)
def test_a_value_that_no_form_makes_is_left_to_its_type(
    make: Callable[[TypeInformation], Any], kind: TypeInformation, value: Any
) -> None:
    assert outcome(make(kind), value) == outcome(kind.convert, value)
    with pytest.raises((TypeError, ValueError)):
        make(kind)(value)


def test_matching_values_of_a_batch_stay_and_others_are_converted(
    make: Callable[[TypeInformation], Any],
) -> None:
    right = (1, "a")
    records = [right, [2, "b"], right]
    made = make(PAIR).each(records)
    assert made == [right, (2, "b"), right]
    assert made[0] is made[2] is right
    assert records == [right, [2, "b"], right], "a batch is never changed"


def test_a_row_that_is_made_is_as_any_other(make: Callable[[TypeInformation], Any]) -> None:
    row = make(NAMED)(unnamed(RowKind.UPDATE_AFTER, 1, "a"))
    assert (row.id, row["name"], row.get_row_kind()) == (1, "a", RowKind.UPDATE_AFTER)
    row["id"] = 2
    assert row == Row.of_kind(RowKind.UPDATE_AFTER, id=2, name="a")
    assert pickle.loads(pickle.dumps(row)) == row


def test_it_takes_one_value(make: Callable[[TypeInformation], Any]) -> None:
    made = make(LONG)
    for wrong in (made, lambda: made(1, 2), lambda: made(value=1)):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_keys_are_made_what_their_type_says(form: ModuleType) -> None:
    conversion: Any = None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type_information, "forms", form)
        conversion = DOUBLE.conversion()
    key = form.ConvertedKey(itemgetter(0), conversion)
    assert [*map(key, [(1,), (0.5,)])] == [1.0, 0.5]
    assert type(key((1,))) is float
    with pytest.raises(TypeError, match="is no number, but the type is Double"):
        key(("a",))
    with pytest.raises(IndexError):
        key(())
    with pytest.raises(TypeError):
        key((1,), (2,))


def test_conversions_and_keys_travel_as_their_types() -> None:
    conversion = converter(Types.ROW([PAIR]))
    assert conversion is not None
    key = ConvertedKey(lambda record: record[0], conversion)
    again = cloudpickle.loads(cloudpickle.dumps(key))
    assert type(again) is ConvertedKey
    assert again.conversion.kind == conversion.kind
    assert again([([1, "a"],)]) == Row(f0=(1, "a"))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_row_has_a_name_for_each_value(form: ModuleType) -> None:
    with pytest.raises(ValueError, match="a name for each"):
        form.rows(NAMED, [], ["id"], Row)


def test_records_are_converted_when_they_are_asked_for(
    make: Callable[[TypeInformation], Any],
) -> None:
    records = iter([(1, "a"), [2, "b"], "wrong"])
    asked = make(PAIR).as_they_come(records)
    assert next(asked) == asked.last == (1, "a")
    assert next(records) == [2, "b"], "the next one has not been looked at"
    with pytest.raises(TypeError, match="is no TupleTypeInfo"):
        next(asked)
    assert asked.last == (1, "a")
    assert next(asked, None) is None
