"""Look-up of keys in maps, with all NaN as one key, as for keys of a stream.

Python finds a NaN, or a tuple with a NaN in it, only by identity, so every NaN would be another
key. Here a key is stored and looked up as its ``comparable_key``. This contains one NaN object per
process, but keys from a checkpoint or a database have other NaN objects. These are found by a
search through the map; only keys with a NaN in them have this cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any

from flinknet.records.key_normalization import comparable_key

__all__ = ["place_of"]

_PLAIN = frozenset((str, int, bytes, bool, NoneType))
"""Types with values that are their own ``comparable_key``."""


def place_of(key: Any, kept: Any, keys: Callable[[], Iterable[Any]]) -> Any:
    """Return the equal key of a map; the key to be stored if the map has none.

    Args:
        key: The key to look up; a key without a hash is looked up as a tuple or bytes.
        kept: The map, or another container of its keys.
        keys: Iterates over the keys of the map.
    """
    if type(key) in _PLAIN:
        return key
    place = comparable_key(key)
    if place not in kept and _has_nan(place):
        for other in keys():
            if (comparable_key(other),) == (place,):  # in tuples, identity suffices: NaN != NaN
                return other
    return place


def _has_nan(place: Any) -> bool:
    if isinstance(place, tuple):
        return any(map(_has_nan, place))
    return bool(place != place)
