"""Copying what is kept in state, so that one copy can be changed while the other is written.

Whatever cannot change is its own copy. That is nearly everything that is kept per key, so it is
found out quickly.
"""

from __future__ import annotations

from copy import deepcopy
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

__all__ = ["are_unchanging", "copied"]

UNCHANGING = frozenset(
    (NoneType, bool, int, float, str, bytes, date, datetime, time, timedelta, Decimal, UUID)
)


def copied(value: Any) -> Any:
    """Return a copy that has nothing in common with a value but what cannot change.

    Raises whatever a class of the user's raises when it is copied.
    """
    kind = type(value)
    if kind in UNCHANGING:
        return value
    if kind is tuple:
        return value if _consists_of_unchanging(value) else deepcopy(value)
    if kind is list or kind is set:
        return value.copy() if _consists_of_unchanging(value) else deepcopy(value)
    if kind is dict and _consists_of_unchanging(value.values()):
        return value.copy()  # its keys have a hash, which would change with them
    return deepcopy(value)


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
