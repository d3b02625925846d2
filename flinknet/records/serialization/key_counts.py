"""Counts the keys of a record that could collide, before a dict or a set is built from them.

Python hashes text and bytes with a salt, but not numbers, tuples, times and others. A peer can
therefore choose such keys so that each is compared with all keys before it: 20,000 keys in a map of
280 KiB take seconds. A record may have at most ``record_keys_max`` of them in total. Keys of small
maps and sets do not count. Short records are not counted, because they have too few keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgpack

from flinknet.records.serialization.elements import Serialised
from flinknet.records.serialization.extension_types import (
    EXTENSIONS_NESTED_MAX,
    OWN_EXTENSIONS,
    SETS,
)

__all__ = ["COUNTED_FROM_BYTES", "FEW_KEYS", "check_keys"]

COUNTED_FROM_BYTES = 33_024
"""The keys of records up to this size are not counted.

Such a record fits a buffer of the default size, which has room for a few thousand keys.
"""

FEW_KEYS = 64
"""Number of keys of any type that a map or a set may have without counting."""

_SALTED = (str, bytes)
_LONG_HEADS = (b"\xde", b"\xdf", b"\xdc", b"\xdd")
"""Markers of maps of more than 15 entries, and of arrays, the wire form of sets."""


def check_keys(content: Serialised, keys_max: int, *, records: bool = False) -> None:
    """Raise ValueError if a record has more than ``keys_max`` keys other than text and bytes.

    With ``records``, the content is an array of records, and each is counted alone. Nothing else is
    checked: invalid bytes may pass or not.
    """
    size = len(content)
    if size <= COUNTED_FROM_BYTES or not _has_long_containers(content):
        return
    # Raw texts are bytes: both are salted, and decoding them would take time for nothing.
    unpacker = msgpack.Unpacker(
        use_list=False,
        raw=True,
        strict_map_key=False,
        timestamp=0,
        object_pairs_hook=(counter := _KeyCounter()).count_map,
        ext_hook=counter.count_extension,
        max_buffer_size=size,
    )
    try:
        unpacker.feed(content)
        number = unpacker.read_array_header() if records else 1
        begun = unpacker.tell()
        for _ in range(number):
            counter.keys = 0
            unpacker.unpack()
            begun, size = unpacker.tell(), unpacker.tell() - begun
            if counter.keys > keys_max and size > COUNTED_FROM_BYTES:
                break
        else:
            return
    except Exception:  # the unpacker reports invalid bytes
        return
    raise ValueError(
        f"its maps and sets have {counter.keys} keys in total that are neither text nor bytes, "
        f"more than {keys_max}"
    )


def _has_long_containers(content: Serialised) -> bool:
    # A marker that is found may also be part of a text or a number; the record is then counted in
    # vain. A memoryview cannot be searched.
    if isinstance(content, memoryview):
        return True
    return any(content.find(head) >= 0 for head in _LONG_HEADS)


class _KeyCounter:
    """Counter of keys while a record is unpacked.

    Maps and sets are dropped once they are counted, so no key is hashed.
    """

    def __init__(self) -> None:
        self.keys = 0
        self._level = 0

    def count_map(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Count the keys of a map."""
        if len(pairs) > FEW_KEYS:
            self._count(key for key, _ in pairs)

    def count_extension(self, code: int, content: bytes) -> None:
        """Count the elements of a set, and the keys in any extension."""
        if code not in OWN_EXTENSIONS or self._level >= EXTENSIONS_NESTED_MAX:
            return
        self._level += 1
        value = msgpack.unpackb(
            content,
            use_list=False,
            raw=True,
            strict_map_key=False,
            timestamp=0,
            object_pairs_hook=self.count_map,
            ext_hook=self.count_extension,
        )
        self._level -= 1
        if code in SETS and type(value) is tuple and len(value) > FEW_KEYS:
            self._count(value)

    def _count(self, keys: Iterable[Any]) -> None:
        number = sum(type(key) not in _SALTED for key in keys)
        if number > FEW_KEYS:
            self.keys += number
