"""Channels of whole columns: the channel of every row of Arrow arrays at once.

Numbers, dates and times are hashed with numpy: the checksum of the msgpack bytes of their
normalised forms, one step per byte for all rows. Other keys are looked up in Python, once per
distinct value; or once per row, if Arrow cannot determine the distinct values. Either way the
result equals ``key_group`` of the value in the row, and of None for a null. Rows and records with
the same key therefore reach the same channel. Times count to the microsecond, the precision of
Python's types. Needs ``flinknet[arrow]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinknet.records.key_groups import key_hash, mixed
from flinknet.records.key_normalization import (
    DATE,
    DATETIME,
    DURATION,
    TIME,
    TIMESTAMP,
    normalized_instant,
)

__all__ = ["row_channels"]

Words = npt.NDArray[np.uint32]
Channels = npt.NDArray[np.unsignedinteger[Any]]

_CRC_POLYNOMIAL = 0xEDB88320
_FLOAT64_MARKER = 0xCB

_UNSIGNED = (
    # upper limit of the values; msgpack's marker; number of bytes that follow it
    (1 << 8, 0xCC, 1),
    (1 << 16, 0xCD, 2),
    (1 << 32, 0xCE, 4),
    (1 << 64, 0xCF, 8),
)
_SIGNED = (
    # lower limit of the negative values; the marker; number of bytes that follow it
    (-(1 << 7), 0xD0, 1),
    (-(1 << 15), 0xD1, 2),
    (-(1 << 31), 0xD2, 4),
    (-(1 << 63), 0xD3, 8),
)
_FIXEXT8_MARKER = 0xD7
_DAY_MILLISECONDS = 86_400_000
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_UNSORTED_PER_ROW = 8
"""Possible numbers per row, up to which a pass over all of them costs no more than sorting."""
_POSITIVE_FIXINT_MAX, _NEGATIVE_FIXINT_MIN = 127, -32


def row_channels(
    columns: Sequence[pa.Array],
    channel_of_group: Channels,
    channel_of: Callable[[Any], int],
) -> Channels:
    """Return the channel of every row.

    The key of a row is its value in the column, or the tuple of its values in several columns.

    Args:
        columns: Columns of equal length.
        channel_of_group: The channel of each key group.
        channel_of: Returns the channel of a key; agrees with ``channel_of_group``.

    Raises SerializationError, from ``channel_of``, if a key cannot be hashed.
    """
    if len(columns) > 1:
        keys, places = _distinct_tuples(columns)
    else:
        hashes = _hashes_of_numbers(columns[0])
        if hashes is not None:
            if columns[0].null_count:
                hashes[_nulls(columns[0])] = key_hash(None)
            channels: Channels = channel_of_group[hashes % np.uint32(len(channel_of_group))]
            return channels
        keys, places = _distinct(columns[0])
    return np.fromiter(map(channel_of, keys), channel_of_group.dtype, len(keys))[places]


def _hashes_of_numbers(column: pa.Array) -> Words | None:
    """Return the hashes of a column of numbers, dates or times; None for another column.

    The hash of a null is arbitrary.
    """
    if pa.types.is_integer(column.type):
        return _mixed(_crc_of_integers(_integers(column)))
    if pa.types.is_floating(column.type):
        return _mixed(_crc_of_floats(column.to_numpy(zero_copy_only=False).astype(np.float64)))
    instants = _instants(column)
    if instants is None:
        return None
    kind, values = instants
    return _mixed(_crc_of(values, (_FIXEXT8_MARKER, kind), 8))


def _distinct_tuples(
    columns: Sequence[pa.Array],
) -> tuple[list[tuple[Any, ...]], npt.NDArray[np.intp]]:
    """Return the distinct tuples, and for every row the index of its tuple."""
    distinct = [_distinct(column) for column in columns]
    tuples, place = np.zeros(1, np.intp), np.zeros(len(columns[0]), np.intp)
    for values, places in distinct:
        # Numbering the tuples again after each column keeps the products small.
        count = max(len(values), 1)
        tuples, place = _numbered(place * count + places, len(tuples) * count)
    row = np.empty(len(tuples), np.intp)  # any row that has the tuple
    row[place] = np.arange(len(place))
    parts = [[values[index] for index in places[row].tolist()] for values, places in distinct]
    return list(zip(*parts, strict=True)), place


def _numbered(
    numbers: npt.NDArray[np.intp], bound: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the distinct numbers, and for every row the index of its number.

    Each number is below ``bound``.
    """
    if bound > len(numbers) * _UNSORTED_PER_ROW:
        return np.unique(numbers, return_inverse=True)
    occurs = np.zeros(bound, bool)
    occurs[numbers] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[numbers]


def _distinct(column: pa.Array) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """Return the distinct values or their normalised forms, and for every row their index."""
    instants = _instants(column)
    if instants is not None:
        kind, numbers = instants
        occurring, places = np.unique(numbers, return_inverse=True)
        return _with_null([normalized_instant(kind, int(one)) for one in occurring], places, column)
    if isinstance(column, pa.ExtensionArray):
        storage, extension = column.storage, column.type
    else:
        storage, extension = column, None
    try:
        encoded = storage if _is_dictionary(storage) else pc.dictionary_encode(_encodable(storage))
    except pa.ArrowNotImplementedError:
        return column.to_pylist(), np.arange(len(column))
    indices = encoded.indices
    places = (indices.fill_null(0) if indices.null_count else indices).to_numpy(
        zero_copy_only=False
    )
    values, places = _occurring(encoded.dictionary, places.astype(np.intp), _nulls(indices))
    if extension is not None:
        values = pa.ExtensionArray.from_storage(extension, values)
    return _with_null(_values(values), places, indices)


def _occurring(
    values: pa.Array, places: npt.NDArray[np.intp], nulls: npt.NDArray[np.bool_]
) -> tuple[pa.Array, npt.NDArray[np.intp]]:
    """Drop the values of a dictionary that no row refers to.

    The dictionary may stem from a larger column with more values.
    """
    occurs = np.zeros(len(values), bool)
    occurs[places[~nulls]] = True
    if occurs.all() or not occurs.any():
        return values, places
    return values.filter(pa.array(occurs)), (np.cumsum(occurs) - 1)[places]


def _values(values: pa.Array) -> list[Any]:
    """Return distinct values as Python objects, or their normalised forms."""
    instants = _instants(values)
    if instants is None:
        python_values: list[Any] = values.to_pylist()
        return python_values
    kind, numbers = instants
    nulls = _nulls(values)
    return [
        None if null else normalized_instant(kind, int(number))
        for number, null in zip(numbers, nulls, strict=True)
    ]


def _with_null(
    values: list[Any], places: npt.NDArray[np.intp], column: pa.Array
) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """Add None to the values for the rows that are null."""
    if not column.null_count:
        return values, places
    return [*values, None], np.where(_nulls(column), len(values), places)


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    nulls: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _is_dictionary(column: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(column.type))


def _encodable(column: pa.Array) -> pa.Array:
    """Return a column as a type that every version of Arrow can encode."""
    name = str(column.type)
    if name == "string_view":
        return column.cast(pa.large_string())
    if name == "binary_view":
        return column.cast(pa.large_binary())
    return column


# -- dates and times -------------------------------------------------------------------------------


def _instants(column: pa.Array) -> tuple[int, npt.NDArray[np.int64]] | None:
    """Return a column of dates or times as the numbers of their forms, and the kind of the forms.

    The number of a null is arbitrary. Return None for another column.
    """
    kind = column.type
    if pa.types.is_date32(kind):
        return DATE, _integers(column.view(pa.int32())).astype(np.int64)
    if pa.types.is_date64(kind):
        return DATE, _integers(column.view(pa.int64())) // _DAY_MILLISECONDS
    if pa.types.is_timestamp(kind):
        return TIMESTAMP if kind.tz else DATETIME, _microseconds(column)
    if pa.types.is_time(kind):
        return TIME, _microseconds(column)
    if pa.types.is_duration(kind):
        return DURATION, _microseconds(column)
    return None


def _microseconds(column: pa.Array) -> npt.NDArray[np.int64]:
    storage = pa.int32() if column.type.bit_width == 32 else pa.int64()
    values = _integers(column.view(storage)).astype(np.int64)
    if column.type.unit == "ns":
        return values // 1_000
    return values * _MICROSECONDS[column.type.unit]


def _integers(column: pa.Array) -> npt.NDArray[Any]:
    """Return integers as a numpy array, with 0 for a null."""
    values: npt.NDArray[Any] = (column.fill_null(0) if column.null_count else column).to_numpy(
        zero_copy_only=False
    )
    return values


# -- checksums of many values ----------------------------------------------------------------------


def _crc_of_integers(values: npt.NDArray[Any]) -> Words:
    """Return the checksums of integers in msgpack's shortest encoding."""
    crc = np.zeros(len(values), np.uint32)
    left = np.ones(len(values), bool)
    bits = values.astype(np.uint64) if values.dtype.kind == "u" else values.astype(np.int64)
    small = (bits <= _POSITIVE_FIXINT_MAX) & (bits >= _NEGATIVE_FIXINT_MIN)
    _fill(crc, bits, left, small, (), 1)
    for limit, marker, size in _UNSIGNED:
        if not left.any():
            break
        within = bits >= 0 if limit > np.iinfo(bits.dtype).max else (bits >= 0) & (bits < limit)
        _fill(crc, bits, left, within, (marker,), size)
    for limit, marker, size in _SIGNED:
        if not left.any():
            break
        _fill(crc, bits, left, bits >= limit, (marker,), size)
    return crc


def _fill(
    crc: Words,
    bits: npt.NDArray[Any],
    left: npt.NDArray[np.bool_],
    chosen: npt.NDArray[np.bool_],
    head: Iterable[int],
    size: int,
) -> None:
    """Set the checksums of those chosen values that are left."""
    chosen = chosen & left
    if chosen.all():
        crc[:] = _crc_of(bits, head, size)
    elif chosen.any():
        crc[chosen] = _crc_of(bits[chosen], head, size)
    left &= ~chosen


def _crc_of_floats(values: npt.NDArray[np.float64]) -> Words:
    """Return the checksums of floats.

    A whole float counts as the equal integer, and every NaN as the same.
    """
    whole = np.isfinite(values) & (values == np.floor(values))
    whole &= (values >= -(2.0**63)) & (values < 2.0**64)
    crc = np.zeros(len(values), np.uint32)
    negative = whole & (values < 0)
    positive = whole & ~negative
    crc[positive] = _crc_of_integers(values[positive].astype(np.uint64))
    crc[negative] = _crc_of_integers(values[negative].astype(np.int64))
    others = values[~whole]
    others[np.isnan(others)] = np.nan
    crc[~whole] = _crc_of(others.view(np.uint64), (_FLOAT64_MARKER,), 8)
    return crc


def _crc_of(values: npt.NDArray[Any], head: Iterable[int], size: int) -> Words:
    """Return the checksums of a head and the last ``size`` bytes of each value, big-endian."""
    octets = np.ascontiguousarray(values).view(np.uint8).reshape(-1, values.itemsize)
    crc = np.full(len(values), reduce(_step, head, 0xFFFFFFFF), np.uint32)
    for place in reversed(range(size)):  # from the last byte: Arrow's arrays are little-endian
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
