"""Access to what a state table has of the key in progress."""

from __future__ import annotations

from typing import Any, Protocol

from flinknet.compatibility.subscripted import Subscripted
from flinknet.records.key_forms import comparable_key
from flinknet.state.state_table import Entries, StateTable

__all__ = ["KeyContext", "KeyedAccess"]


class KeyContext(Protocol):
    """Who knows the key of the record in progress (Flink's KeyContext)."""

    current_key: Any


class KeyedAccess(Subscripted):
    """The entry of the current key; the base of every state that a function gets.

    Keys are compared as Python compares them; what Python cannot compare is looked for as its
    ``comparable_key`` when it is not found as it is.
    """

    __slots__ = ("_context", "_entries")

    _entries: Entries

    def __init__(self, table: StateTable, context: KeyContext) -> None:
        table.attach(self)
        self._context = context

    def clear(self) -> None:
        """Forget the current key."""
        self._entries.pop(self._place(), None)

    def _kept(self) -> Any:
        """Return what is kept of the current key, None if nothing is."""
        key = self._context.current_key
        try:
            return self._entries[key]
        except (KeyError, TypeError):
            return self._entries.get(comparable_key(key))

    def _keep(self, kept: Any) -> None:
        self._entries[self._place()] = kept

    def _place(self) -> Any:
        """Return what the current key is in the table, or is to be."""
        key = self._context.current_key
        try:
            return key if key in self._entries else comparable_key(key)
        except TypeError:
            return comparable_key(key)
