"""Arrow record batches for tests: a column of every type, and invalid contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from flinknet.records.columns.record_batch import batch_pieces

__all__ = [
    "BARE",
    "COLUMNS",
    "bare_batch",
    "batch_of",
    "compressed",
    "content_of_batch",
    "metadata_at",
    "stream_of",
]

_DICTIONARY = pa.array(["a", "b", None, "a"]).dictionary_encode()

COLUMNS: Mapping[str, pa.Array] = {
    "integers": pa.array([1, None, -3, 2**40]),
    "unsigned": pa.array([0, 1, 2, 255], pa.uint8()),
    "floats": pa.array([0.5, None, float("inf"), -0.0]),
    "half floats": pa.array(np.array([0.5, 1, 2, 3], np.float16)),
    "booleans": pa.array([True, None, False, True]),
    "strings": pa.array(["", None, "flügel", "x" * 50]),
    "long strings": pa.array(["", None, "y", "x" * 50], pa.large_string()),
    "string views": pa.array(["", None, "y", "x" * 50], pa.string_view()),
    "bytes": pa.array([b"", None, b"\xff", b"x" * 50]),
    "bytes of one size": pa.array([b"ab", None, b"cd", b"ef"], pa.binary(2)),
    "nulls": pa.nulls(4),
    "decimals": pa.array([1, None, 3, 4], pa.int64()).cast(pa.decimal128(30, 2)),
    "times": pa.array([0, None, 1, 2], pa.timestamp("ns", "Europe/Berlin")),
    "days": pa.array([0, None, 1, 2], pa.date32()),
    "durations": pa.array([0, None, 1, 2], pa.duration("ms")),
    "lists": pa.array([[1], [], None, [2, None, 3]]),
    "lists of lists": pa.array([[["a"], []], [], None, [None, ["b", "c"]]]),
    "lists of one size": pa.array([[1, 2], None, [3, 4], [5, None]], pa.list_(pa.int8(), 2)),
    "list views": pa.array([[1], [2, 3], None, []], pa.list_view(pa.int8())),
    "structures": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}, {"a": 2, "b": None}]),
    "maps": pa.array([[("a", 1)], [], None, [("b", None)]], pa.map_(pa.string(), pa.int8())),
    "unions": pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()),
        pa.array([0, 0, 1, 1], pa.int32()),
        [pa.array([1, 2]), pa.array(["a", "b"])],
    ),
    "runs": pa.RunEndEncodedArray.from_arrays([2, 4], ["a", None]),
    "dictionary": _DICTIONARY,
    "dictionary of numbers": pa.array([7, 8, 7, None]).dictionary_encode(),
    "lists of a dictionary": pa.ListArray.from_arrays([0, 1, 1, 2, 4], _DICTIONARY),
    "structures with a dictionary": pa.StructArray.from_arrays([_DICTIONARY], ["a"]),
    "maps to a dictionary": pa.MapArray.from_arrays(
        [0, 1, 2, 3, 4], pa.array(["k"] * 4), _DICTIONARY
    ),
    "runs of a dictionary": pa.RunEndEncodedArray.from_arrays([2, 4], _DICTIONARY.slice(0, 2)),
    "dictionary with a dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0, 1]), pa.StructArray.from_arrays([_DICTIONARY.slice(0, 2)], ["a"])
    ),
    "extension": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([b"x" * 16] * 4, pa.binary(16))
    ),
    "extension of a dictionary": pa.ExtensionArray.from_storage(
        pa.opaque(_DICTIONARY.type, "name", "vendor"), _DICTIONARY
    ),
}


def _structures(entries: int) -> pa.Array:
    return pa.StructArray.from_buffers(pa.struct([]), entries, [None])


BARE: Mapping[str, Callable[[int], pa.Array]] = {
    "nulls": pa.nulls,
    "structures of nothing": _structures,
    "structures of nulls": lambda entries: pa.StructArray.from_arrays([pa.nulls(entries)], ["a"]),
    "a long run": lambda entries: pa.RunEndEncodedArray.from_arrays([entries], ["a"]),
    "a list of nulls": lambda entries: pa.ListArray.from_arrays([0, entries], pa.nulls(entries)),
    "a list of its size": lambda entries: pa.FixedSizeListArray.from_arrays(
        pa.nulls(entries), entries
    ),
    "empty lists of one size": lambda entries: pa.FixedSizeListArray.from_buffers(
        pa.list_(pa.int8(), 0), entries, [None], children=[pa.array([], pa.int8())]
    ),
    "empty bytes of one size": lambda entries: pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(0), entries, [None, pa.py_buffer(b"")]
    ),
    "a union of nulls": lambda entries: pa.UnionArray.from_dense(
        pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.nulls(entries)]
    ),
    "a dictionary of nulls": lambda entries: pa.DictionaryArray.from_arrays(
        pa.array([0], pa.int32()), pa.nulls(entries)
    ),
}
"""Columns that have any number of entries and take no bytes."""


def bare_batch(name: str, entries: int) -> pa.RecordBatch:
    """Return a batch with one of those columns, or without columns."""
    if name == "no columns":
        return pa.RecordBatch.from_struct_array(_structures(entries))
    return pa.record_batch([BARE[name](entries)], ["a"])


def batch_of(*names: str) -> pa.RecordBatch:
    """Return a batch of four rows with columns of these kinds, by default of all kinds."""
    return pa.record_batch({name: COLUMNS[name] for name in names or COLUMNS})


def content_of_batch(batch: pa.RecordBatch) -> bytes:
    """Return the wire content of a batch, in one piece."""
    return b"".join(batch_pieces(batch))


def stream_of(batch: pa.RecordBatch, *, metadata: Any = None, **options: Any) -> bytes:
    """Return an Arrow stream with one batch, written by Arrow with any of its options."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch, custom_metadata=metadata)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def compressed(batch: pa.RecordBatch, codec: str) -> bytes:
    """Return an Arrow stream with one compressed batch."""
    return stream_of(batch, compression=codec)


_LENGTHS = Struct("<iI")


def metadata_at(content: bytes | bytearray, message: int) -> tuple[int, int]:
    """Return the bounds of the metadata of the nth message of a stream.

    No message before it may have a body.
    """
    start = 0
    for _ in range(message):
        start += _LENGTHS.size + _LENGTHS.unpack_from(content, start)[1]
    return start + _LENGTHS.size, start + _LENGTHS.size + _LENGTHS.unpack_from(content, start)[1]
