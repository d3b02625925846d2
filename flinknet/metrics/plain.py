"""Statistics as plain values, and back: named tuples as arrays on the wire, as objects in JSON.

msgpack writes a named tuple as the array of its values, whatever is nested in it; ``from_plain``
makes the named tuple of that again, or of the object that ``to_plain`` makes for those who read
names. Nothing but what the annotations say is taken: whole numbers, numbers, text, truth values,
tuples of one kind, named tuples, and each of them or None.
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

__all__ = ["from_plain", "to_plain"]

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Plain JSON types, every named tuple as an object."""
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        items = [to_plain(item) for item in value]
        return items if names is None else dict(zip(names, items, strict=True))
    return value


def from_plain(kind: type[T], value: Any) -> T:
    """The named tuple in an array or object; ValueError if it is none of that kind."""
    result: T = _read(kind, value)
    return result


def _read(kind: Any, value: Any) -> Any:
    fields = _fields(kind)
    if fields is not None:
        if isinstance(value, dict):
            value = [value[name] for name in fields if name in value]
        if not isinstance(value, list | tuple) or len(value) != len(fields):
            raise ValueError(f"no {kind.__name__}: {_summary(value)}")
        return kind(*map(_read, fields.values(), value))
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"not an array: {_summary(value)}")
        return tuple(_read(get_args(kind)[0], item) for item in value)
    if get_origin(kind) is UnionType:
        (some,) = set(get_args(kind)) - {NoneType}
        return None if value is None else _read(some, value)
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise ValueError(f"not of type {kind.__name__}: {_summary(value)}")
    return value


@cache
def _fields(kind: Any) -> dict[str, Any] | None:
    """The types of a named tuple's fields, by name; None for any other kind."""
    is_named = isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
    return get_type_hints(kind) if is_named else None


def _summary(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + " ..."
