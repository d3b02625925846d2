"""The entries of one table as rows of its database: keys as objects, values packed.

The type of nearly every key tells that the key has a row of its own (``RowKeys.plain``). Reading,
writing or deleting its entry takes one row. As soon as a key with a shared row was written, every
key is looked up in both kinds of rows, because equal keys may be written in two forms. A key has
one entry, in the form that was written first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgpack

from flinknet.state.rocksdb.database import StateRows
from flinknet.state.rocksdb.row_keys import RowKeys, form_of, parse_row_key

__all__ = ["EntryRows", "Place", "entries_of"]

Place = tuple[bytes, bytes | None]
"""A row, and the packed key if the row may have several entries."""


class EntryRows:
    """The entries of one table.

    Raises StateError for errors of the database. Raises SerializationError or one of KEY_ERRORS for
    a value that cannot be a key.
    """

    def __init__(self, rows: StateRows, keys: RowKeys) -> None:
        self._rows = rows
        self._keys = keys
        self._has_shared = False
        """Whether a row that may have several entries was written."""

    def find(self, key: Any) -> tuple[Any, bytes | None]:
        """Return the stored key and its value; the given key and None if there is none."""
        row = self._keys.plain(key)
        if row is not None and not self._has_shared:
            return key, self._rows.get(row)
        place = self._keys.of(key)
        key = self._keys.key_of(place.packed) if row is None else key
        content = self._rows.get(place.own)
        if content is not None:
            stored = self._keys.key_of(form_of(place.own))
            if _is_same(stored, key):
                return stored, content
        for packed, content in _pairs(self._rows.get(place.shared)):
            stored = self._keys.key_of(packed)
            if _is_same(stored, key):
                return stored, content
        return key, None

    def put_all(self, entries: Iterable[tuple[Any, bytes]]) -> None:
        """Store entries, replacing those of equal keys."""
        rows: list[tuple[bytes, bytes]] = []
        for key, content in entries:
            row = self._keys.plain(key)
            if row is not None and not self._has_shared:
                rows.append((row, content))
            else:
                self._remove_equal(key)
                self._put(key, content)
        if rows:
            self._rows.put_all(rows)

    def remove(self, key: Any) -> None:
        """Remove the entry of a key, if there is one."""
        row = self._keys.plain(key)
        if row is not None and not self._has_shared:
            self._rows.delete(row)
        else:
            self._remove_equal(key)

    def place_of(self, key: Any) -> Place:
        """Return the place of the entry of a key in this form."""
        row = self._keys.plain(key)
        if row is not None:
            return row, None
        place = self._keys.of(key)
        return (place.own, None) if place.is_own else (place.shared, place.packed)

    def _remove_equal(self, key: Any) -> None:
        """Remove the entry of a key, in any form."""
        place = self._keys.of(key)
        has_own = self._rows.get(place.own) is not None
        if has_own and _is_same(self._keys.key_of(form_of(place.own)), key):
            self._rows.delete(place.own)
        pairs = _pairs(self._rows.get(place.shared))
        others = [pair for pair in pairs if not _is_same(self._keys.key_of(pair[0]), key)]
        if len(others) < len(pairs):
            self._put_pairs(place.shared, others)

    def _put(self, key: Any, content: bytes) -> None:
        """Store an entry for a key without one."""
        place = self._keys.of(key)
        if place.is_own:
            self._rows.put(place.own, content)
        else:
            others = _pairs(self._rows.get(place.shared))
            self._put_pairs(place.shared, [*others, (place.packed, content)])

    def _put_pairs(self, row: bytes, pairs: list[tuple[bytes, bytes]]) -> None:
        self._has_shared = True
        if pairs:
            self._rows.put(row, msgpack.packb([part for pair in pairs for part in pair]))
        else:
            self._rows.delete(row)


def entries_of(row: bytes, value: bytes) -> Iterator[tuple[int, int, Place, bytes, bytes]]:
    """Iterate over the entries of a row: key group, table number, place, packed key and value."""
    group, number, is_own, form = parse_row_key(row)
    if is_own:
        yield group, number, (row, None), form, value
        return
    for key, content in _pairs(value):
        yield group, number, (row, key), key, content


def _is_same(stored: Any, key: Any) -> bool:
    """Return whether two comparable keys are equal; NaN equals itself by identity."""
    return stored is key or bool(stored == key)


def _pairs(value: bytes | None) -> list[tuple[bytes, bytes]]:
    """Return the keys and values of a row that may have several entries."""
    if value is None:
        return []
    flat: Iterable[bytes] = msgpack.unpackb(value)
    parts = iter(flat)
    return list(zip(parts, parts, strict=True))
