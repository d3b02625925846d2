"""Checks of Arrow metadata where Arrow trusts its peer. This module needs no library.

Metadata are flatbuffers (Schema.fbs and Message.fbs): tables that point to tables, vectors and
texts. Many pointers may share one target, and Arrow creates a new object for each of them. A schema
of some MiB could therefore fill the memory. An honest writer points to each part once, so all parts
together are no longer than the metadata. The same holds for the places of columns in a body.

A batch also declares its number of rows, and the number of entries of each column and of each
nested array. Most entries take a bit or more. Entries of a column of nulls take nothing, rows of a
batch without columns take nothing, and runs have any declared length. A few bytes could therefore
declare more rows than fit any memory. The length of a batch therefore limits the number of all its
entries to 64 per byte. A column of booleans has eight entries per byte, and the rows of the batch
count as one more column. The limit thus leaves room for six columns without bytes beside it, or for
six structures around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, unpack_from
from struct import error as OutOfBounds

__all__ = ["check_batch", "check_schema"]

_I64, _I32, _U32 = Struct("<q"), Struct("<i"), Struct("<I")
_U16, _U8 = Struct("<H"), Struct("<B")

# Offsets of the fields in a table; the first field is at 4.
_HEADER = 8
_ENDIANNESS, _SCHEMA_FIELDS, _SCHEMA_METADATA = 4, 6, 8
_FIELD_NAME, _FIELD_TYPE_IS, _FIELD_TYPE, _FIELD_CHILDREN, _FIELD_METADATA = 4, 8, 10, 14, 16
_KEY, _VALUE = 4, 6
_DICTIONARY_DATA = 6
_BATCH_ROWS, _BATCH_COLUMNS, _BATCH_BUFFERS, _BATCH_COMPRESSION = 4, 6, 8, 10

_TYPES_WITH_TEXT, _TYPE_TEXT = (10, 14), 6
"""The text in the type: a timestamp has a time zone, a union a list of numbers."""

_ENTRIES_PER_BYTE_MAX = 64
_ENTRIES_FREE = 65_536
"""Entries that every batch may have, however short it is."""

_FIELD_BYTES = 32
"""Lower bound of the size of a field, with its name and its type."""


def check_schema(metadata: bytes) -> None:
    """Raise ValueError for schema metadata that are not safe to read.

    Such metadata contain the same part several times, names that are not text, or numbers that are
    not little-endian: columns are read without asking for the byte order. Nothing else is checked.
    A pointer out of the metadata may be refused or not.
    """
    left = len(metadata)
    try:
        for part_bytes in _parts_of_schema(metadata):
            left -= part_bytes
            if left < 0:
                raise ValueError("the schema has the same part more than once")
    except OutOfBounds as cause:
        raise ValueError("the schema refers to bytes outside of itself") from cause


def _parts_of_schema(data: bytes) -> Iterator[int]:
    """Visit the parts of a schema; yield the size of each part before visiting it."""
    schema = _target(data, _root(data), _HEADER)
    endianness = _place(data, schema, _ENDIANNESS)
    if endianness and _U16.unpack_from(data, endianness)[0]:
        raise ValueError("its numbers are not little-endian")
    yield from _key_values(data, schema, _SCHEMA_METADATA)
    parents = [(schema, _SCHEMA_FIELDS)]
    while parents:
        fields = _target(data, *parents.pop())
        yield _count(data, fields) * _FIELD_BYTES
        for field in _entries(data, fields):
            name = _target(data, field, _FIELD_NAME)
            yield _count(data, name)
            # Raises UnicodeDecodeError, a ValueError, for a name that is not text.
            bytes(data[name + _U32.size :][: _count(data, name)]).decode()
            yield from _key_values(data, field, _FIELD_METADATA)
            type_is = _place(data, field, _FIELD_TYPE_IS)
            if type_is and _U8.unpack_from(data, type_is)[0] in _TYPES_WITH_TEXT:
                yield _count(data, _target(data, _target(data, field, _FIELD_TYPE), _TYPE_TEXT))
            parents.append((field, _FIELD_CHILDREN))


def _key_values(data: bytes, table: int, slot: int) -> Iterator[int]:
    pairs = _target(data, table, slot)
    yield _count(data, pairs) * _U32.size
    for pair in _entries(data, pairs):
        yield _count(data, _target(data, pair, _KEY)) + _count(data, _target(data, pair, _VALUE))


def check_batch(
    metadata: bytes, body_bytes: int, content_bytes: int, *, is_dictionary: bool
) -> None:
    """Raise ValueError for a batch that takes more memory or time than its size suggests.

    Such a batch or dictionary is compressed, has several columns in the same place, or has too many
    entries for ``content_bytes``, the length of all content that it came with. Arrow must have
    verified that the metadata are a flatbuffer.
    """
    try:
        batch = _target(metadata, _root(metadata), _HEADER)
        if is_dictionary:
            batch = _target(metadata, batch, _DICTIONARY_DATA)
        if _target(metadata, batch, _BATCH_COMPRESSION):
            raise ValueError("it is compressed; send it uncompressed")
        lengths = _pairs(metadata, batch, _BATCH_BUFFERS)[1::2]
        rows = _place(metadata, batch, _BATCH_ROWS)
        entries = _I64.unpack_from(metadata, rows) if rows else (0,)
        entries += _pairs(metadata, batch, _BATCH_COLUMNS)[::2]
    except OutOfBounds as cause:
        raise ValueError("the batch refers to bytes outside of itself") from cause
    if min(entries + lengths) < 0:
        raise ValueError("it has negative lengths")
    if sum(lengths) > body_bytes:
        raise ValueError("it has the same bytes more than once")
    limit = max(_ENTRIES_FREE, _ENTRIES_PER_BYTE_MAX * content_bytes)
    if sum(entries) > limit:
        raise ValueError(
            f"its {entries[0]} rows have {sum(entries)} entries in columns and inside them, in "
            f"{content_bytes} bytes; the limit for those is {limit}: send fewer rows at a time, or "
            f"leave out columns of nulls and of long runs"
        )


# -- flatbuffers -----------------------------------------------------------------------------------


def _root(data: bytes) -> int:
    return int(_U32.unpack_from(data)[0])


def _place(data: bytes, table: int, slot: int) -> int:
    """Return the position of a field's value in a table.

    Return 0 if the table is missing (0) or has no such value.
    """
    if not table:
        return 0
    slots = table - _I32.unpack_from(data, table)[0]
    if slot >= _U16.unpack_from(data, slots)[0]:
        return 0
    offset = int(_U16.unpack_from(data, slots + slot)[0])
    return table + offset if offset else 0


def _target(data: bytes, table: int, slot: int) -> int:
    """Return the position that a field of a table points to; 0 if there is none."""
    place = _place(data, table, slot)
    return place + int(_U32.unpack_from(data, place)[0]) if place else 0


def _count(data: bytes, vector: int) -> int:
    """Return the number of entries of a vector, or of bytes of a text."""
    return int(_U32.unpack_from(data, vector)[0]) if vector else 0


def _pairs(data: bytes, table: int, slot: int) -> tuple[int, ...]:
    """Return the numbers of a vector of pairs as one flat tuple."""
    pairs = _target(data, table, slot)
    return unpack_from(f"<{2 * _count(data, pairs)}q", data, pairs + _U32.size)


def _entries(data: bytes, vector: int) -> Iterator[int]:
    """Iterate over the tables that a vector points to."""
    for place in range(vector + 4, vector + 4 + 4 * _count(data, vector), 4):
        yield place + _U32.unpack_from(data, place)[0]
