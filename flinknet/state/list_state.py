"""List state: a list per key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flinknet.compatibility.subscripted import Subscripted, T
from flinknet.state.keyed_access import KeyedAccess

__all__ = ["ListState"]


class ListState(KeyedAccess, Subscripted[T]):
    """A list per key; every call refers to the key of the record in progress."""

    __slots__ = ()

    def get(self) -> Iterable[T]:
        """Return the elements in order; nothing if the key has no list.

        The result must not be changed.
        """
        return self._kept() or ()

    def add(self, value: T) -> None:
        """Append an element."""
        self.add_all((value,))

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements; none if reading them fails."""
        # ``values`` may read the list itself, so the list is looked up afterwards.
        elements = list(values)
        kept = self._kept()
        if kept is not None:
            kept.extend(elements)
        elif elements:
            self._keep(elements)

    def update(self, values: Iterable[T]) -> None:
        """Replace the list; no change if reading ``values`` fails. An empty list is removed."""
        elements = list(values)
        if elements:
            self._keep(elements)
        else:
            self.clear()

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())
