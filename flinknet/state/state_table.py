"""State table: one state of one operator, which is written while it continues to change.

Theory of operation (Flink's CopyOnWriteStateTable, with whole dicts instead of versions of
entries). While nothing is captured, a table is one plain dict, ``live``, which operators use as a
dict. A capture freezes that dict in constant time. A new, empty dict, the ``Front``, is put in
front of the frozen one, and is live from then on:

- Writes go into the front, and deletions are noted in it.
- A key that is not in the front is looked up in the frozen layers below. A changeable value is
  first copied into the front, so a capture never sees a later change.

The frozen layers can thus be iterated for as long as necessary. When no capture is open any more,
the layers are merged, a number of entries at a time, until ``live`` is the plain dict again. A
capture during another one freezes the front, too; there are several layers then.

Looking through two dicts and merging them costs more than writing. A capture is therefore
*detached* before it is written, a number of entries at a time: it collects the key and value
objects, and releases the layers when it has them all. This is correct for unchangeable values; a
capture of others keeps its layers.

``live`` changes only in ``capture`` and ``merge``, so no component may hold it across a call of
either. A component that holds it must use ``attach``, which keeps it up to date.

Invariants: the layers of a capture do not change before it is closed; the newest layer that has or
deletes a key is valid for it; with one layer, the live one is a plain dict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Protocol

from flinknet.records.value_copy import copied
from flinknet.state.entry_writer import DetachedEntries

__all__ = ["Entries", "StateTable", "TableCapture"]

Entries = dict[Any, Any]
"""The live entries of a table, to be used by ``[]``, ``get``, ``in`` and ``pop`` only.

They must not be iterated, and have no length of their own; see ``StateTable.entries`` and
``StateTable.__len__``.
"""

_ABSENT: Any = object()


class HoldsEntries(Protocol):
    """A component that holds the live entries of a table."""

    _entries: Entries


class Front(dict[Any, Any]):
    """The writes since the layers below were frozen; ``below`` ends with the newest layer."""

    __slots__ = ("_below", "_copy", "copies", "deleted")

    def __init__(self, below: list[Entries], copy: Callable[[Any], Any]) -> None:
        super().__init__()
        self.deleted: set[Any] = set()
        """Keys deleted from the layers below; a key that was written again is in both."""
        self.copies = True
        """Whether the layers below must not be changed."""
        self._below = below
        self._copy = copy

    def __missing__(self, key: Any) -> Any:
        value = self._taken_from_below(key)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def __contains__(self, key: Any) -> bool:
        return dict.__contains__(self, key) or self._found_below(key) is not _ABSENT

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value, or the default."""
        value = dict.get(self, key, _ABSENT)
        if value is _ABSENT:
            value = self._taken_from_below(key)
        return default if value is _ABSENT else value

    def pop(self, key: Any, default: Any = None) -> Any:
        """Remove the value, if there is one, and return it or the default."""
        value = dict.pop(self, key, _ABSENT)
        below = self._found_below(key)
        if below is not _ABSENT:  # else there is nothing to hide
            self.deleted.add(key)
            if value is _ABSENT:
                return self._copy(below) if self.copies else below
        return default if value is _ABSENT else value

    def _taken_from_below(self, key: Any) -> Any:
        value = self._found_below(key)
        if not self.copies or value is _ABSENT:
            return value
        copy = self._copy(value)
        if copy is not value:  # an unchangeable value may stay below
            self[key] = copy
        return copy

    def _found_below(self, key: Any) -> Any:
        if key in self.deleted:
            return _ABSENT
        for layer in reversed(self._below):
            value = dict.get(layer, key, _ABSENT)
            if value is not _ABSENT or (isinstance(layer, Front) and key in layer.deleted):
                return value
        return _ABSENT


class TableCapture:
    """Content of a table at one moment; must be closed."""

    def __init__(self, table: StateTable, layers: tuple[Entries, ...]) -> None:
        self._table: StateTable | None = table
        self._layers = layers
        self._detached: DetachedEntries | None = None
        self._keeps_layers = len(layers) != 1

    @property
    def detached(self) -> DetachedEntries | None:
        """The detached entries, to be iterated or written once; None unless all were detached."""
        whole = self._detached is not None and self._detached.is_whole
        return self._detached if whole else None

    def detach(self, entries_max: int) -> bool:
        """Detach up to ``entries_max`` entries from the table; return whether more are left.

        When all are detached, the table may change. If a value is changeable, or the table has
        several layers, nothing is detached, and ``entries`` returns all entries as before. Nothing
        may have been iterated before.
        """
        if self._keeps_layers or self._table is None:
            return False
        taken = self._detached = self._detached or DetachedEntries(self._layers[0])
        if not taken.take(entries_max):
            self._keeps_layers, self._detached = True, None
            return False
        if taken.is_whole:
            self._let_go()
        return not taken.is_whole

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over keys and values, which must not be changed, until the capture is closed."""
        if self.detached is not None:
            return self.detached
        if len(self._layers) == 1:
            return iter(self._layers[0].items())
        return _items(self._layers)

    def entries_in_memory(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the captured entries in memory; a backend has the others."""
        return self.entries()

    def close(self) -> None:
        """Let the table change the captured entries; idempotent."""
        self._detached = None
        self._let_go()

    def _let_go(self) -> None:
        table, self._table, self._layers = self._table, None, ()
        if table is not None:
            table._end_capture()


class StateTable:
    """One state, key -> value; ``copy`` copies a changeable value."""

    def __init__(self, copy: Callable[[Any], Any] = copied) -> None:
        self.live: Entries = {}
        self.copy = copy
        self._frozen: list[Entries] = []
        self._captures = 0
        self._iterations = 0
        self._holders: list[HoldsEntries] = []

    def attach(self, holder: HoldsEntries) -> None:
        """Keep ``holder._entries`` equal to ``live``."""
        holder._entries = self.live
        self._holders.append(holder)

    def __len__(self) -> int:
        return sum(1 for _ in self.entries()) if self._frozen else len(self.live)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over keys and values; nothing may be written meanwhile.

        The iteration delays merging, so a capture in between does no harm.
        """
        self._iterations += 1
        try:
            yield from _items((*self._frozen, self.live))
        finally:
            self._iterations -= 1

    def trim(self) -> None:
        """Evict entries while too many are in memory.

        Call this after writing entries that were not looked up before.
        """

    is_on_disk = False
    """Whether most keys are on disk; ``sweep`` then visits those."""

    def sweep(self, left_of: Callable[[Any], Any], first: bytes, count: int) -> bytes:
        """Do nothing, as all entries are in memory; see ``RocksDBTable``."""
        return b""

    def convert(self, function: Callable[[Any], Any]) -> None:
        """Replace the entry of every key, without a change of captured entries."""
        live = self.live
        # A list, because the entries must not be written while they are iterated.
        for key in [key for key, _ in self.entries()]:
            live[key] = function(live[key])

    def read_with(self, deserialise: Callable[[Any], Any]) -> None:
        """Replace a serializer's bytes by the values, for every key."""
        self.convert(deserialise)

    def use_serializer(
        self, serialise: Callable[[Any], Any], deserialise: Callable[[Any], Any]
    ) -> None:
        """Use a serializer for values that leave memory, from now on."""

    def capture(self) -> TableCapture:
        """Capture the current content, in constant time."""
        if len(self.live) or (isinstance(self.live, Front) and self.live.deleted):
            self._frozen.append(self.live)
            self._set_live(Front(self._frozen, self.copy))
        elif isinstance(self.live, Front):
            # An unused front serves again; the layers below it are captured again.
            self.live.copies = True
        self._captures += 1
        return TableCapture(self, tuple(self._frozen))

    def merge(self, entries_max: int) -> bool:
        """Move up to ``entries_max`` entries back after a capture; return whether some are left.

        During a capture or an iteration nothing is moved, and the result is False.
        """
        frozen = self._frozen
        if self._captures or self._iterations or not frozen:
            return False
        # The lowest layer, a plain dict, takes over the layers above it one by one.
        base = frozen[0]
        upper = frozen[1] if len(frozen) > 1 else self.live
        assert isinstance(upper, Front), "every layer but the lowest was a front"
        _move(upper, base, entries_max)
        if upper or upper.deleted:
            return True
        if upper is not self.live:
            del frozen[1]
            return True
        frozen.clear()
        self._set_live(base)
        return False

    def _end_capture(self) -> None:
        self._captures -= 1
        if not self._captures and isinstance(self.live, Front):
            self.live.copies = False

    def _set_live(self, live: Entries) -> None:
        self.live = live
        for holder in self._holders:
            holder._entries = live

    def check_invariants(self) -> None:
        """Raise AssertionError if the layers are inconsistent."""
        assert self._captures >= 0, "a capture was closed twice"
        assert isinstance(self.live, Front) == bool(self._frozen), "a front stands before layers"
        assert not any(isinstance(layer, Front) for layer in self._frozen[:1]), (
            "the lowest layer is a front"
        )
        for lower, upper in pairwise((*self._frozen, self.live)):
            assert lower is not upper, "a layer is below itself"
        if isinstance(self.live, Front):
            assert self.live.copies or not self._captures, "a captured layer can be changed"
        for holder in self._holders:
            assert holder._entries is self.live, "a holder refers to entries that are not live"


def _move(upper: Front, base: Entries, entries_max: int) -> None:
    """Apply the deletions and the writes of a layer to the layer below."""
    # Deletions first: a key that was written again after its deletion is in both.
    while upper.deleted and entries_max:
        base.pop(upper.deleted.pop(), None)
        entries_max -= 1
    while upper and entries_max:
        key, value = upper.popitem()
        base[key] = value
        entries_max -= 1


def _items(layers: tuple[Entries, ...]) -> Iterator[tuple[Any, Any]]:
    """Iterate over the entries of layers, with only the newest entry of each key."""
    for number, layer in enumerate(layers):
        newer = [one for one in layers[number + 1 :] if isinstance(one, Front)]
        if not newer:
            yield from layer.items()
            continue
        for key, value in layer.items():
            if not any(dict.__contains__(one, key) or key in one.deleted for one in newer):
                yield key, value
