"""Row keys: the bytes under which an entry of keyed state is stored.

::

    key group u16  number of the table u16  0 or 1  form of the key

Rows are ordered by these bytes, and thus by key group, like a checkpoint. The form is the form that
the key is hashed as (``records/key_normalization.py``). Keys that Python considers equal have one
form, but some unequal keys share it, such as 1 and an enumeration's member with that value. There
are therefore two kinds of rows. A row with 0 has a single entry, and its form equals the key in a
checkpoint: text, integers, tuples of these, and most others. A row with 1 has all other keys of the
form, such as True and 1.0, each with its value.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from zlib import crc32

import msgpack

from flinknet.records.key_groups import mixed
from flinknet.records.key_normalization import comparable_key, normalized_key
from flinknet.state.value_serializer import ValueSerializer

__all__ = ["RowKey", "RowKeys", "form_of", "parse_row_key"]

OWN, SHARED = b"\0", b"\1"
_FORM_AT = 5


class RowKey(NamedTuple):
    """Place of an entry."""

    own: bytes
    """The row for the entry alone."""
    shared: bytes
    """The row that the entry may share with others."""
    packed: bytes
    """The key as in a checkpoint."""
    is_own: bool
    """Whether the entry belongs into ``own``."""


class RowKeys:
    """The row keys of one table."""

    def __init__(self, number: int, serializer: ValueSerializer, max_parallelism: int) -> None:
        self._own = number.to_bytes(2, "big") + OWN
        self._shared = number.to_bytes(2, "big") + SHARED
        self._encode, self._form = serializer.encode, serializer.form
        self._options = serializer.options
        self._pack, self._unpack = serializer.pack, serializer.unpack
        self._pack_form = msgpack.Packer().pack
        self._max_parallelism = max_parallelism

    def plain(self, key: Any) -> bytes | None:
        """Return the row of a key of a type that is its own form; None for other keys.

        No other key has this row as its own row.
        """
        kind = type(key)
        if kind is not str and kind is not int:
            if kind is not tuple:
                return None
            for part in key:
                kind = type(part)
                if kind is not str and kind is not int:
                    return None
        try:
            form = self._encode(key, self._form, self._options)
        except TypeError:
            form = self._pack(key)  # an integer that is too large, which raises here
        return self._group(form) + self._own + form

    def of(self, key: Any) -> RowKey:
        """Return the place of the entry of any key.

        Raises SerializationError or one of KEY_ERRORS for a value that cannot be a key.
        """
        packed = self._pack(key)
        form: bytes = self._pack_form(normalized_key(key))
        group = self._group(form)
        return RowKey(group + self._own + form, group + self._shared + form, packed, packed == form)

    def key_of(self, packed: bytes) -> Any:
        """Return the key that was packed."""
        return comparable_key(self._unpack(packed))

    def _group(self, form: bytes) -> bytes:
        group: int = mixed(crc32(form)) % self._max_parallelism
        return group.to_bytes(2, "big")


def form_of(row: bytes) -> bytes:
    """Return the form of a row's keys."""
    return row[_FORM_AT:]


def parse_row_key(row: bytes) -> tuple[int, int, bool, bytes]:
    """Return the key group, the table number, whether the row is an own row, and the form."""
    return (
        int.from_bytes(row[:2], "big"),
        int.from_bytes(row[2:4], "big"),
        row[4:_FORM_AT] == OWN,
        form_of(row),
    )
