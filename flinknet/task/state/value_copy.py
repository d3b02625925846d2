"""Copying what is kept in state, so that one copy can be changed while the other is written.

Whatever cannot change is its own copy. That is nearly everything that is kept per key, so it is
found out quickly. Containers, and objects of plain classes, are copied here; all else by
``copy.deepcopy``, which asks more of each value. Both share a memo: what occurs twice in a value,
or in itself, does so in the copy.
"""

from __future__ import annotations

from copy import deepcopy
from copyreg import dispatch_table
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from operator import is_
from types import NoneType
from typing import Any
from uuid import UUID

__all__ = ["are_unchanging", "copied"]

UNCHANGING = frozenset(
    (NoneType, bool, int, float, str, bytes, date, datetime, time, timedelta, Decimal, UUID)
)

_OWN_WAYS = (
    "__deepcopy__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__setstate__",
    "__slots__",
)
"""By which a class says itself how its objects are copied, or what they consist of."""

_GETSTATE = "__getstate__"
"""Which not every interpreter's ``object`` has."""

_CLASSES_REMEMBERED = 1024
"""Classes of which it is known whether they are plain: more than a program has in its records."""


def copied(value: Any) -> Any:
    """Return a copy that has nothing in common with a value but what cannot change.

    Raises whatever a class of the user's raises when it is copied.
    """
    kind = type(value)
    if kind in UNCHANGING:
        return value
    if kind is tuple:
        return value if _consists_of_unchanging(value) else _copied(value, {})
    if kind is list or kind is set:
        return value.copy() if _consists_of_unchanging(value) else _copied(value, {})
    if kind is dict and _consists_of_unchanging(value.values()):
        return value.copy()  # its keys have a hash, which would change with them
    return _copied(value, {})


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """Copy a value that may change, with what was copied of the same whole before, by identity."""
    kind: Any = type(value)
    made = memo.get(id(value))
    if made is not None:
        return made
    if kind is list:
        made = memo[id(value)] = []
        made += [one if type(one) in UNCHANGING else _copied(one, memo) for one in value]
    elif kind is dict:
        made = memo[id(value)] = {}
        _copy_into(made, value, memo)
    elif kind is tuple:
        parts = tuple([one if type(one) in UNCHANGING else _copied(one, memo) for one in value])
        if all(map(is_, parts, value)):
            return value
        made = memo.setdefault(id(value), parts)  # it may stand in one of its parts
    elif _is_plain(kind):
        made = memo[id(value)] = object.__new__(kind)
        _copy_into(made.__dict__, vars(value), memo)
    else:
        made = deepcopy(value, memo)
    return made


def _copy_into(made: dict[Any, Any], values: dict[Any, Any], memo: dict[int, Any]) -> None:
    for name, one in values.items():
        made[name] = one if type(one) in UNCHANGING else _copied(one, memo)


@lru_cache(_CLASSES_REMEMBERED)
def _is_plain(kind: Any) -> bool:
    """Whether the objects of a class are their attributes, and nothing else."""
    return bool(
        kind.__new__ is object.__new__
        and kind.__reduce__ is object.__reduce__
        and kind.__reduce_ex__ is object.__reduce_ex__
        and getattr(kind, _GETSTATE, None) is getattr(object, _GETSTATE, None)
        and kind not in dispatch_table
        and any("__dict__" in vars(base) for base in kind.__mro__)
        and not any(vars(base).get(way) for base in kind.__mro__ for way in _OWN_WAYS)
    )


def are_unchanging(values: list[Any]) -> bool:
    """Whether none of the values could be changed in place, so that each is its own copy."""
    if _consists_of_unchanging(values):
        return True
    for value in values:
        kind = type(value)
        if kind not in UNCHANGING and (kind is not tuple or not _consists_of_unchanging(value)):
            return False
    return True


def _consists_of_unchanging(values: Any) -> bool:
    return UNCHANGING.issuperset(map(type, values))
