"""Reduce functions on one field of keyed records: PyFlink's sum, min, max, min_by and max_by.

A field is a position in a tuple, a list or a row, or a name in a row, a dict, a named tuple, a
dataclass or a msgspec Struct. For records of any other class, field 0 is the record itself. The
result is a record of the same class.

A sum, a minimum and a maximum keep the other fields of the first record. ``min_by`` and ``max_by``
return the whole record that has the extreme; among equal records, the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any

from flinknet.errors import ConfigurationError
from flinknet.functions.functions import ReduceFunction
from flinknet.functions.row import Row

__all__ = ["Accumulator", "ExtremeBy", "Maximum", "Minimum", "Projection", "Sum"]

Field = int | str


class _OfField(ReduceFunction):
    """Base of the reduce functions that read one field."""

    def __init__(self, field: Field) -> None:
        if isinstance(field, bool) or not isinstance(field, int | str):
            raise ConfigurationError(f"a field is a position or a name, not {field!r}")
        self._field: Any = field

    def _value(self, record: Any) -> Any:
        field = self._field
        if isinstance(record, list | Row | dict) or type(record) is tuple:
            return record[field]
        names = _field_names(record)
        if names is not None:
            return getattr(record, self._name_in(record, names))
        if isinstance(record, tuple):
            return record[field]
        if field != 0:
            raise TypeError(
                f"a {type(record).__name__} has no field {field!r}: field 0 is the whole record"
            )
        return record

    def _name_in(self, record: Any, names: Sequence[str]) -> str:
        """Return the name of the field in a record that has names for its fields."""
        field = self._field
        if field in names:
            return str(field)
        is_place = isinstance(record, tuple) and isinstance(field, int)
        if is_place and -len(names) <= field < len(names):
            return str(names[field])
        raise TypeError(
            f"a {type(record).__name__} has no field {field!r}: choose one of {', '.join(names)}"
        )


class Accumulator(_OfField):
    """Base of the reduce functions that return the first record with a new value in the field."""

    def combine(self, before: Any, value: Any) -> Any:
        """Return the field's new value, given its value so far and the next one."""
        raise NotImplementedError

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return ``value1`` with the combined value in the field."""
        field, combined = self._field, self.combine(self._value(value1), self._value(value2))
        if isinstance(value1, list | Row | dict):
            changed = copy(value1)
            changed[field] = combined
            return changed
        names = None if type(value1) is tuple else _field_names(value1)
        if names is not None:
            return _with_field(value1, self._name_in(value1, names), combined)
        if isinstance(value1, tuple):
            place = field % len(value1)
            values = (*value1[:place], combined, *value1[place + 1 :])
            return values if type(value1) is tuple else type(value1)(values)
        return combined


class Sum(Accumulator):
    """The sum of a field."""

    def combine(self, before: Any, value: Any) -> Any:
        """Return the sum of the two values."""
        return before + value


class Minimum(Accumulator):
    """The least value of a field."""

    def combine(self, before: Any, value: Any) -> Any:
        """Return the lesser of the two values."""
        return min(before, value)


class Maximum(Accumulator):
    """The greatest value of a field."""

    def combine(self, before: Any, value: Any) -> Any:
        """Return the greater of the two values."""
        return max(before, value)


class ExtremeBy(_OfField):
    """The record with the least, or the greatest, value of a field."""

    def __init__(self, field: Field, *, greatest: bool) -> None:
        super().__init__(field)
        self._greatest = greatest

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the record that has the extreme; ``value1`` if the fields are equal."""
        before, value = self._value(value1), self._value(value2)
        return value2 if (value > before if self._greatest else value < before) else value1


class Projection:
    """A function from tuples to tuples of some of their fields."""

    def __init__(self, fields: tuple[int, ...]) -> None:
        for field in fields:
            if isinstance(field, bool) or not isinstance(field, int) or field < 0:
                raise ConfigurationError(f"project takes positions of fields, not {field!r}")
        if not fields:
            raise ConfigurationError("project needs at least one field")
        self._fields = fields

    def __call__(self, record: Any) -> tuple[Any, ...]:
        if not isinstance(record, tuple):
            raise TypeError(f"only tuples can be projected, not a {type(record).__name__}")
        return tuple([record[field] for field in self._fields])

    def of_type(self, types: list[Any]) -> list[Any]:
        """Return the types of the projected fields.

        Raises ConfigurationError if a tuple with these types lacks a projected field.
        """
        if max(self._fields) >= len(types):
            raise ConfigurationError(
                f"the tuples have {len(types)} fields: project takes 0 to {len(types) - 1}"
            )
        return [types[field] for field in self._fields]


def _field_names(record: Any) -> Sequence[str] | None:
    """Return the names of the fields of a named tuple, a dataclass or a Struct; None for others."""
    if is_dataclass(record):
        return [field.name for field in fields(record)]
    kind: Any = type(record)
    names: Sequence[str] | None = getattr(
        kind, "_fields" if isinstance(record, tuple) else "__struct_fields__", None
    )
    return names


def _with_field(record: Any, name: str, value: Any) -> Any:
    """Return a copy of a record with another value in a named field."""
    if isinstance(record, tuple):
        return record._replace(**{name: value})  # type: ignore[attr-defined]
    changed = copy(record)
    if is_dataclass(record):
        object.__setattr__(changed, name, value)  # a frozen dataclass refuses setattr
    else:
        from msgspec.structs import force_setattr  # installed, because the record is a Struct

        force_setattr(changed, name, value)
    return changed
