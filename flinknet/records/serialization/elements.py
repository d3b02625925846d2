"""Counts the elements of a serialised record before it is unpacked.

An empty map takes one byte on the wire, and sixty times as much memory. The elements of a record,
which are the items of its arrays and the entries of its maps, are therefore limited in total
(``record_elements_max``). The content of an extension counts like any value, except for an Arrow
batch, which has limits of its own.

A record of n elements has at least n bytes, so only records with more bytes than the limit are
counted, and counting stops at the limit. A text is skipped in one step, so a 64 MiB record that is
mostly text or bytes is counted in a few steps.
"""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from typing import Any

from flinknet.records.serialization.extension_types import OWN_EXTENSIONS

__all__ = ["INCOMPLETE", "Serialised", "UnpackRecords", "check_elements"]

Serialised = bytes | bytearray | memoryview | mmap
"""The bytes of a record, in any kind of memory."""

UnpackRecords = Callable[[memoryview, int, int, int], tuple[Any, ...]]
"""Returns the records in a memory; the arguments are their start, their end and their number."""

INCOMPLETE = "Unpack failed: incomplete input"
"""msgpack's message for missing bytes; it has no error class for them."""

_ARRAY, _MAP = 1, 2
_LENGTH_BYTES = {
    **dict.fromkeys((0xC4, 0xC7, 0xD9), 1),  # bin8, ext8, str8
    **dict.fromkeys((0xC5, 0xC8, 0xDA), 2),
    **dict.fromkeys((0xC6, 0xC9, 0xDB), 4),
}
_FIXED_EXTENSION_BYTES = {0xD4 + power: 2**power for power in range(5)}
_LENGTH_BYTES.update(dict.fromkeys(_FIXED_EXTENSION_BYTES, 0))
_EXTENSIONS = frozenset((0xC7, 0xC8, 0xC9, *_FIXED_EXTENSION_BYTES))
_CONTAINERS = {0xDC: (_ARRAY, 2), 0xDD: (_ARRAY, 4), 0xDE: (_MAP, 2), 0xDF: (_MAP, 4)}
_FIXED_BYTES = {
    **dict.fromkeys((0xCC, 0xD0), 2),
    **dict.fromkeys((0xCD, 0xD1), 3),
    **dict.fromkeys((0xCA, 0xCE, 0xD2), 5),
    **dict.fromkeys((0xCB, 0xCF, 0xD3), 9),
    **{0xA0 + size: 1 + size for size in range(32)},  # fixstr
}


def _value_bytes(head: int) -> int:
    """Return the size of a value by its first byte; 0 if the size depends on more bytes."""
    if head in _LENGTH_BYTES or head in _CONTAINERS or (0x80 < head < 0xA0 and head != 0x90):
        return 0
    return int(_FIXED_BYTES.get(head, 1))


_VALUE_BYTES = bytes(map(_value_bytes, range(256)))


def check_elements(record: Serialised, elements_max: int) -> None:
    """Raise ValueError if a record has more than ``elements_max`` elements.

    Nothing else is checked: invalid bytes may pass or not.
    """
    size = len(record)
    elements = position = 0
    values = 1
    while values and position < size:
        head = record[position]
        values -= 1
        value_bytes = _VALUE_BYTES[head]
        if value_bytes:
            position += value_bytes
            continue
        position += 1
        length_bytes = _LENGTH_BYTES.get(head)
        if length_bytes is not None:
            length = int.from_bytes(record[position : position + length_bytes], "big")
            position += length_bytes
            if head in _EXTENSIONS:
                length = _FIXED_EXTENSION_BYTES.get(head, length)
                position += 1
                if position <= size and record[position - 1] in OWN_EXTENSIONS:
                    values += 1  # its content
                    continue
            position += length
            continue
        kind, length_bytes = _CONTAINERS.get(head, (_MAP if head < 0x90 else _ARRAY, 0))
        length = int.from_bytes(record[position : position + length_bytes], "big")
        position += length_bytes
        length = length if length_bytes else head & 0x0F
        values += length * kind
        elements += length
        if elements > elements_max:
            raise ValueError(f"its arrays and maps have more than {elements_max} elements in total")
