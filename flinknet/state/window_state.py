"""State of window functions: for a key in one window, or for a key in all windows.

Theory of operation. State of windows is stored in a table of its own, key -> {window: entry}, so it
is in the key group of its key. ``WindowTable`` presents the entries of the key in progress as a
table with the windows as keys. The state of a window is removed with the window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from flinknet.errors import ConfigurationError
from flinknet.state.descriptors import (
    StateDescriptor,
    StateKind,
)
from flinknet.state.keyed_access import KeyContext
from flinknet.state.keyed_state import KeyedState, state_over
from flinknet.state.keyed_state_store import KeyedStateStore
from flinknet.state.state_table import Entries, StateTable

__all__ = ["GlobalStateStore", "WindowStateStore", "require_plain"]

_PREFIX = "_window_state/"


def require_plain(descriptor: StateDescriptor) -> None:
    """Raise ConfigurationError for a descriptor with a time to live or a serializer.

    State of a window is removed with the window, and written as records are.
    """
    if descriptor.ttl_config is not None or descriptor.serializer is not None:
        raise ConfigurationError(
            f'"{descriptor.name}" is state of a window, which is removed with the window and '
            "serialised like records: it takes neither a time to live nor a serializer"
        )


class WindowPlace:
    """The current window, which is the key in the states of windows."""

    current_key: tuple[int, ...] = ()


class WindowTable:
    """One state for the windows of the key in progress, by window."""

    _entries: Entries

    def __init__(self, table: StateTable, context: KeyContext) -> None:
        self._context = context
        table.attach(self)

    def attach(self, holder: Any) -> None:
        """Let a state read and write here, as in a table."""
        holder._entries = self

    def __getitem__(self, window: Any) -> Any:
        return self._entries[self._context.current_key][window]

    def __setitem__(self, window: Any, kept: Any) -> None:
        windows = self._entries.get(self._context.current_key)
        if windows is None:
            windows = self._entries[self._context.current_key] = {}
        windows[window] = kept

    def __contains__(self, window: Any) -> bool:
        return window in self._entries.get(self._context.current_key, ())

    def get(self, window: Any) -> Any:
        """Return the entry of a window; None if it has none."""
        return self._entries.get(self._context.current_key, {}).get(window)

    def pop(self, window: Any, default: Any = None) -> Any:
        """Remove the entry of a window, if there is one, and return it or the default."""
        key = self._context.current_key
        windows = self._entries.get(key)
        if windows is None:
            return default
        kept = windows.pop(window, default)
        if not windows:
            self._entries.pop(key)
        return kept


class GlobalStateStore(KeyedStateStore):
    """The state of the current window's key, in all windows."""

    def __init__(self, state: KeyedState, context: KeyContext) -> None:
        self._state = state
        self._context = context
        self._made: dict[str, tuple[StateKind, Any]] = {}

    def _state_of(self, descriptor: StateDescriptor) -> Any:
        return self._once(descriptor, self._state.state)

    def _once(
        self, descriptor: StateDescriptor, make: Callable[[StateDescriptor, KeyContext], Any]
    ) -> Any:
        """Return a state, which is created once: functions request it in every call."""
        kind, state = self._made.get(descriptor.name, (None, None))
        if kind is not descriptor.kind:
            state = make(descriptor, self._context)
            self._made[descriptor.name] = descriptor.kind, state
        return state


class WindowStateStore(GlobalStateStore):
    """The state of the key in the current window alone.

    Raises ConfigurationError for windows that merge, and for state that expires or has a
    serializer.
    """

    def __init__(self, state: KeyedState, context: KeyContext, *, merges: bool) -> None:
        self._place = WindowPlace()
        super().__init__(state, self._place)
        self._keys = context
        self._merges = merges
        self._kinds: dict[str, StateKind] = {}
        self._tables: dict[str, WindowTable] = {}
        for name, entry in state.entries.items():
            if name.startswith(_PREFIX):
                self._tables[name] = WindowTable(entry.table, context)

    def enter(self, window: tuple[int, ...]) -> None:
        """Set the current window, of the key in progress."""
        self._place.current_key = tuple(window)

    def remove(self) -> None:
        """Remove all state of the current window."""
        for table in self._tables.values():
            table.pop(self._place.current_key)

    def _state_of(self, descriptor: StateDescriptor) -> Any:
        return self._once(
            descriptor, lambda one, place: state_over(self._table_of(one), place, one)
        )

    def _table_of(self, descriptor: StateDescriptor) -> StateTable:
        name, kind = descriptor.name, descriptor.kind
        if self._merges:
            raise ConfigurationError(
                f'"{name}" is state of a window, and session windows merge: keep it in '
                "global_state()"
            )
        require_plain(descriptor)
        if self._kinds.setdefault(name, kind) is not kind:
            raise ConfigurationError(
                f'"{name}" is state of a window of kind {self._kinds[name].value}, and cannot be '
                f"a {kind.value} state, too: choose another name"
            )
        own = _PREFIX + name
        if own not in self._tables:
            self._tables[own] = WindowTable(self._state.table(own, StateKind.MAP), self._keys)
        return cast(StateTable, self._tables[own])
