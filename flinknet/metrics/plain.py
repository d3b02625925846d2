"""Statistics as plain values, and back: arrays on the wire, objects in JSON.

Statistics are named tuples and frozen dataclasses, nested. msgpack writes a named tuple as the
array of its values, and a dataclass with ``row_of``; ``from_plain`` makes the same value of that
again, or of the object that ``to_plain`` makes for those who read names. Nothing but what the
annotations say is taken: whole numbers, numbers, text, truth values, tuples of one kind, named
tuples, dataclasses, and unions of these or with None.
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
    """The values of a dataclass, in order; TypeError for what is none."""
    return [getattr(value, field.name) for field in fields(value)]


def to_plain(value: Any) -> Any:
    """Plain JSON types, every named tuple and dataclass as an object."""
    kind: Any = type(value)
    names = _names(kind)
    if names:
        row = value if isinstance(value, tuple) else row_of(value)
        return dict(zip(names, map(to_plain, row), strict=True))
    return [to_plain(item) for item in value] if isinstance(value, tuple) else value


def from_plain(kind: type[T], value: Any) -> T:
    """The statistics in an array or object; ValueError if they are none of that kind."""
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
    """The types of the fields by name; nothing unless the kind is a named tuple or dataclass."""
    has_fields = isinstance(kind, type) and (hasattr(kind, "_fields") or is_dataclass(kind))
    return get_type_hints(kind) if has_fields else {}


def _summary(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + " ..."
