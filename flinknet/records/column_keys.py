"""Key groups of whole columns: those of ``key_groups``, for every row of an Arrow array at once.

Numbers are hashed with numpy, as the checksum of the bytes that msgpack makes of them, one step for
each byte of all rows. Whatever else can be a key is hashed in Python once for each value that
occurs, not for each row. Either way the result is that of ``key_group`` for the value in a row, so
rows and columns of one key meet in one place. Needs ``flinknet[arrow]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinknet.errors import SerializationError
from flinknet.records.key_groups import key_hash, mixed

__all__ = ["key_groups"]

Words = npt.NDArray[np.uint32]

_CRC_POLYNOMIAL = 0xEDB88320
_FLOAT64_MARKER = 0xCB

_UNSIGNED = (
    # values below; msgpack's marker; how many bytes follow it
    (1 << 8, 0xCC, 1),
    (1 << 16, 0xCD, 2),
    (1 << 32, 0xCE, 4),
    (1 << 64, 0xCF, 8),
)
_SIGNED = (
    # negative values from; the marker; how many bytes follow it
    (-(1 << 7), 0xD0, 1),
    (-(1 << 15), 0xD1, 2),
    (-(1 << 31), 0xD2, 4),
    (-(1 << 63), 0xD3, 8),
)
_NULL = "a record's key is null: every row of a keyed exchange needs a key"
_POSITIVE_FIXINT_MAX, _NEGATIVE_FIXINT_MIN = 127, -32


def key_groups(columns: Sequence[pa.Array], max_parallelism: int) -> npt.NDArray[np.intp]:
    """Return the key group of every row, whose key is the value in a column or, of several columns,
    the tuple of their values.

    Raises SerializationError if a key is null or cannot be hashed.
    """
    hashes = _hashes_of(columns[0]) if len(columns) == 1 else _hashes_of_tuples(columns)
    return (hashes % np.uint32(max_parallelism)).astype(np.intp)


def _hashes_of(column: pa.Array) -> Words:
    if not column.null_count:
        if pa.types.is_integer(column.type):
            return _mixed(_crc_of_integers(column.to_numpy(zero_copy_only=False)))
        if pa.types.is_floating(column.type):
            return _mixed(_crc_of_floats(column.to_numpy(zero_copy_only=False).astype(np.float64)))
    values, places = _distinct(column)
    return np.array([key_hash(value) for value in values], np.uint32)[places]


def _hashes_of_tuples(columns: Sequence[pa.Array]) -> Words:
    distinct = [_distinct(column) for column in columns]
    combined = np.zeros(len(columns[0]), np.intp)
    for values, places in distinct:
        _, combined = np.unique(combined * max(len(values), 1) + places, return_inverse=True)
    _, first, place = np.unique(combined, return_index=True, return_inverse=True)
    parts = [[values[index] for index in places[first]] for values, places in distinct]
    return np.array([key_hash(key) for key in zip(*parts, strict=True)], np.uint32)[place]


def _distinct(column: pa.Array) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """Return the values that occur, and for every row the place of its own among them."""
    if column.null_count:
        raise SerializationError(_NULL)
    given = pa.types.is_dictionary(column.type)
    try:
        encoded = column if given else pc.dictionary_encode(column)
    except pa.ArrowNotImplementedError as cause:
        raise SerializationError(
            f"a key column of type {column.type} cannot be hashed: use columns of numbers, strings "
            f"or bytes"
        ) from cause
    values = encoded.dictionary
    places = encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
    if given:  # by somebody who may have had more values than these rows
        occurs = np.zeros(len(values), bool)
        occurs[places] = True
        values = values.filter(pa.array(occurs))
        places = (np.cumsum(occurs) - 1)[places]
    if values.null_count:
        raise SerializationError(_NULL)
    return values.to_pylist(), places


# -- checksums of many values ----------------------------------------------------------------------


def _crc_of_integers(values: npt.NDArray[Any]) -> Words:
    """Return the checksums of integers as msgpack writes them: the shorter the smaller."""
    crc = np.zeros(len(values), np.uint32)
    left = np.ones(len(values), bool)
    bits = values.astype(np.uint64) if values.dtype.kind == "u" else values.astype(np.int64)
    small = (bits <= _POSITIVE_FIXINT_MAX) & (bits >= _NEGATIVE_FIXINT_MIN)
    _fill(crc, bits, left, small, None, 1)
    for limit, marker, size in _UNSIGNED:
        if not left.any():
            break
        within = bits >= 0 if limit > np.iinfo(bits.dtype).max else (bits >= 0) & (bits < limit)
        _fill(crc, bits, left, within, marker, size)
    for limit, marker, size in _SIGNED:
        if not left.any():
            break
        _fill(crc, bits, left, bits >= limit, marker, size)
    return crc


def _fill(
    crc: Words,
    bits: npt.NDArray[Any],
    left: npt.NDArray[np.bool_],
    chosen: npt.NDArray[np.bool_],
    marker: int | None,
    size: int,
) -> None:
    """Set the checksums of the chosen values that are left."""
    chosen = chosen & left
    if chosen.all():
        crc[:] = _crc_of(bits, marker, size)
    elif chosen.any():
        crc[chosen] = _crc_of(bits[chosen], marker, size)
    left &= ~chosen


def _crc_of_floats(values: npt.NDArray[np.float64]) -> Words:
    """Return the checksums of floats; a whole one is the integer that it equals."""
    whole = np.isfinite(values) & (values == np.floor(values))
    whole &= (values >= -(2.0**63)) & (values < 2.0**64)
    crc = np.zeros(len(values), np.uint32)
    negative = whole & (values < 0)
    positive = whole & ~negative
    crc[positive] = _crc_of_integers(values[positive].astype(np.uint64))
    crc[negative] = _crc_of_integers(values[negative].astype(np.int64))
    crc[~whole] = _crc_of(values[~whole].view(np.uint64), _FLOAT64_MARKER, 8)
    return crc


def _crc_of(values: npt.NDArray[Any], marker: int | None, size: int) -> Words:
    """Return the checksums of a marker and the last ``size`` bytes of each value, highest first."""
    octets = np.ascontiguousarray(values).view(np.uint8).reshape(-1, values.itemsize)
    start = 0xFFFFFFFF if marker is None else _step(0xFFFFFFFF, marker)
    crc = np.full(len(values), start, np.uint32)
    for place in reversed(range(size)):  # little-endian, as Arrow's arrays are
        index = octets[:, place] ^ crc.astype(np.uint8)
        crc >>= np.uint32(8)
        crc ^= _CRC_TABLE[index]
    return ~crc


def _step(crc: int, octet: int) -> int:
    return int(_CRC_TABLE[(crc ^ octet) & 0xFF]) ^ crc >> 8


def _crc_of_octet(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_CRC_POLYNOMIAL if value & 1 else 0)
    return value


_CRC_TABLE: Words = np.array([_crc_of_octet(octet) for octet in range(256)], np.uint32)


def _mixed(crc: Words) -> Words:
    result: Words = mixed(crc)
    return result
