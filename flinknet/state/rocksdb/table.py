"""State table with most of its entries in RocksDB.

Theory of operation. ``live`` holds the objects of the keys in use, and is used like the dict of any
table. A key that is not in ``live`` is loaded from the database into it. If ``live`` is full,
entries are evicted before the load: the oldest ones are packed and, if their bytes differ from the
bytes that were read, written to the database. A value in ``live`` may therefore be changed in
place. Every write looks up its key first, which bounds ``live``, and keeps the first of equal keys.
A restore writes without look-ups, and therefore calls ``trim``.

The time of a capture does not depend on the size of the state. The entries in memory are frozen,
and ``live`` is emptied; RocksDB makes a snapshot of its own for the rest. Until the capture is
closed, values that become live again are copied out of the frozen entries. ``_superseded`` holds
the frozen keys with outdated entries. ``merge`` then makes the frozen entries live again.

Invariants: an entry is live, or frozen and not superseded, or in the database, and the first of
these is valid. Frozen entries do not change while they are captured. ``_read`` has, for a live or
frozen key, the bytes that the database has for it, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from rocksdict import RdictIter

from flinknet.errors import SerializationError, StateError
from flinknet.records.key_normalization import KEY_ERRORS
from flinknet.state.rocksdb.database import Database, StateRows
from flinknet.state.rocksdb.entry_rows import EntryRows, Place, entries_of
from flinknet.state.rocksdb.row_keys import RowKeys
from flinknet.state.state_table import Entries, StateTable, TableCapture
from flinknet.state.value_serializer import ValueSerializer
from flinknet.texts import text_of

__all__ = ["RocksDBCapture", "RocksDBTable"]

EVICTED_AT_ONCE = 128
"""Entries evicted at a time: a fraction of a millisecond."""

MERGED_AT_ONCE = 256
"""Frozen entries that become live at a time; as many may have to be evicted."""

_ABSENT: Any = object()

Convert = Callable[[Any], Any]


class CachedEntries(dict[Any, Any]):
    """The live entries; other keys are loaded through the table."""

    __slots__ = ("_table",)

    def __init__(self, table: RocksDBTable) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, key: Any) -> Any:
        value = self._table.load(key)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def __contains__(self, key: Any) -> bool:
        return dict.__contains__(self, key) or self._table.load(key) is not _ABSENT

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value, or the default."""
        value = dict.get(self, key, _ABSENT)
        if value is _ABSENT:
            value = self._table.load(key)
        return default if value is _ABSENT else value

    def pop(self, key: Any, default: Any = None) -> Any:
        """Remove the value, if there is one, and return it or the default."""
        if key not in self:
            return default
        value = dict.pop(self, key)
        self._table.removed(key)
        return value


class RocksDBCapture(TableCapture):
    """Content of a table at one moment: frozen entries, which take precedence, and a snapshot."""

    def __init__(self, table: RocksDBTable, frozen: Entries, snapshot: RdictIter) -> None:
        super().__init__(table, (frozen,))
        self.number = table.number
        self.seen: set[Place] = set()
        """The places that the entries iterated in memory would have."""
        self._snapshot: RdictIter | None = snapshot
        self._origin = table
        self._deserialise = table.deserialise

    def detach(self, entries_max: int) -> bool:
        """Return False: a part of the captured entries is on disk, so none are detached."""
        return False

    def entries(self) -> Iterator[tuple[Any, Any]]:
        yield from self.entries_in_memory()
        for row, value in self.rows():
            for _, number, packed, content in self.entries_of(row, value):
                if number == self.number:
                    key = self._origin.keys.key_of(packed)
                    yield key, self._origin.decode(key, content, self._deserialise)

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the captured rows of all tables of the database."""
        assert self._snapshot is not None, "a capture is iterated only before it is closed"
        return self._origin.rows.iterate(self._snapshot)

    def entries_in_memory(self) -> Iterator[tuple[Any, Any]]:
        for layer in self._layers:
            for key, value in layer.items():
                yield key, value
                self.seen.add(self._origin.stored.place_of(key))

    def entries_of(self, row: bytes, value: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Iterate over key group, table, key and value of a row's entries not seen in memory."""
        for group, number, place, key, content in entries_of(row, value):
            if place not in self.seen:
                yield group, number, key, content

    def close(self) -> None:
        super().close()
        self._snapshot = None
        self.seen.clear()


class RocksDBTable(StateTable):
    """The table ``number`` of a database, for the state ``name``."""

    is_on_disk = True

    def __init__(
        self,
        database: Database,
        number: int,
        name: str,
        *,
        serializer: ValueSerializer,
        max_parallelism: int,
        cached_max: int,
    ) -> None:
        super().__init__()
        self.rows = StateRows(database, name)
        self.number = number
        self.keys = RowKeys(number, serializer, max_parallelism)
        self.stored = EntryRows(self.rows, self.keys)
        self._name = name
        self._serializer = serializer
        self._cached_max = cached_max
        self._serialise: Convert | None = None
        self.deserialise: Convert | None = None
        self._read: dict[Any, bytes] = {}
        self._frozen_entries: Entries = {}
        self._frozen_keys: Entries = {}
        """The frozen keys that may equal other keys: of equal keys the first one stays."""
        self._superseded: set[Any] = set()
        self._absent: Any = _ABSENT
        """A key that is known to be missing, until the next write."""
        self._set_live(CachedEntries(self))

    # -- what is live

    def load(self, key: Any) -> Any:
        """Load the entry of a key into ``live``, and return its value; _ABSENT if there is none."""
        if key is self._absent:
            return _ABSENT
        self.trim()
        if self._frozen_entries:
            value = self._frozen_entries.get(key, _ABSENT)
            if value is not _ABSENT and key not in self._superseded:
                key = self._frozen_keys.get(key, key)
                if self._captures:  # a captured entry must not change
                    self._superseded.add(key)
                    value = self.copy(value)
                else:
                    del self._frozen_entries[key]
                self.live[key] = value
                return value
        try:
            stored, content = self.stored.find(key)
        except (SerializationError, *KEY_ERRORS) as cause:
            raise self._bad("looked for", key, cause) from cause
        if content is None:
            self._absent = key
            return _ABSENT
        value = self.decode(stored, content, self.deserialise)
        self.live[stored] = value
        self._read[stored] = content
        return value

    def removed(self, key: Any) -> None:
        """Remove a key that was live from the frozen entries and the database."""
        self._read.pop(key, None)
        if not self._captures:
            self._frozen_entries.pop(key, None)
            self._superseded.discard(key)
        elif key in self._frozen_entries:
            self._superseded.add(key)
        self.stored.remove(key)

    def trim(self) -> None:
        """Evict entries while too many are live."""
        while len(self.live) > self._cached_max:
            self._write_back(EVICTED_AT_ONCE)

    def _write_back(self, count: int) -> None:
        """Write up to ``count`` live entries back, and evict them."""
        live = self.live
        entries = list(islice(dict.items(live), count))
        packed = [(key, self._encode(key, value)) for key, value in entries]
        # An entry that equals the bytes in the database is not written again.
        self.stored.put_all(
            (key, content) for key, content in packed if self._read.pop(key, None) != content
        )
        frozen = self._frozen_entries
        if frozen:  # the database now has newer entries than the frozen ones
            self._superseded.update(key for key, _ in entries if key in frozen)
        for key, _ in entries:
            dict.__delitem__(live, key)
        self._absent = _ABSENT

    # -- values

    def sweep(self, left_of: Convert, first: bytes, count: int) -> bytes:
        """Apply ``left_of`` to the entries in ``count`` rows, from ``first`` on.

        The result replaces the entry; None removes it. Entries in memory are not changed. Return
        the row to continue with; empty at the end.
        """
        rows = self.rows.iterate(self.rows.snapshot(), first)
        for row, value in islice(rows, count):
            for _, number, _, packed, content in entries_of(row, value):
                if number == self.number:
                    self._sweep_entry(left_of, packed, content)
            first = row + b"\0"  # the smallest key after this row
        return b"" if next(rows, None) is None else first

    def _sweep_entry(self, left_of: Convert, packed: bytes, content: bytes) -> None:
        kept = self._serializer.unpack(content)
        left = left_of(kept)
        if left is kept:
            return
        key = self.keys.key_of(packed)
        if dict.__contains__(self.live, key) or key in self._frozen_entries:
            return
        if left is None:
            self.stored.remove(key)
        else:
            self.stored.put_all([(key, self._serializer.pack(left))])

    def use_serializer(self, serialise: Convert, deserialise: Convert) -> None:
        self._forget_live()
        self._serialise, self.deserialise = serialise, deserialise

    def read_with(self, deserialise: Convert) -> None:
        """Do nothing: the rows are the serializer's bytes; ``use_serializer`` follows."""

    def convert(self, function: Convert) -> None:
        self._forget_live()
        pack, unpack = self._serializer.pack, self._serializer.unpack
        for row, value in self.rows.iterate(self.rows.snapshot()):
            for _, number, _, packed, content in entries_of(row, value):
                if number == self.number:
                    converted = pack(function(unpack(content)))
                    self.stored.put_all([(self.keys.key_of(packed), converted)])

    def _forget_live(self) -> None:
        """Write all entries in memory back, and evict them; captured entries stay."""
        while self.merge(EVICTED_AT_ONCE):
            pass
        for key, value in self._frozen_entries.items():
            if key not in self._superseded and not dict.__contains__(self.live, key):
                self.live[key] = value
        while dict.__len__(self.live):
            self._write_back(EVICTED_AT_ONCE)

    def decode(self, key: Any, content: bytes, deserialise: Convert | None) -> Any:
        """Return the value that was packed. Raises StateError."""
        try:
            kept = self._serializer.unpack(content)
            return kept if deserialise is None else deserialise(kept)
        except Exception as cause:
            raise self._bad("read", key, cause) from cause

    def _encode(self, key: Any, value: Any) -> bytes:
        try:
            kept = value if self._serialise is None else self._serialise(value)
            return self._serializer.pack(kept)
        except Exception as cause:
            raise self._bad("written", key, cause) from cause

    def _bad(self, what: str, key: Any, cause: Exception) -> StateError:
        database = self.rows.database
        return StateError(
            f'state "{self._name}" of {database.owner} cannot be {what} where it is kept, in the '
            f"RocksDB database in {database.directory}, at the key {key!r:.99}: "
            f"{text_of(cause)}; register the class, give the state's descriptor a serializer, or "
            f"keep state in memory (HashMapStateBackend)"
        )

    # -- captures

    def entries(self) -> Iterator[tuple[Any, Any]]:
        capture = RocksDBCapture(self, self._visible(), self.rows.snapshot())
        yield from capture.entries()

    def __len__(self) -> int:
        return sum(1 for _ in self.entries())

    def capture(self) -> RocksDBCapture:
        self._frozen_entries = self._visible()
        # A text equals only itself.
        self._frozen_keys = {key: key for key in self._frozen_entries if type(key) is not str}
        self._superseded = set()
        self._absent = _ABSENT
        dict.clear(self.live)
        self._captures += 1
        return RocksDBCapture(self, self._frozen_entries, self.rows.snapshot())

    def merge(self, entries_max: int) -> bool:
        frozen, superseded = self._frozen_entries, self._superseded
        if self._captures or not frozen:
            return False
        for _ in range(min(entries_max, MERGED_AT_ONCE, len(frozen))):
            key, value = frozen.popitem()
            if key in superseded:
                superseded.remove(key)
            elif not dict.__contains__(self.live, key):
                self.live[key] = value
        self.trim()
        return bool(frozen)

    def _visible(self) -> Entries:
        """Return the valid entries in memory."""
        superseded = self._superseded
        visible = {k: v for k, v in self._frozen_entries.items() if k not in superseded}
        visible.update(dict.items(self.live))
        return visible

    def _end_capture(self) -> None:
        self._captures -= 1

    def check_invariants(self) -> None:
        assert self._captures >= 0, "a capture was closed twice"
        assert self._superseded <= self._frozen_entries.keys(), (
            "a capture that is not frozen is superseded"
        )
        in_memory = self._frozen_entries.keys() | self.live.keys()
        assert self._read.keys() <= in_memory, "cached entries are kept for too long"
        for holder in self._holders:
            assert holder._entries is self.live, "a holder refers to entries that are not live"
