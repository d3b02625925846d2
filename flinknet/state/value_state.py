"""Value state: one value per key."""

from __future__ import annotations

from flinknet.compatibility.subscripted import Subscripted, T
from flinknet.records.key_normalization import comparable_key
from flinknet.state.keyed_access import KeyedAccess

__all__ = ["ValueState"]


class ValueState(KeyedAccess, Subscripted[T]):
    """One value per key; every call refers to the key of the record in progress."""

    __slots__ = ()

    def value(self) -> T:
        """Return the value of the current key; None if it has none."""
        # ``_kept``, inlined to save a call per record.
        key = self._context.current_key
        try:
            return self._entries[key]  # type: ignore[no-any-return]
        except (KeyError, TypeError):
            return self._entries.get(comparable_key(key))  # type: ignore[return-value]

    def update(self, value: T) -> None:
        """Set the value of the current key."""
        self._entries[self._place()] = value
