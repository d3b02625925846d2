"""Map state: a map per key."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from flinknet.compatibility.subscripted import A, B, Subscripted
from flinknet.state.keyed_access import KeyedAccess
from flinknet.state.map_keys import place_of

__all__ = ["MapState"]


class MapState(KeyedAccess, Subscripted[A, B]):
    """A map per key; every call refers to the key of the record in progress.

    Keys of the map are compared as keys of a stream are, so all NaN are one key. The map must not
    be changed while its entries are iterated.
    """

    __slots__ = ()

    def get(self, key: A) -> B:
        """Return the value of a key of the map; None if there is none."""
        kept = self._map()
        return kept.get(place_of(key, kept, kept.keys))  # type: ignore[return-value]

    def put(self, key: A, value: B) -> None:
        """Set the value of a key of the map."""
        kept = self._kept()
        if kept is None:
            self._keep({place_of(key, (), tuple): value})
        else:
            kept[place_of(key, kept, kept.keys)] = value

    def put_all(self, dict_value: Mapping[A, B]) -> None:
        """Set the values of several keys; none if reading them fails."""
        # A list, because ``dict_value`` may be a view of this map, which changes.
        for key, value in list(dict_value.items()):
            self.put(key, value)

    def remove(self, key: A) -> None:
        """Remove a key of the map, if it exists."""
        kept = self._kept()
        if kept is not None:
            kept.pop(place_of(key, kept, kept.keys), None)
            if not kept:
                self.clear()

    def contains(self, key: A) -> bool:
        """Return whether the map has a key."""
        kept = self._map()
        return place_of(key, kept, kept.keys) in kept

    def items(self) -> Iterable[tuple[A, B]]:
        """Return the keys and values of the map, in insertion order."""
        items: ItemsView[A, B] = self._map().items()
        return items

    def keys(self) -> Iterable[A]:
        """Return the map's keys."""
        keys: KeysView[A] = self._map().keys()
        return keys

    def values(self) -> Iterable[B]:
        """Return the map's values."""
        values: ValuesView[B] = self._map().values()
        return values

    def is_empty(self) -> bool:
        """Return whether the map has no key."""
        return not self._map()

    def __getitem__(self, key: A) -> B:
        return self.get(key)

    def __setitem__(self, key: A, value: B) -> None:
        self.put(key, value)

    def __delitem__(self, key: A) -> None:
        self.remove(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[A]:
        return iter(self.keys())

    def _map(self) -> dict[A, B]:
        """Return the readable values by key of the map; the result must not be changed."""
        return self._kept() or {}
