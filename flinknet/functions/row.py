"""Rows: values with optional names, PyFlink's Row.

A row is a record like any other; its class is registered in every job (``builtin_types.py``). It is
mutable, and a copy is independent of the original. A row is hashable by its values, for programs
that put rows into sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """The meaning of a row in a changelog."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


_OWN = frozenset(("_fields", "_kind", "_values"))


# A dataclass, so that it can be registered as a class of records.
@dataclass(init=False, repr=False, eq=False)
class Row:
    """An ordered sequence of values, with or without names.

    ``Row(name="Alice", age=11)`` has named values: ``row.name``, ``row["name"]`` and ``row[0]`` are
    the same value. ``Row("Alice", 11)`` has none. ``Row("name", "age")`` also acts as a class of
    rows: calling it with values returns a row in which they have these names.
    """

    _values: Sequence[Any]
    _fields: Sequence[str] | None
    _kind: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("a Row takes values or named values, not both")
        self._values = list(kwargs.values()) if kwargs else list(args)
        self._fields = tuple(kwargs) if kwargs else None
        self._kind = RowKind.INSERT.value

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Return a row of the given kind."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the values by name; TypeError if they have no names.

        ``recursive`` also converts rows in the values.
        """
        if self._fields is None:
            raise TypeError("a Row without names cannot become a dict: name its values")
        values = map(_plain, self._values) if recursive else self._values
        return dict(zip(self._fields, values, strict=True))

    def get_row_kind(self) -> RowKind:
        """Return the kind of the row."""
        return RowKind(self._kind)

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind of the row."""
        self._kind = row_kind.value

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Set the names of the values."""
        if len(field_names) != len(self._values):
            raise ValueError(f"{len(field_names)} names for {len(self._values)} values")
        self._fields = tuple(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values with these names, in the order of the names."""
        return [self[name] for name in names]

    def field_names(self) -> list[str] | None:
        """Return the names; None if the row has none."""
        return None if self._fields is None else list(self._fields)

    def _index(self, name: Any) -> int:
        if self._fields is None or name not in self._fields:
            has = "no names" if self._fields is None else ", ".join(self._fields)
            raise KeyError(f"a Row has no value {name!r}: it has {has}")
        return self._fields.index(name)

    def __copy__(self) -> Row:
        row = Row(*self._values)
        row._fields, row._kind = self._fields, self._kind
        return row

    def __call__(self, *args: Any) -> Row:
        if len(args) > len(self):
            raise ValueError(f"{len(args)} values for the {len(self)} fields of {self!r}")
        row = Row(*args)
        row._fields, row._kind = tuple(self._values)[: len(args)], self._kind
        return row

    def __getitem__(self, item: Any) -> Any:
        return self._values[item if isinstance(item, int | slice) else self._index(item)]

    def __setitem__(self, key: Any, value: Any) -> None:
        place = key if isinstance(key, int | slice) else self._index(key)
        if not isinstance(self._values, list):
            self._values = list(self._values)
        self._values[place] = value

    def __getattr__(self, item: str) -> Any:
        # A row that is being copied or unpickled has no ``_fields`` yet; looking for a name in them
        # would end up here again.
        if item.startswith("_"):
            raise AttributeError(item)
        try:
            return self._values[self._index(item)]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __setattr__(self, key: str, value: Any) -> None:
        if key not in _OWN:
            raise AttributeError(f"{key} cannot be set: row[{key!r}] = ... sets a value")
        object.__setattr__(self, key, value)

    def __contains__(self, item: Any) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or self._kind != other._kind:
            return False
        if self._fields is None or other._fields is None:
            return self._fields is other._fields and tuple(self) == tuple(other)
        return self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        if self._fields is None:
            return hash(tuple(self._values))
        # Without an order: rows with the same named values in another order are equal.
        return hash(frozenset(zip(self._fields, self._values, strict=True)))

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        named = zip(self._fields, self._values, strict=True)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in named)})"


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value
