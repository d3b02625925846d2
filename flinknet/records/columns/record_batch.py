"""Arrow record batches as records: what stands on the wire for one. Needs ``flinknet[arrow]``.

A batch is a msgpack extension whose content is an Arrow IPC stream, with the marker of its end or
without: the schema, the dictionaries if the schema has any, and one record batch. So every batch
stands for itself, any Arrow library reads it, and a channel may carry batches of several schemas
between other records. The schema costs some hundred bytes, but only once to make and once to read:
both sides remember the last ones.

What arrives is not trusted. A compressed batch is refused, because it says itself how much memory
it takes, as is one that has a part of its content several times, or far more rows than bytes
(``metadata.py``), and one whose offsets point out of its content, which Arrow itself would
follow. The columns of a batch, and the arrays inside them, may have 64 entries together for each
byte of the content, its rows counted as one more column; up to 65,536 are free. The writer refuses
what the reader would. A batch within that may still be far larger as Python objects: one value of
a dictionary stands for many rows.

Nothing of flinknet imports this module before there is a batch to write or to read.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow import ipc

from flinknet.errors import SerializationError
from flinknet.records.columns.metadata import check_batch, check_schema

__all__ = ["batch_pieces", "columns_bytes", "read_batch"]

_SCHEMAS_MAX = 64
"""Schemas that are remembered; a job has a few."""

_SCHEMAS_BYTES_MAX = 1 << 20
"""What they have together on the wire; a longer one is read anew each time."""

_READ_ERRORS = (pa.ArrowException, OSError, EOFError, MemoryError, StopIteration)
_ALIGNED_BYTES = 8
_PREFIX = Struct("<iI")
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


class _Schema:
    """A schema, its bytes on the wire, whether dictionaries follow it there, and whether no batch
    can have more entries than its bytes allow."""

    __slots__ = ("has_dictionaries", "head", "is_plain", "schema")

    def __init__(self, schema: pa.Schema, head: bytes) -> None:
        self.schema = schema
        self.head = head
        self.has_dictionaries = any(_has_dictionaries(field.type) for field in schema)
        self.is_plain = bool(schema.types) and all(map(_is_plain, schema.types))


def _has_dictionaries(data_type: pa.DataType) -> bool:
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    return pa.types.is_dictionary(data_type) or any(
        _has_dictionaries(data_type.field(index).type) for index in range(data_type.num_fields)
    )


def _is_plain(data_type: pa.DataType) -> bool:
    """Whether each entry of a column takes a bit or more, and has no others inside."""
    return any(
        kind(data_type) for kind in (pa.types.is_primitive, pa.types.is_string, pa.types.is_binary)
    )


class _Memory:
    """The schema that was written last, and those that were read, by their bytes."""

    written: _Schema | None = None
    read: ClassVar[dict[bytes, _Schema]] = {}


def batch_pieces(batch: pa.RecordBatch) -> tuple[bytes, memoryview]:
    """Return the content that stands for a batch, in two pieces: a short one, and the columns.

    Raises SerializationError for a column type that Arrow cannot write, and for far more rows than
    bytes."""
    known, schema = _Memory.written, batch.schema
    try:
        if known is None or not known.schema.equals(schema, check_metadata=True):
            known = _Memory.written = _Schema(schema, schema.serialize().to_pybytes())
        if known.has_dictionaries:
            head, columns = b"", _stream_of(batch)
            _read_messages(columns, _schema_bytes(columns), columns.size)
        else:
            head, columns = known.head, batch.serialize()
            if not known.is_plain:
                _read_messages(columns, 0, len(head) + columns.size)
        return head, memoryview(columns)
    except (ValueError, pa.ArrowException) as cause:
        raise _cannot_be_serialised(cause) from cause


def columns_bytes(batch: pa.RecordBatch) -> int:
    """Return what the columns of a batch take when serialised, without copying them.

    ``nbytes`` would look at a union that has no entries where it has no memory. Raises
    SerializationError for a column type that Arrow cannot write."""
    try:
        return int(ipc.get_record_batch_size(batch))
    except pa.ArrowException as cause:
        raise _cannot_be_serialised(cause) from cause


def _cannot_be_serialised(cause: Exception) -> SerializationError:
    return SerializationError(f"an Arrow record batch cannot be serialised: {cause}")


def _stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch behind its schema and its dictionaries."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def read_batch(content: bytes) -> pa.RecordBatch:
    """Return the batch that a content stands for, whose columns are views of it.

    Raises ValueError if it is none, or one that is not safe to use."""
    try:
        batch = _read_unchecked(content)
        batch.validate(full=True)
    except (ValueError, *_READ_ERRORS) as cause:
        raise ValueError(f"it cannot be read as an Arrow record batch: {cause}") from cause
    return batch


def _read_unchecked(content: bytes) -> pa.RecordBatch:
    head_bytes = _schema_bytes(content)
    known = _Memory.read.get(content[:head_bytes]) or _remember(content[:head_bytes])
    message, end = _read_messages(content, head_bytes, len(content))
    if content[end:] not in (b"", _END_OF_STREAM):
        raise ValueError("something follows the batch")
    if not known.has_dictionaries:
        return ipc.read_record_batch(message, known.schema)
    with ipc.open_stream(pa.py_buffer(content)) as reader:
        return reader.read_next_batch()


def _schema_bytes(content: bytes | pa.Buffer) -> int:
    """How long the first message is, the schema, which has no body."""
    marker, length = _PREFIX.unpack_from(content) if len(content) >= _PREFIX.size else (0, 0)
    if marker != -1 or length % _ALIGNED_BYTES:
        raise ValueError("it does not begin with a schema")
    return _PREFIX.size + int(length)


def _remember(head: bytes) -> _Schema:
    check_schema(head[_PREFIX.size :])
    known = _Schema(ipc.read_schema(pa.py_buffer(head)), head)
    remembered = _Memory.read
    if len(head) <= _SCHEMAS_BYTES_MAX:
        together = len(head) + sum(map(len, remembered))
        if len(remembered) >= _SCHEMAS_MAX or together > _SCHEMAS_BYTES_MAX:
            remembered.clear()
        remembered[head] = known
    return known


def _read_messages(source: bytes | pa.Buffer, start: int, content_bytes: int) -> tuple[Any, int]:
    """Return the message of the batch behind a schema, and where it ends.

    Raises ValueError if Arrow would take too much memory or time for it or for a dictionary; only
    version 5 says in one place whether a body is compressed."""
    source = pa.BufferReader(source)
    source.seek(start)
    while True:
        message = ipc.read_message(source)
        if message.metadata_version != ipc.MetadataVersion.V5:
            raise ValueError("it has metadata of a version before 5")
        is_dictionary = message.type == "dictionary"
        if is_dictionary or message.type == "record batch":
            metadata = message.metadata.to_pybytes()
            check_batch(metadata, message.body.size, content_bytes, is_dictionary=is_dictionary)
        if not is_dictionary:
            return message, source.tell()
