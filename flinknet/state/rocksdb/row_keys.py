"""Under which bytes an entry of keyed state is stored.

::

    key group u16  number of the table u16  0 or 1  form of the key

Rows are in the order of these bytes, so by key group, as a checkpoint is. The form is that which
the key is hashed as (``records/key_forms.py``): keys that Python says are equal have one form, but
some that are not have the same, such as 1 and an enumeration's member with that value. So there are
two kinds of rows. In one with 0 the form is the key as a checkpoint has it: text, whole numbers,
tuples of these, and most others. In one with 1 are all other keys with that form, such as True and
1.0, each with its value behind it.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from zlib import crc32

import msgpack

from flinknet.records.key_forms import comparable_key, key_form
from flinknet.records.key_groups import mixed
from flinknet.state.value_serializer import ValueSerializer

__all__ = ["RowKey", "RowKeys", "form_of", "parse_row_key"]

OWN, SHARED = b"\0", b"\1"
_FORM_AT = 5


class RowKey(NamedTuple):
    """Where an entry is stored."""

    own: bytes
    """The row that has the entry alone, if there is one."""
    shared: bytes
    """The row in which it is with others, if it is in one."""
    packed: bytes
    """The key as a checkpoint has it."""
    is_own: bool
    """Whether it belongs into a row of its own."""


class RowKeys:
    """The keys of one table's rows."""

    def __init__(self, number: int, serializer: ValueSerializer, max_parallelism: int) -> None:
        self._own = number.to_bytes(2, "big") + OWN
        self._shared = number.to_bytes(2, "big") + SHARED
        self._encode, self._form = serializer.encode, serializer.form
        self._options = serializer.options
        self._pack, self._unpack = serializer.pack, serializer.unpack
        self._pack_form = msgpack.Packer().pack
        self._max_parallelism = max_parallelism

    def plain(self, key: Any) -> bytes | None:
        """Return the row of a key that is its own form by its type; None for others. No other key
        with a row of its own has this one."""
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
            form = self._pack(key)  # a number that is too large, which says so
        return self._group(form) + self._own + form

    def of(self, key: Any) -> RowKey:
        """Return where any key's entry is stored. Raises SerializationError, or KEY_ERRORS, for
        what is no key."""
        packed = self._pack(key)
        form: bytes = self._pack_form(key_form(key))
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
    """Return the key group, the number of the table, whether it is an entry's own, and the form."""
    return (
        int.from_bytes(row[:2], "big"),
        int.from_bytes(row[2:4], "big"),
        row[4:_FORM_AT] == OWN,
        form_of(row),
    )
