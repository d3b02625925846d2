"""Declared types convert values or refuse them."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.durations import Instant
from flinknet.functions.row import Row, RowKind
from flinknet.functions.type_information import TypeInformation, Types, converter

INT, TEXT = Types.INT(), Types.STRING()
NAMED = Types.ROW_NAMED(["id", "tags"], [INT, Types.LIST(TEXT)])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (TEXT, "a", "a"),
        (Types.BYTE(), -128, -128),
        (Types.SHORT(), 32767, 32767),
        (INT, True, 1),
        (Types.LONG(), -(2**63), -(2**63)),
        (Types.FLOAT(), 0.1, 0.10000000149011612),
        (Types.DOUBLE(), 1, 1.0),
        (Types.BOOLEAN(), True, True),
        (Types.CHAR(), "x", "x"),
        (Types.BIG_INT(), 2**70, 2**70),
        (Types.BIG_DEC(), 3, Decimal(3)),
        (Types.BIG_DEC(), Decimal("0.1"), Decimal("0.1")),
        (Types.INSTANT(), Instant(1, 2), Instant(1, 2)),
        (Types.SQL_DATE(), date(2024, 1, 2), date(2024, 1, 2)),
        (Types.SQL_TIME(), time(1, 2), time(1, 2)),
        (Types.SQL_TIMESTAMP(), datetime(2024, 1, 2), datetime(2024, 1, 2)),
        (Types.PICKLED_BYTE_ARRAY(), {1}, {1}),
        (Types.TUPLE([INT, TEXT]), [1, None], (1, None)),
        (Types.ROW([INT, TEXT]), (1, "a"), Row(f0=1, f1="a")),
        (NAMED, {"tags": ("a",), "id": 1}, Row(id=1, tags=["a"])),
        (NAMED, SimpleNamespace(id=1, tags=None), Row(id=1, tags=None)),
        (NAMED, Row(tags=["a"], id=1), Row(id=1, tags=["a"])),
        (NAMED, Row(1, ["a"]), Row(id=1, tags=["a"])),
        (Types.LIST(INT), (1, None), [1, None]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
        (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), [1], [1.0]),
        (Types.BASIC_ARRAY(TEXT), ("a", None), ["a", None]),
        (Types.OBJECT_ARRAY(NAMED), [(1, [])], [Row(id=1, tags=[])]),
        (Types.MAP(TEXT, Types.LIST(INT)), {"a": (1,), "b": None}, {"a": [1], "b": None}),
    ],
)  # fmt: skip
def test_a_value_becomes_what_its_type_says(
    kind: TypeInformation, value: Any, expected: Any
) -> None:
    converted = kind.convert(value)
    assert converted == expected
    assert type(converted) is type(expected)
    assert kind.convert(converted) == expected, "it is idempotent"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (TEXT, 1), (TEXT, None), (INT, 1.5), (INT, 2**31), (INT, "1"), (Types.BYTE(), 128),
        (Types.DOUBLE(), "1"), (Types.FLOAT(), 1e300), (Types.BOOLEAN(), 1), (Types.CHAR(), "ab"),
        (Types.BIG_DEC(), 1.5), (Types.SQL_DATE(), datetime(2024, 1, 2)), (Types.LIST(INT), "ab"),
        (Types.PRIMITIVE_ARRAY(INT), [None]), (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1]),
        (Types.MAP(TEXT, INT), [1]), (Types.TUPLE([INT]), (1, 2)), (Types.TUPLE([INT]), {1}),
        (NAMED, 1), (NAMED, (1,)),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_an_error(kind: TypeInformation, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"\w"):
        kind.convert(value)


def test_the_kind_of_a_row_stays() -> None:
    deleted = NAMED.convert(Row.of_kind(RowKind.DELETE, 1, []))
    assert deleted.get_row_kind() is RowKind.DELETE


def test_types_are_equal_by_what_they_say() -> None:
    assert Types.TUPLE([INT]) == Types.TUPLE([Types.INT()]) != Types.TUPLE([TEXT])
    assert Types.ROW([INT]) != Types.TUPLE([INT])
    assert len({Types.LIST(INT), Types.LIST(INT), Types.LIST(TEXT)}) == 2
    assert repr(NAMED) == "RowTypeInfo(id: Integer, tags: ListTypeInfo<String>)"
    assert repr(Types.MAP(TEXT, INT)) == "MapTypeInfo<String, Integer>"
    assert (NAMED.get_field_names(), NAMED.get_field_index("tags")) == (["id", "tags"], 1)


def test_it_is_known_what_cannot_be_changed_and_what_has_lists() -> None:
    assert Types.TUPLE([INT, TEXT]).is_unchanging
    assert not Types.TUPLE([INT, Types.LIST(INT)]).is_unchanging
    assert not Types.ROW([INT]).is_unchanging
    assert Types.MAP(TEXT, NAMED).has_lists
    assert not Types.ROW([INT]).has_lists


@pytest.mark.parametrize(
    "make",
    [
        lambda: Types.ROW_NAMED(["a", "a"], [INT, INT]),
        lambda: Types.ROW_NAMED(["a"], [INT, INT]),
        lambda: Types.LIST(int),  # type: ignore[arg-type]
        lambda: Types.PRIMITIVE_ARRAY(TEXT),
        lambda: Types.BASIC_ARRAY(NAMED),
        lambda: converter(int),  # type: ignore[arg-type]
    ],
)
def test_an_object_other_than_a_type_is_refused(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_undeclared_types_need_no_conversion() -> None:
    assert converter(None) is converter(Types.PICKLED_BYTE_ARRAY()) is None
