"""Which key of a map a key is: as keys of a stream are compared, all NaN are one.

Python finds a NaN, or a tuple with one in it, only by identity, so each would be another key. Here
it is looked for, and kept, as its ``comparable_key``. That is one object in a process, but what was
read from a checkpoint or a database has others: those are found by a search through the map, which
only keys with a NaN in them ever cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any

from flinknet.records.key_forms import comparable_key

__all__ = ["place_of"]

_PLAIN = frozenset((str, int, bytes, bool, NoneType))
"""Types whose values are what they are compared as."""


def place_of(key: Any, kept: Any, keys: Callable[[], Iterable[Any]]) -> Any:
    """Return the key of a map that this key is, or that it is to be if it is not there.

    Args:
        key: what is looked for; what has no hash is looked for as a tuple or bytes.
        kept: the map, in which ``in`` is asked.
        keys: iterates over the keys of the map.
    """
    if type(key) in _PLAIN:
        return key
    place = comparable_key(key)
    if place not in kept and _has_nan(place):
        for other in keys():
            if (comparable_key(other),) == (place,):  # parts of tuples may be identical instead
                return other
    return place


def _has_nan(place: Any) -> bool:
    if isinstance(place, tuple):
        return any(map(_has_nan, place))
    return bool(place != place)
