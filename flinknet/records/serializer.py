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

from collections.abc import Callable, Iterator
from typing import Any

import msgpack

from flinknet.errors import RemoteProtocolError, SerializationError

__all__ = ["RecordDeserializer", "UnpackerPool", "explain_unserializable", "record_packer"]

_NIL = b"\xc0"
_NOTHING = object()


def record_packer() -> Callable[[Any], bytes]:
    """Return a function from a record to its bytes; it raises what msgpack raises."""
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
        self._options: dict[str, Any] = {
            "use_list": False,
            "timestamp": 3,
            "strict_map_key": False,
            "max_buffer_size": record_bytes_max + 2 * segment_bytes,
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

    __slots__ = ("_pool", "_unpacker")

    def __init__(self, pool: UnpackerPool) -> None:
        self._pool = pool
        self._unpacker: msgpack.Unpacker | None = None

    @property
    def inside_record(self) -> bool:
        """Whether the channel stands inside a record, as far as its buffers said."""
        return self._unpacker is not None

    def feed(self, data: memoryview | bytes) -> Iterator[Any]:
        """Add a buffer's bytes (they are copied) and return the records that are complete now.

        The iterator must be exhausted before ``end_buffer``. It raises what the unpacker raises.
        """
        unpacker = self._unpacker
        if unpacker is None:
            unpacker = self._unpacker = self._pool.acquire()
        unpacker.feed(data)
        records: Iterator[Any] = unpacker
        return records

    def end_buffer(self, *, clear_end: bool) -> None:
        """The records of a buffer have been read; with a clear end the unpacker goes back to the
        pool."""
        unpacker = self._unpacker
        if not clear_end or unpacker is None:
            return
        unpacker.feed(_NIL)
        if next(unpacker, _NOTHING) is not None:
            raise RemoteProtocolError("the peer cut a record where it announced a record's end")
        self._unpacker = None
        self._pool.release(unpacker)
