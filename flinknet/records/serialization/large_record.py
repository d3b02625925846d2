"""Large records: bytes and Arrow batches, which bypass the packer.

A large record consists of a *head* of a few bytes, and a *content* that already exists in memory.
The content is copied only into buffers and out of them.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from flinknet.records.serialization.elements import Serialised
from flinknet.records.serialization.extension_reader import read_arrow
from flinknet.records.serialization.extension_types import ARROW_BATCH
from flinknet.records.serialization.value_forms import arrow_pieces, is_arrow_batch

__all__ = [
    "LARGE_RECORD_BYTES",
    "LargeForm",
    "kept_form",
    "large_form",
    "large_parts",
    "large_value",
]

LARGE_RECORD_BYTES = 16_384
"""Minimum size of large bytes.

From this size on, copying a record costs more than checking its type.
"""

LargeForm = tuple[bytes, bytes | memoryview]
"""A record in two pieces; the first is empty if the second has all bytes."""

_BIN16_MARKER, _BIN32_MARKER, _EXT32_MARKER = 0xC5, 0xC6, 0xC9
_BIN16, _BIN32, _EXT32 = Struct(">BH"), Struct(">BI"), Struct(">BIb")
_HEADS = {_BIN16_MARKER: _BIN16, _BIN32_MARKER: _BIN32, _EXT32_MARKER: _EXT32}
_CODES: tuple[list[int], ...] = ([], [ARROW_BATCH])
"""The extension code after the length: none for bytes, or the code of Arrow batches.

Arrow batches are the only extension with a content other than msgpack.
"""
_UINT16_MAX, _UINT32_MAX = 2**16 - 1, 2**32 - 1


def large_form(record: Any) -> LargeForm | None:
    """Return the pieces of large bytes or of an Arrow record batch; None for any other record.

    Raises SerializationError for a batch that Arrow cannot write.
    """
    kind = type(record)
    if kind is bytes:
        content = record
    elif kind is bytearray or (kind is memoryview and record.c_contiguous):
        content = memoryview(record).cast("B")
    elif is_arrow_batch(record):
        head, content = arrow_pieces(record)
        size = len(head) + len(content)
        return (_EXT32.pack(_EXT32_MARKER, size, ARROW_BATCH) + head, content)
    else:
        return None
    size = len(content)
    if size < LARGE_RECORD_BYTES or size > _UINT32_MAX:
        return None
    form, marker = (_BIN16, _BIN16_MARKER) if size <= _UINT16_MAX else (_BIN32, _BIN32_MARKER)
    return form.pack(marker, size), content


def kept_form(record: Any) -> LargeForm | None:
    """Return the pieces of ``large_form`` in memory that does not change.

    The caller may keep them: a bytearray or a memoryview is copied.
    """
    return large_form(bytes(record) if type(record) in (bytearray, memoryview) else record)


def large_parts(data: Serialised, start: int, end: int) -> tuple[int, int] | None:
    """Return the sizes of the head and the content of a record that begins at ``start``.

    Return None if the record is not large, or if too few bytes are there to tell.
    """
    if end - start < _EXT32.size:
        return None
    form = _HEADS.get(data[start])
    if form is None:
        return None
    _, length, *code = form.unpack_from(data, start)
    if form.size + length < LARGE_RECORD_BYTES or code not in _CODES:
        return None
    return form.size, length


def large_value(head: Serialised, content: bytes) -> Any:
    """Return the record with this head and content. Raises ValueError."""
    return read_arrow(content) if head[0] == _EXT32_MARKER else content
