"""Value state: one value per key."""

from __future__ import annotations

from typing import Any

from flinknet.records.key_normalization import comparable_key
from flinknet.state.keyed_access import KeyedAccess

__all__ = ["ValueState"]


class ValueState(KeyedAccess):
    """One value per key; every call refers to the key of the record in progress."""

    __slots__ = ()

    def value(self) -> Any:
        """Return the value of the current key; None if it has none."""
        # ``_kept``, inlined to save a call per record.
        key = self._context.current_key
        try:
            return self._entries[key]
        except (KeyError, TypeError):
            return self._entries.get(comparable_key(key))

    def update(self, value: Any) -> None:
        """Set the value of the current key."""
        self._entries[self._place()] = value
