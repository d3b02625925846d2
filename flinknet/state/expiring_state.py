"""State that expires if it is not used for a while; see ``time_to_live.py``.

Theory of operation. Each of the user's values, including each element of a list and each value of a
map, is stored in a pair after the millisecond of its last use. Every read drops expired values.
``ExpiryCleanup`` finds values that are never read again. It holds each key of the table once in a
queue. Each access to the state checks a few keys: removed keys leave the queue, the others move to
its end. The keys of a table on disk are not held in memory. Its entries are checked on disk, in
steps of some hundred, at the same rate per access.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from flinknet.state.descriptors import StateKind
from flinknet.state.keyed_access import KeyContext, KeyedAccess
from flinknet.state.list_state import ListState
from flinknet.state.map_keys import place_of
from flinknet.state.map_state import MapState
from flinknet.state.state_table import Entries, StateTable
from flinknet.state.time_to_live import StateTtlConfig
from flinknet.state.value_state import ValueState

__all__ = ["Expiry", "ExpiryCleanup", "expiring_state", "unexpired"]


SWEPT_AT_ONCE = 256
"""Entries on disk that are checked in one step; starting a step costs as much as ten entries."""


def unexpired(kind: StateKind, config: StateTtlConfig, kept: Any, now_ms: int) -> Any:
    """Return the unexpired part of a key's entry.

    The result is ``kept`` itself if nothing has expired, and None if everything has.
    """
    expired = config.has_expired
    if kind is StateKind.LIST:
        elements = [pair for pair in kept if not expired(pair[0], now_ms)]
        return kept if len(elements) == len(kept) else elements or None
    if kind is StateKind.MAP:
        values = {key: pair for key, pair in kept.items() if not expired(pair[0], now_ms)}
        return kept if len(values) == len(kept) else values or None
    return None if expired(kept[0], now_ms) else kept


class ExpiryCleanup:
    """Cleanup of the expired values of a table, a few keys at a time."""

    __slots__ = ("_config", "_due", "_entries", "_kind", "_queue", "_row", "_table")

    _entries: Entries

    def __init__(self, table: StateTable, kind: StateKind, config: StateTtlConfig) -> None:
        table.attach(self)
        self._kind = kind
        self._config = config
        self._queue: OrderedDict[Any, None] = OrderedDict()
        self._table = table
        self._due = 0
        self._row = b""
        if not table.is_on_disk:
            for key, _ in table.entries():
                self.add(key)

    def add(self, key: Any) -> None:
        """Add a key that was not in the table."""
        if self._config.cleanup_entries and not self._table.is_on_disk:
            self._queue[key] = None

    def run(self, now_ms: int) -> None:
        """Check a few keys."""
        if self._table.is_on_disk:
            self._sweep(now_ms)
            return
        queue, entries = self._queue, self._entries
        for _ in range(min(self._config.cleanup_entries, len(queue))):
            key, _ = queue.popitem(last=False)
            kept = entries.get(key)
            if kept is None:  # the function has removed it
                continue
            left = unexpired(self._kind, self._config, kept, now_ms)
            if left is None:
                entries.pop(key)
                continue
            if left is not kept:
                entries[key] = left
            queue[key] = None

    def _sweep(self, now_ms: int) -> None:
        self._due += self._config.cleanup_entries
        if self._due >= SWEPT_AT_ONCE:
            self._due = 0
            self._row = self._table.sweep(
                lambda kept: unexpired(self._kind, self._config, kept, now_ms),
                self._row,
                SWEPT_AT_ONCE,
            )


class Expiry(KeyedAccess):
    """Common base of the kinds of expiring state."""

    __slots__ = ("_cleanup", "_config", "_kind", "_now_ms")

    def __init__(
        self,
        table: StateTable,
        context: KeyContext,
        kind: StateKind,
        config: StateTtlConfig,
        now_ms: Callable[[], int],
    ) -> None:
        super().__init__(table, context)
        self._kind = kind
        self._config = config
        self._now_ms = now_ms
        self._cleanup = ExpiryCleanup(table, kind, config)

    def _seen(self) -> Any:
        """Return the visible part of the current key's entry; None if there is none.

        Expired values are dropped.
        """
        now_ms = self._now_ms()
        kept = self._kept()
        if kept is not None:
            left = unexpired(self._kind, self._config, kept, now_ms)
            if left is not kept:
                if left is None:
                    self.clear()
                else:
                    self._keep(left)
            if not self._config.shows_expired:
                kept = left
            if left is not None and self._config.is_renewed_by_reading:
                self._keep(self._kind.mapped(lambda pair: (now_ms, pair[1]), left))
        self._cleanup.run(now_ms)
        return kept

    def _write(self, kept: Any) -> None:
        """Store an entry for the current key."""
        place = self._place()
        if place not in self._entries:
            self._cleanup.add(place)
        self._entries[place] = kept
        self._cleanup.run(self._now_ms())


class ExpiringValueState(Expiry, ValueState):
    """A value that expires."""

    __slots__ = ()

    def value(self) -> Any:
        """Return the value of the current key; None if it has none or it has expired."""
        seen = self._seen()
        return None if seen is None else seen[1]

    def update(self, value: Any) -> None:
        """Set the value of the current key, and renew its time."""
        self._write((self._now_ms(), value))


class ExpiringListState(Expiry, ListState):
    """A list with elements that expire one by one."""

    __slots__ = ()

    def get(self) -> Iterable[Any]:
        """Return the elements that have not expired."""
        return [element for _, element in self._seen() or ()]

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements; none if reading them fails."""
        added = self._timed(values)
        kept = self._kept()
        if kept is not None:
            kept.extend(added)
            self._cleanup.run(self._now_ms())
        elif added:
            self._write(added)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list, and renew its time; no change if reading ``values`` fails."""
        elements = self._timed(values)
        if elements:
            self._write(elements)
        else:
            self.clear()

    def _timed(self, values: Iterable[Any]) -> list[Any]:
        """Return elements with the current time.

        ``values`` may read the list itself, so the list is neither looked up nor changed before.
        """
        elements = list(values)
        now_ms = self._now_ms()
        return [(now_ms, value) for value in elements]


class ExpiringMapState(Expiry, MapState):
    """A map with values that expire one by one."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        """Return the value of a key of the map; None if there is none or it has expired."""
        pair = self._pair(key)
        return None if pair is None else pair[1]

    def contains(self, key: Any) -> bool:
        """Return whether the map has a key that has not expired."""
        return self._pair(key) is not None

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key of the map, and renew its time."""
        pair = (self._now_ms(), value)
        kept = self._kept()
        if kept is None:
            self._write({place_of(key, (), tuple): pair})
        else:
            kept[place_of(key, kept, kept.keys)] = pair
            self._cleanup.run(pair[0])

    def _map(self) -> dict[Any, Any]:
        return {key: value for key, (_, value) in (self._seen() or {}).items()}

    def _pair(self, key: Any) -> Any:
        """Return the stored pair of a key of the map; None if it is not visible."""
        # Only this pair is checked: reading one key must not cost a pass over the map.
        now_ms, kept, config = self._now_ms(), self._kept() or {}, self._config
        key = place_of(key, kept, kept.keys)
        pair = kept.get(key)
        if pair is not None:
            if config.has_expired(pair[0], now_ms):
                self.remove(key)
                pair = pair if config.shows_expired else None
            elif config.is_renewed_by_reading:
                kept[key] = (now_ms, pair[1])
        self._cleanup.run(now_ms)
        return pair


def expiring_state(
    table: StateTable,
    context: KeyContext,
    kind: StateKind,
    config: StateTtlConfig,
    now_ms: Callable[[], int],
) -> Any:
    """Return the expiring ValueState, ListState or MapState over a table with times."""
    made: type[Expiry] = _KINDS.get(kind, ExpiringValueState)
    return made(table, context, kind, config, now_ms)


_KINDS: dict[StateKind, type[Expiry]] = {
    StateKind.LIST: ExpiringListState,
    StateKind.MAP: ExpiringMapState,
}
