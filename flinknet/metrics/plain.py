"""Conversion of statistics to plain values and back: arrays on the wire, objects in JSON.

Statistics are nested named tuples and frozen dataclasses. msgpack writes a named tuple as an array
of its values, and a dataclass by means of ``row_of``. ``to_plain`` makes objects with field names.
``from_plain`` restores a value from either form. It accepts only the annotated types: integers,
floats, strings, booleans, tuples of one type, named tuples, dataclasses, and unions of these or
with None.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

__all__ = ["from_plain", "row_of", "to_plain"]

T = TypeVar("T")


def row_of(value: Any) -> list[Any]:
    """Return the values of a dataclass in order; TypeError for any other object."""
    return [getattr(value, field.name) for field in fields(value)]


def to_plain(value: Any) -> Any:
    """Return plain JSON types, with each named tuple and dataclass as an object."""
    kind: Any = type(value)
    names = _names(kind)
    if names:
        row = value if isinstance(value, tuple) else row_of(value)
        return dict(zip(names, map(to_plain, row), strict=True))
    return [to_plain(item) for item in value] if isinstance(value, tuple) else value


def from_plain(kind: type[T], value: Any) -> T:
    """Return the statistics in an array or object; ValueError if they are not of that type."""
    result: T = _read(kind, value)
    return result


def _read(kind: Any, value: Any) -> Any:
    names = _names(kind)
    if names:
        if isinstance(value, dict):
            value = [value[name] for name in names if name in value]
        if not isinstance(value, list | tuple) or len(value) != len(names):
            raise ValueError(f"no {kind.__name__}: {_summary(value)}")
        return kind(*map(_read, names.values(), value))
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"not an array: {_summary(value)}")
        return tuple(_read(get_args(kind)[0], item) for item in value)
    if get_origin(kind) is UnionType:
        return _read_one_of(get_args(kind), value)
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise ValueError(f"not of type {kind.__name__}: {_summary(value)}")
    return value


def _read_one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in kinds[:-1]:
        with suppress(ValueError):
            return _read(kind, value)
    return _read(kinds[-1], value)


@cache
def _names(kind: Any) -> dict[str, Any]:
    """Return the field types of a named tuple or dataclass by name; empty for other types."""
    has_fields = isinstance(kind, type) and (hasattr(kind, "_fields") or is_dataclass(kind))
    return get_type_hints(kind) if has_fields else {}


def _summary(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + " ..."
