"""Sums and extremes of a field of keyed records, as reduce functions: PyFlink's sum, min, max,
min_by and max_by.

A field is a position in a tuple, a list or a row, or a name in a row or a dict; of any other record
field 0 is the record itself. The first record stays the rest of a sum, a minimum or a maximum; of
``min_by`` and ``max_by`` it is the record that has the extreme, the first one of several.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from flinknet.errors import ConfigurationError
from flinknet.task.functions import ReduceFunction
from flinknet.task.row import Row

__all__ = ["Accumulator", "ExtremeBy", "Maximum", "Minimum", "Projection", "Sum"]

Field = int | str


class _OfField(ReduceFunction):
    """A reduce function that looks at one field."""

    def __init__(self, field: Field) -> None:
        if isinstance(field, bool) or not isinstance(field, int | str):
            raise ConfigurationError(f"a field is a position or a name, not {field!r}")
        self._field: Any = field

    def _value(self, record: Any) -> Any:
        if isinstance(record, tuple | list | Row | dict):
            return record[self._field]
        self._check_basic(record)
        return record

    def _check_basic(self, record: Any) -> None:
        if self._field != 0:
            raise TypeError(
                f"a {type(record).__name__} has no field {self._field!r}: field 0 is all of it"
            )


class Accumulator(_OfField):
    """One whose result is the first record with another value in the field."""

    def combine(self, before: Any, value: Any) -> Any:
        """Return what the field has when one more value has come."""
        raise NotImplementedError

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return ``value1`` with the field of both."""
        field, combined = self._field, self.combine(self._value(value1), self._value(value2))
        kind = type(value1)
        if kind is tuple and isinstance(field, int):
            place = field % len(value1)
            return (*value1[:place], combined, *value1[place + 1 :])
        if isinstance(value1, list | Row | dict):
            changed = copy(value1)
            changed[field] = combined
            return changed
        return combined


class Sum(Accumulator):
    """The sum of a field."""

    def combine(self, before: Any, value: Any) -> Any:
        """Return the sum of both."""
        return before + value


class Minimum(Accumulator):
    """The least value of a field."""

    def combine(self, before: Any, value: Any) -> Any:
        """Return the lesser of both."""
        return min(before, value)


class Maximum(Accumulator):
    """The greatest value of a field."""

    def combine(self, before: Any, value: Any) -> Any:
        """Return the greater of both."""
        return max(before, value)


class ExtremeBy(_OfField):
    """The record with the least, or the greatest, value of a field."""

    def __init__(self, field: Field, *, greatest: bool) -> None:
        super().__init__(field)
        self._greatest = greatest

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the one that has the extreme."""
        before, value = self._value(value1), self._value(value2)
        return value2 if (value > before if self._greatest else value < before) else value1


class Projection:
    """Tuples of some fields of tuples."""

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
        """Return the types of these fields. Raises ConfigurationError if there is none."""
        if max(self._fields) >= len(types):
            raise ConfigurationError(
                f"the tuples have {len(types)} fields: project takes 0 to {len(types) - 1}"
            )
        return [types[field] for field in self._fields]
