"""Access to the entry of the current key in a state table."""

from __future__ import annotations

from typing import Any, Protocol

from flinknet.records.key_normalization import comparable_key
from flinknet.state.state_table import Entries, StateTable

__all__ = ["KeyContext", "KeyedAccess"]


class KeyContext(Protocol):
    """Source of the key of the record in progress (Flink's KeyContext)."""

    current_key: Any


class KeyedAccess:
    """Access to the entry of the current key; the base of every keyed state.

    Keys are compared as Python compares them. A key that is not found, or that cannot be looked up,
    is looked up again as its ``comparable_key``.
    """

    __slots__ = ("_context", "_entries")

    _entries: Entries

    def __init__(self, table: StateTable, context: KeyContext) -> None:
        table.attach(self)
        self._context = context

    def clear(self) -> None:
        """Remove the entry of the current key."""
        self._entries.pop(self._place(), None)

    def _kept(self) -> Any:
        """Return the entry of the current key; None if there is none."""
        key = self._context.current_key
        try:
            return self._entries[key]
        except (KeyError, TypeError):
            return self._entries.get(comparable_key(key))

    def _keep(self, kept: Any) -> None:
        self._entries[self._place()] = kept

    def _place(self) -> Any:
        """Return the current key as it is, or will be, in the table."""
        key = self._context.current_key
        try:
            return key if key in self._entries else comparable_key(key)
        except TypeError:
            return comparable_key(key)
