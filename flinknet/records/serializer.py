"""Serialising records: msgpack values, one after the other, in a channel's byte stream.

There is no length before a record: msgpack values delimit themselves, and any msgpack library
reads the stream. The packer copies; the caller may change the record afterwards.

Theory of operation of the deserializer. A channel's bytes are fed buffer by buffer to a streaming
unpacker. Most buffers end with a record (``DATA_BUFFER_WITH_CLEAR_END``), so channels share the
unpackers of a gate's ``UnpackerPool``: a channel holds one only while it stands inside a record.
That makes an idle channel cost nothing, with thousands of them. A clear end is verified, because
an unpacker left inside a record would corrupt the next channel's data: a nil is fed behind the
buffer and must come out as itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from flinknet.errors import RemoteProtocolError, SerializationError

__all__ = [
    "PACK_ERRORS",
    "UNPACK_ERRORS",
    "RecordDeserializer",
    "UnpackerPool",
    "explain_unserializable",
    "record_packer",
]

PACK_ERRORS = (TypeError, ValueError, OverflowError, BufferError)
"""What the packer raises for a value that is no record."""

UNPACK_ERRORS = (TypeError, ValueError, OverflowError, msgpack.UnpackException)
"""What the unpacker raises for bytes that are no record: a key that cannot be hashed, text that is
no UTF-8, a date that does not exist, and whatever is over the limits."""

_NIL = b"\xc0"
_NOTHING = object()


def record_packer() -> Callable[[Any], bytes]:
    """Return a function from a record to its bytes; it raises one of PACK_ERRORS."""
    pack: Callable[[Any], bytes] = msgpack.Packer(datetime=True).pack
    return pack


def explain_unserializable(record: Any, cause: Exception) -> SerializationError:
    """Make the error for a record that the packer refused; names the record's type and the
    reason."""
    return SerializationError(
        f"a record of type {type(record).__name__} cannot be serialised: {cause}; records are "
        f"None, bool, "
        f"int (64 bit), float, str, bytes, list, tuple, dict and datetime with a time zone"
    )


class UnpackerPool:
    """Unpackers that stand between records, for the channels of one gate."""

    def __init__(self, record_bytes_max: int, record_elements_max: int, segment_bytes: int) -> None:
        self.unfinished_bytes_max = record_bytes_max + 2 * segment_bytes
        self._options: dict[str, Any] = {
            "use_list": False,
            "timestamp": 3,
            "strict_map_key": False,
            "max_buffer_size": self.unfinished_bytes_max,
            "max_str_len": record_bytes_max,
            "max_bin_len": record_bytes_max,
            "max_array_len": record_elements_max,
            "max_map_len": record_elements_max,
            "max_ext_len": 16,
        }
        self._idle: list[msgpack.Unpacker] = []

    def acquire(self) -> msgpack.Unpacker:
        """Take an unpacker that has nothing in it."""
        return self._idle.pop() if self._idle else msgpack.Unpacker(**self._options)

    def release(self, unpacker: msgpack.Unpacker) -> None:
        """Give back an unpacker that stands between records."""
        self._idle.append(unpacker)


class RecordDeserializer:
    """Turns one channel's buffers into records."""

    __slots__ = ("_pool", "_unfinished_bytes", "_unpacker")

    def __init__(self, pool: UnpackerPool) -> None:
        self._pool = pool
        self._unpacker: msgpack.Unpacker | None = None
        self._unfinished_bytes = 0

    @property
    def inside_record(self) -> bool:
        """Whether the channel stands inside a record, as far as its buffers said."""
        return self._unpacker is not None

    def records(self, data: memoryview | bytes, *, clear_end: bool) -> list[Any]:
        """Return the records that end in a buffer, whose bytes are copied.

        Raises one of UNPACK_ERRORS for bytes that are no record within the limits, and
        RemoteProtocolError if a clear end was announced inside a record.
        """
        unpacker = self._unpacker
        if unpacker is None:
            unpacker = self._unpacker = self._pool.acquire()
        unpacker.feed(data)
        records = list(unpacker)
        if clear_end:
            self._check_end(unpacker)
            self._unpacker = None
            self._unfinished_bytes = 0
            self._pool.release(unpacker)
        else:
            self._check_size(len(data), begins=bool(records))
        return records

    def _check_size(self, size: int, *, begins: bool) -> None:
        """Bound what the unpacker holds of a record: it counts its parts, but not their sum."""
        self._unfinished_bytes = size if begins else self._unfinished_bytes + size
        if self._unfinished_bytes > self._pool.unfinished_bytes_max:
            raise msgpack.BufferFull

    def _check_end(self, unpacker: msgpack.Unpacker) -> None:
        try:
            unpacker.feed(_NIL)
            whole = next(unpacker, _NOTHING) is None
        except UNPACK_ERRORS:
            whole = False
        if not whole:
            raise RemoteProtocolError("the peer cut a record where it announced a record's end")
