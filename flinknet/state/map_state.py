"""A map per key."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from flinknet.state.keyed_access import KeyedAccess
from flinknet.state.map_keys import place_of

__all__ = ["MapState"]


class MapState(KeyedAccess):
    """A map per key; every call is about the key of the record in progress.

    The keys of the map are compared as the keys of a stream are, so that all NaN are one.
    While its entries are iterated the map may not be changed.
    """

    __slots__ = ()

    def get(self, key: Any) -> Any:
        """Return the value of a key of the map, None if there is none."""
        kept = self._map()
        return kept.get(place_of(key, kept, kept.keys))

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key of the map."""
        kept = self._kept()
        if kept is None:
            self._keep({place_of(key, (), tuple): value})
        else:
            kept[place_of(key, kept, kept.keys)] = value

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set the values of several, if all of them can be had."""
        for key, value in list(dict_value.items()):  # it may be made of this map, which changes
            self.put(key, value)

    def remove(self, key: Any) -> None:
        """Remove a key of the map, if it is there."""
        kept = self._kept()
        if kept is not None:
            kept.pop(place_of(key, kept, kept.keys), None)
            if not kept:
                self.clear()

    def contains(self, key: Any) -> bool:
        """Whether a key of the map is there."""
        kept = self._map()
        return place_of(key, kept, kept.keys) in kept

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return the map's keys with their values, in the order in which they came."""
        items: ItemsView[Any, Any] = self._map().items()
        return items

    def keys(self) -> Iterable[Any]:
        """Return the map's keys."""
        keys: KeysView[Any] = self._map().keys()
        return keys

    def values(self) -> Iterable[Any]:
        """Return the map's values."""
        values: ValuesView[Any] = self._map().values()
        return values

    def is_empty(self) -> bool:
        """Whether the map has no key."""
        return not self._map()

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def _map(self) -> dict[Any, Any]:
        """Return the values that may be read, by key of the map; not to be changed."""
        return self._kept() or {}
