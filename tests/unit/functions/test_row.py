"""Rows are PyFlink's: values that may have names."""

from __future__ import annotations

import copy
import pickle

import pytest

from flinknet.functions.row import Row, RowKind


def test_named_values_are_found_by_name_and_by_place() -> None:
    row = Row(name="Alice", age=11)
    assert (row.name, row["name"], row[0], row[-1]) == ("Alice", "Alice", "Alice", 11)
    assert "name" in row
    assert "Alice" not in row
    assert row.as_dict() == {"name": "Alice", "age": 11}
    assert row.get_fields_by_names(["age", "name"]) == [11, "Alice"]
    assert repr(row) == "Row(name='Alice', age=11)"
    row["age"] = 12
    row[0] = "Bob"
    assert list(row) == ["Bob", 12]


def test_values_without_names() -> None:
    row = Row("Alice", 11)
    assert ("Alice" in row, len(row), repr(row)) == (True, 2, "<Row('Alice', 11)>")
    assert row.field_names() is None
    with pytest.raises(TypeError, match="cannot become a dict"):
        row.as_dict()
    row.set_field_names(["name", "age"])
    assert row.age == 11


def test_a_row_of_names_makes_rows() -> None:
    person = Row("name", "age")
    assert person("Alice", 11) == Row(name="Alice", age=11)
    with pytest.raises(ValueError, match="3 values"):
        person(1, 2, 3)


def test_a_missing_field_is_an_error() -> None:
    row = Row(name="Alice")
    with pytest.raises(AttributeError, match="no value 'age'"):
        _ = row.age
    with pytest.raises(KeyError):
        row["age"]
    with pytest.raises(AttributeError, match="cannot be set"):
        row.name = "Bob"
    with pytest.raises(ValueError, match="not both"):
        Row(1, name=2)
    with pytest.raises(ValueError, match="2 names"):
        row.set_field_names(["a", "b"])


def test_equality_goes_by_names_values_and_kind() -> None:
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert hash(Row(a=1, b=2)) == hash(Row(b=2, a=1))
    assert Row(1, 2) == Row(1, 2)
    assert Row(1, 2) != Row(a=1, b=2)
    assert Row(1) != (1,)
    deleted = Row.of_kind(RowKind.DELETE, 1, 2)
    assert deleted != Row(1, 2)
    assert str(deleted.get_row_kind()) == "-D"
    assert len({Row(1), Row(1)}) == 1


def test_copies_are_independent() -> None:
    row = Row(a=1, b=[2])
    for other in (copy.copy(row), copy.deepcopy(row), pickle.loads(pickle.dumps(row))):
        assert other == row
        other["a"] = 3
        assert row.a == 1


def test_nested_rows_become_dicts() -> None:
    row = Row(a=Row(b=1), c=[Row(d=2)], e={"f": Row(g=3)})
    assert row.as_dict()["a"] == Row(b=1)
    assert row.as_dict(recursive=True) == {"a": {"b": 1}, "c": [{"d": 2}], "e": {"f": {"g": 3}}}
