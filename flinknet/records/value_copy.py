"""Copies of values, and the check whether a value can change.

Theory of operation. State is copied so that one copy can change while the other is written. Records
are copied so that a function may change a record after it has handed the record over. A value that
cannot change is its own copy. Most values are unchangeable, so this check must be fast.

Containers and objects of plain classes are copied here. Other values are copied by
``copy.deepcopy``, which makes more checks per value. Both share a memo, so an object that occurs
twice in a value, or in itself, also does so in the copy.
"""

from __future__ import annotations

import sys
from copy import deepcopy
from copyreg import dispatch_table
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from functools import lru_cache
from itertools import chain
from operator import is_
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

__all__ = [
    "UNCHANGING",
    "Detachment",
    "Nature",
    "NatureOf",
    "are_unchanging",
    "copied",
    "copied_as",
    "is_unchanging",
    "nature_of",
    "never_changes",
]

UNCHANGING = frozenset(
    (NoneType, bool, int, float, str, bytes, date, datetime, time, timedelta, Decimal, UUID)
)

_ATOMS = frozenset((complex, range, FunctionType, BuiltinFunctionType))
"""Other types with values that ``copy.deepcopy`` does not copy."""

_PANDAS_TIMES = ("Timestamp", "Timedelta", "NaTType")

_OWN_WAYS = (
    "__deepcopy__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__setstate__",
    "__slots__",
)
"""Attributes by which a class defines how its objects are copied, or their contents."""

_CLASSES_REMEMBERED = 1024
"""Number of classes with a remembered nature: more than a program has in its records."""

Class = TypeVar("Class", bound=type)

_declared: set[type] = set()


class Nature(IntEnum):
    """How the objects of a class can change."""

    OPEN = 0
    """The objects can be changed."""
    FIXED = 1
    """Neither the objects nor anything in them can be changed."""
    PARTS = 2
    """The objects cannot be changed themselves, but objects in them may be."""


class NatureOf(NamedTuple):
    """Nature of a class."""

    nature: Nature
    attributes: tuple[str, ...] | None = None
    """The names of the parts, if they are attributes; otherwise an iteration yields the parts."""
    is_plain: bool = False
    """Whether an object consists only of its attributes."""


class Detachment(IntEnum):
    """Whether values are detached when they are handed over (``detached.py``)."""

    NONE = 0
    """Values are not detached: they are not changed after they were handed over."""
    IF_POSSIBLE = 1
    """Values are detached; a value that cannot be copied passes as it is.

    Emitted values in a list are serialised before the function runs again, so they need no copy.
    """
    ALWAYS = 2
    """Values are detached; a value that cannot be copied is an error."""


def never_changes(kind: Class) -> Class:
    """Declare that the objects of a class, with their contents, never change (a decorator)."""
    _declared.add(kind)
    return kind


@lru_cache(_CLASSES_REMEMBERED)
def nature_of(kind: Any) -> NatureOf:
    """Return how objects of exactly this class can change."""
    if (
        kind in UNCHANGING
        or kind in _ATOMS
        or kind in _declared
        or issubclass(kind, Enum | type)
        or _is_of_library(kind)
    ):
        return NatureOf(Nature.FIXED)
    # With a ``__dict__``, an object has attributes that can be changed.
    if issubclass(kind, tuple | frozenset) and not kind.__dictoffset__:
        return NatureOf(Nature.PARTS)
    # Only the class's own declaration: objects of a derived class may have more attributes.
    declared = vars(kind).get("__dataclass_params__")
    if declared is not None and declared.frozen:
        names = tuple(field.name for field in fields(kind))
        return NatureOf(Nature.PARTS, names, _is_plain(kind))
    struct = getattr(kind, "__struct_config__", None)
    if struct is not None and struct.frozen:
        return NatureOf(Nature.PARTS, kind.__struct_fields__)
    return NatureOf(Nature.OPEN, is_plain=_is_plain(kind))


def _is_of_library(kind: Any) -> bool:
    """Return whether a class is an Arrow batch, a number of numpy or a time of pandas."""
    package = kind.__module__.partition(".")[0]
    if package == "pyarrow":
        return bool(kind.__name__ in ("RecordBatch", "Table"))
    if package == "pandas":
        return kind.__name__ in _PANDAS_TIMES
    numpy = sys.modules.get("numpy")
    if numpy is None or package != "numpy":
        return False
    return issubclass(kind, numpy.generic) and not issubclass(kind, numpy.void)


def is_unchanging(value: Any) -> bool:
    """Return whether neither a value nor anything in it can be changed."""
    kind: Any = type(value)
    if kind in UNCHANGING:
        return True
    if kind is memoryview:
        return type(value.obj) is bytes
    nature, attributes, _ = nature_of(kind)
    if nature is not Nature.PARTS:
        return nature is Nature.FIXED
    if attributes is None:
        return all(map(is_unchanging, value))
    return all(is_unchanging(getattr(value, name, None)) for name in attributes)


def copied(value: Any) -> Any:
    """Return a copy that shares only unchangeable objects with a value.

    Raises any error that a user's class raises when it is copied.
    """
    kind = type(value)
    if kind in UNCHANGING:
        return value
    if kind is tuple:
        return value if _consists_of_unchanging(value) else _copied(value, {})
    if kind is list or kind is set:
        return value.copy() if _consists_of_unchanging(value) else _copied(value, {})
    if kind is dict and _consists_of_unchanging(value.values()):
        return value.copy()  # A key has a hash, so it does not change.
    return _copied(value, {})


def copied_as(detachment: int, value: Any) -> Any:
    """Return a copy of a value; if it cannot be copied, apply the detachment.

    Returns the value itself with IF_POSSIBLE, and raises TypeError otherwise.
    """
    try:
        return copied(value)
    except Exception as error:
        if detachment & Detachment.IF_POSSIBLE:
            return value
        raise TypeError(
            f"it emits a {type(value).__name__}, which is mutable and cannot be copied "
            f"({type(error).__name__}: {error}); get_config().enable_object_reuse() avoids copies"
        ) from error


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """Copy a value that may change; ``memo`` maps identities to earlier copies."""
    kind: Any = type(value)
    made = memo.get(id(value))
    if made is not None:
        return made
    if kind is list:
        # The memo has the copy before its elements are copied: the list may contain itself.
        made = memo[id(value)] = []
        made += [one if type(one) in UNCHANGING else _copied(one, memo) for one in value]
    elif kind is dict:
        made = memo[id(value)] = {}
        _copy_into(made, value, memo)
    elif kind is tuple:
        parts = tuple([one if type(one) in UNCHANGING else _copied(one, memo) for one in value])
        if all(map(is_, parts, value)):
            return value
        made = memo.setdefault(id(value), parts)  # the tuple may occur in one of its parts
    else:
        known = nature_of(kind)
        if known.nature and is_unchanging(value):
            return value
        if known.is_plain:
            made = memo[id(value)] = object.__new__(kind)
            _copy_into(made.__dict__, vars(value), memo)
        elif kind is bytearray:
            made = memo[id(value)] = bytearray(value)
        elif kind is memoryview:
            if is_unchanging(value):
                return value
            made = memo[id(value)] = _copied_view(value)
        else:
            made = deepcopy(value, memo)
    return made


def _copy_into(made: dict[Any, Any], values: dict[Any, Any], memo: dict[int, Any]) -> None:
    for name, one in values.items():
        made[name] = one if type(one) in UNCHANGING else _copied(one, memo)


def _copied_view(view: memoryview) -> Any:
    """Copy the memory of a view."""
    copy: Any = memoryview(view.tobytes())
    return copy if view.format == "B" and view.ndim == 1 else copy.cast(view.format, view.shape)


def _is_plain(kind: Any) -> bool:
    return bool(
        kind.__new__ is object.__new__
        and kind.__reduce__ is object.__reduce__
        and kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__getstate__ is object.__getstate__
        and kind not in dispatch_table
        and any("__dict__" in vars(base) for base in kind.__mro__)
        and not any(vars(base).get(way) for base in kind.__mro__ for way in _OWN_WAYS)
    )


def are_unchanging(values: list[Any]) -> bool:
    """Return whether none of the values can be changed in place, so that each is its own copy."""
    kinds = set(map(type, values))
    if tuple in kinds:
        kinds.remove(tuple)
        tuples = [value for value in values if type(value) is tuple] if kinds else values
        if not _consists_of_unchanging(chain.from_iterable(tuples)):
            return False
    return kinds <= UNCHANGING


def _consists_of_unchanging(values: Any) -> bool:
    return UNCHANGING.issuperset(map(type, values))
