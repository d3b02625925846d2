"""CSV files as a source."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from flinknet.datastream import CsvSource
from flinknet.datastream.connectors.text_files import SOURCE_BATCH_LINES, LineSource
from flinknet.errors import ConfigurationError
from tests.unit.operators.harness import context


def all_of(source: LineSource, index: int = 0, parallelism: int = 1) -> list[Any]:
    place = context(index=index, parallelism=parallelism)
    return [record for batch in source.read_share(place) for record in batch]


def refused(source: LineSource, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        all_of(source)


def test_csv_with_names_in_the_file_and_without(tmp_path: Path) -> None:
    file = tmp_path / "flights.csv"
    file.write_text('city,delay\n"New\nYork",3\nBoston,-1\n')
    assert all_of(CsvSource(file, types={"delay": int})) == [("New\nYork", 3), ("Boston", -1)]
    assert all_of(CsvSource(tmp_path, records="dict"))[1] == {"city": "Boston", "delay": "-1"}
    file.write_text("Boston;-1\n")
    assert all_of(CsvSource(file, columns=["city", "delay"], delimiter=";")) == [("Boston", "-1")]
    file.write_text("")
    assert all_of(CsvSource(file, types={"delay": int})) == []


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="there is no column 'c': the columns are a, b"):
        all_of(CsvSource(file, types={"c": int}))


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    for name in ("city", '"city, state"'):
        file.write_bytes(f"{name},delay\r\nBoston,1\r\n".encode("utf-8-sig"))
        rows = all_of(CsvSource(file, records="dict", types={"delay": int}))
        assert rows == [{name.strip('"'): "Boston", "delay": 1}]
    file.write_text("city,delay\nBoston,1\n", encoding="utf-16")
    assert all_of(CsvSource(file, encoding="utf-16")) == [("Boston", "1")]


@pytest.mark.parametrize("records", ["tuple", "dict"])
def test_columns_are_found_by_name_in_all_files(tmp_path: Path, records: Any) -> None:
    """This includes a subtask that does not read the first file."""
    (tmp_path / "0.csv").write_text("")
    (tmp_path / "1.csv").write_text("id,city\n1,a\n")
    (tmp_path / "2.csv").write_text("city,id\nb,2\n")
    (tmp_path / "3.csv").write_text("city,id\nc,3\n")
    source = CsvSource(tmp_path, records=records, types={"id": int})
    rows = all_of(source, 0, 2) + all_of(source, 1, 2)
    as_dicts = [{"id": 2, "city": "b"}, {"id": 1, "city": "a"}, {"id": 3, "city": "c"}]
    assert [list(row) for row in rows] == [
        list(row) if records == "dict" else list(row.values()) for row in as_dicts
    ]
    if records == "dict":
        assert rows == as_dicts


@pytest.mark.parametrize("header", ["id", "id,town", "id,city,city", "id,city,more"])
def test_files_with_other_columns_are_not_mixed(tmp_path: Path, header: str) -> None:
    (tmp_path / "a.csv").write_text("id,city\n1,a\n")
    (tmp_path / "b.csv").write_text(f"{header}\n")
    columns = header.replace(",", ", ")
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    message = f"{second} has the columns {columns}, but {first} has id, city"
    refused(CsvSource(tmp_path), message)


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,name,id\n1,x,2\n")
    assert all_of(CsvSource(file)) == [("1", "x", "2")]
    refused(CsvSource(file, records="dict"), f"{file}, line 1: two columns have the name 'id'")
    refused(CsvSource(file, types={"id": int}), f"{file}, line 1: two columns have the name 'id'")
    with pytest.raises(ConfigurationError, match="two columns have the name 'id'"):
        CsvSource(file, columns=["id", "name", "id"], records="dict")


def test_empty_lines_are_no_rows(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("\na,b\n\n1,2\n\n\n3,4\n\n")
    assert all_of(CsvSource(file)) == [("1", "2"), ("3", "4")]
    file.write_text('a\n""\n\n1\n')
    refused(CsvSource(file), f"{file}, line 3: an empty line in a file of one column")


def test_a_long_field(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"a,b\n1,{'x' * 1_000_000}\n")
    assert all_of(CsvSource(file)) == [("1", "x" * 1_000_000)]


@pytest.mark.parametrize(
    ("make", "text", "problem"),
    [
        (int, "1.5", "is no int: ValueError: invalid literal"),
        (int, "1_000", "is no int: ValueError: a number is written in ASCII digits"),
        (int, "٣", "is no int: ValueError: a number is written in ASCII digits"),
        (int, "", "is no int"),
        (float, "1e400", "is no float: ValueError: the number 1e400 does not fit a float"),
        (Decimal, "1_0", "is no Decimal"),
        (bool, "no", "is no bool: ValueError: it is not true, false, 1 or 0"),
        ({"a": 1}.__getitem__, "b", "is no __getitem__: KeyError: 'b'"),
    ],
)
def test_a_value_without_an_exact_conversion_is_named(
    tmp_path: Path, make: Any, text: str, problem: str
) -> None:
    """It comes behind values with line breaks and empty lines, in the second batch."""
    file = tmp_path / "a.csv"
    good = {int: "1", float: "inf", Decimal: "1.50", bool: "True"}.get(make, "a")
    with file.open("w", newline="", encoding="utf-8") as out:
        out.write("note,value\n")
        out.write(f"x,{good}\n" * SOURCE_BATCH_LINES)
        out.write(f'"two\r\nlines\rand one",{good}\n\n')
        out.write(f"x,{text}\n")
    line = 1 + SOURCE_BATCH_LINES + 3 + 1 + 1
    refused(CsvSource(file, types={"value": make}), f"{file}, line {line}, column 'value': ")
    refused(CsvSource(file, types={"value": make}), f"{text!r} {problem}")


def test_texts_of_truth_values_and_numbers(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("ok,size\nTrue,1e3\nfalse,-inf\n0, 2\n1,nan\n")
    rows = all_of(CsvSource(file, types={"ok": bool, "size": float}))
    assert [row[0] for row in rows] == [True, False, False, True]
    assert [row[1] for row in rows[:3]] == [1000.0, float("-inf"), 2.0]
    assert rows[3][1] != rows[3][1]


def test_options_that_cannot_work(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a")
    with pytest.raises(ConfigurationError, match='records is .*: choose "tuple" or "dict"'):
        CsvSource(tmp_path, records="rows")  # type: ignore[arg-type]
    for delimiter in ("", '"', "\n", "ab"):
        with pytest.raises(ConfigurationError, match="the delimiter is .*: choose one character"):
            CsvSource(tmp_path, delimiter=delimiter)
