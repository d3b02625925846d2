"""Arrow record batches as records, and their wire format. Needs ``flinknet[arrow]``.

A batch is a msgpack extension whose content is an Arrow IPC stream, with or without the
end-of-stream marker: the schema, the dictionaries if the schema has any, and one record batch.
Every batch is therefore self-contained, any Arrow library reads it, and a channel may carry batches
of several schemas between other records. The schema costs some hundred bytes per batch, but it is
written and parsed only once: both sides remember the last schemas.

The reader does not trust a batch. It refuses a compressed batch, which declares its own memory
size, a batch with several references to the same part, and a batch with far more rows than bytes
(``metadata.py``). It also refuses a batch with offsets out of its content, which Arrow would
follow. The columns of a batch and their nested arrays may have 64 entries together per byte of
content, counting the rows as one more column; 65,536 entries are always allowed. The writer refuses
the same batches as the reader. A batch within the limits may still be far larger as Python objects:
one dictionary value stands for many rows.

flinknet imports this module only when there is a batch to write or to read.
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
"""Number of schemas that are remembered; a job has a few."""

_SCHEMAS_BYTES_MAX = 1 << 20
"""Total wire size of the remembered schemas; a longer schema is parsed each time."""

_READ_ERRORS = (pa.ArrowException, OSError, EOFError, MemoryError, StopIteration)
"""Errors that Arrow raises for invalid bytes."""

_ALIGNED_BYTES = 8
_PREFIX = Struct("<iI")
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


class _Schema:
    """A schema with its wire form.

    ``has_dictionaries`` is true if dictionaries follow the schema on the wire. ``is_plain`` is true
    if the size of a batch always bounds its number of entries.
    """

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
    """Return whether each entry of a column takes a bit or more, and has no nested entries."""
    return any(
        kind(data_type) for kind in (pa.types.is_primitive, pa.types.is_string, pa.types.is_binary)
    )


class _Memory:
    """The schema that was written last, and the schemas that were read, by their bytes."""

    written: _Schema | None = None
    read: ClassVar[dict[bytes, _Schema]] = {}


def batch_pieces(batch: pa.RecordBatch) -> tuple[bytes, memoryview]:
    """Return the content of a batch in two pieces: a short head, and the columns.

    Raises SerializationError for a column type that Arrow cannot write, and for far more rows than
    bytes.
    """
    known, schema = _Memory.written, batch.schema
    try:
        if known is None or not known.schema.equals(schema, check_metadata=True):
            known = _Memory.written = _Schema(schema, schema.serialize().to_pybytes())
        # ``_read_messages`` refuses a batch that the reader would refuse.
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
    """Return the serialised size of a batch's columns, without copying them.

    ``nbytes`` is not used: for a union without entries it would read memory that does not exist.
    Raises SerializationError for a column type that Arrow cannot write.
    """
    try:
        return int(ipc.get_record_batch_size(batch))
    except pa.ArrowException as cause:
        raise _cannot_be_serialised(cause) from cause


def _cannot_be_serialised(cause: Exception) -> SerializationError:
    return SerializationError(f"an Arrow record batch cannot be serialised: {cause}")


def _stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    """Return the stream of a batch: its schema, its dictionaries, and the batch."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def read_batch(content: bytes) -> pa.RecordBatch:
    """Return the batch of a content; its columns are views of the content.

    Raises ValueError if the content is not a batch, or is not safe to use.
    """
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
        raise ValueError("bytes follow the batch")
    if not known.has_dictionaries:
        return ipc.read_record_batch(message, known.schema)
    with ipc.open_stream(pa.py_buffer(content)) as reader:
        return reader.read_next_batch()


def _schema_bytes(content: bytes | pa.Buffer) -> int:
    """Return the length of the first message, the schema, which has no body."""
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
    """Return the message of the batch that follows a schema, and its end.

    Raises ValueError if Arrow would take too much memory or time for the batch or for a dictionary.
    Only version 5 of the metadata declares compression in one place, so other versions are refused.
    """
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
