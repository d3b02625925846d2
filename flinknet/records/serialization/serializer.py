"""Serialising records: msgpack values, one after the other, in a channel's byte stream.

There is no length before a record: msgpack values delimit themselves, and any msgpack library
reads the stream. Records are packed by ``packer.py``.

``c_unpacker.py`` unpacks them. What msgpack has no form for is an extension
(``extension_reader.py``), and arrives as what it was; lists arrive as tuples.

Large bytes and Arrow batches need no packer (``large_record.py``).

Theory of operation of the deserializer (Flink's NonSpanningWrapper and SpanningWrapper). A buffer
is the end of a record that was begun before, whole records, and the beginning of one that goes on,
each of which may be missing; the buffer says where one ends and the next begins, and how many whole
records there are. Behind the header of an array of so many they are one value, which is unpacked
with one call, where it lies: the memory in front of a buffer's content has room for that header.
Behind the end of another record there is none, so they are copied then. Compiled, neither header
nor copy is needed, and the others are left to say what is wrong. A record that spans buffers
is put together (``spanning_record.py``) and unpacked alone. So an idle channel costs nothing, with
thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from struct import Struct
from typing import Any, Self

import msgpack

from flinknet.buffer.segment import ARRAY_HEADER_BYTES
from flinknet.config import RECORD_KEYS_MAX, NetworkConfig
from flinknet.errors import RemoteProtocolError
from flinknet.records.serialization.c_unpacker import CUnpacker
from flinknet.records.serialization.elements import (
    INCOMPLETE,
    Serialised,
    UnpackRecords,
    check_elements,
)
from flinknet.records.serialization.extension_reader import ExtensionReader
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES, FEW_KEYS, check_keys
from flinknet.records.serialization.large_record import (
    LARGE_RECORD_BYTES,
    large_parts,
    large_value,
)
from flinknet.records.serialization.record_types import RecordTypes, Registered
from flinknet.records.serialization.spanning_record import ReassemblyMemory, SpanningRecord

__all__ = ["UNPACK_ERRORS", "RecordDeserializer", "RecordUnpacker"]

UNPACK_ERRORS = (TypeError, ValueError, OverflowError, msgpack.UnpackException)
"""What the unpacker raises for bytes that are no record: a key that cannot be hashed, text that is
no UTF-8, a date that does not exist, and whatever is over the limits."""

_ARRAY32_MARKER, _ARRAY32 = 0xDD, Struct(">BI")
_CUT = "the peer cut a record where it announced a record's end, or it counted its records wrongly"


def _record_unpacker(
    bytes_max: int, elements_max: int, keys_max: int, types: RecordTypes
) -> tuple[Callable[[Serialised], Any], UnpackRecords | None]:
    """Return a function from the bytes of a value within the limits to the value, and one for
    whole records if there is one.

    ``keys_max`` limits each map and each set.
    """

    def read_extension(code: int, content: bytes) -> Any:
        return extensions.read(code, content)

    unpacker = CUnpacker(bytes_max, elements_max, read_extension, keys_max)
    extensions = ExtensionReader(types, unpacker.unpack, keys_max)
    return unpacker.unpack, unpacker.records


class RecordUnpacker:
    """Unpacks the records of any number of channels, whose producers have registered the same
    classes; it has no state between two records.

    Its methods raise one of UNPACK_ERRORS for bytes that are no record within the limits, and
    RemoteProtocolError if the bytes end inside a record or behind it.

    Nothing up to ``length_max`` is refused for its length, whatever it is.
    """

    def __init__(
        self,
        *,
        record_bytes_max: int,
        record_elements_max: int,
        record_keys_max: int = RECORD_KEYS_MAX,
        types: Registered = None,
    ) -> None:
        self._bytes_max = record_bytes_max
        self._elements_max = record_elements_max
        self._keys_max = record_keys_max
        known = RecordTypes.of(types)
        self._unpack, self._unpack_records = _record_unpacker(
            record_bytes_max, record_elements_max, record_elements_max, known
        )
        self.length_max = min(record_bytes_max, record_elements_max)
        self._unpack_few_keys, self._unpack_records_few_keys = _record_unpacker(
            record_bytes_max, record_elements_max, FEW_KEYS, known
        )

    @classmethod
    def of(
        cls,
        config: NetworkConfig,
        types: Registered = None,
    ) -> Self:
        """Make an unpacker with the configured limits."""
        return cls(
            record_bytes_max=config.record_bytes_max,
            record_elements_max=config.record_elements_max,
            record_keys_max=config.record_keys_max,
            types=types,
        )

    def whole_records(self, data: memoryview, start: int, end: int, number: int) -> tuple[Any, ...]:
        """Return the records that part of a buffer consists of, so many.

        What stands in front of them, at the start of ``data``, is overwritten if it is room.
        """
        size = end - start
        if number == 1 and LARGE_RECORD_BYTES <= size <= self._bytes_max:
            parts = large_parts(data, start, end)
            if parts is not None and sum(parts) == size:
                content = start + parts[0]
                head = bytes(data[start:content])
                return (large_value(head, bytes(data[content:end])),)
        unpack_records = (
            self._unpack_records if size <= COUNTED_FROM_BYTES else self._unpack_records_few_keys
        )
        records: tuple[Any, ...] = ()
        if unpack_records is not None:
            try:
                return unpack_records(data, start, end, number)
            except Exception:
                records = ()  # what is wrong with them is found again, and said, below
        if start == ARRAY_HEADER_BYTES:
            _ARRAY32.pack_into(data, 0, _ARRAY32_MARKER, number)
            if end == len(data):
                records = self._records(data)
            else:
                with data[:end] as array:
                    records = self._records(array)
        else:
            header = _ARRAY32.pack(_ARRAY32_MARKER, number)
            records = self._records(b"".join((header, data[start:end])))
        return records

    def _records(self, content: Serialised) -> Any:
        """Return the records that are the elements of an array."""
        if len(content) > COUNTED_FROM_BYTES + ARRAY_HEADER_BYTES:
            return self._counted_value(content, records=True)
        return self._value(content)

    def _counted_value(self, content: Serialised, *, records: bool = False) -> Any:
        """Return the value of a long content, unless too many of its keys could collide."""
        with suppress(Exception):  # a map or a set is larger, or it is no record
            return self._unpack_few_keys(content)
        check_keys(content, self._keys_max, records=records)
        return self._value(content)

    def large_record(self, head: Serialised, content: bytes) -> Any:
        """Return the large record that was put together from several buffers."""
        return large_value(head, content)

    def record(self, content: Serialised) -> Any:
        """Return any other one that was."""
        if len(content) > self._elements_max:
            check_elements(content, self._elements_max)
        if len(content) > COUNTED_FROM_BYTES:
            return self._counted_value(content)
        return self._value(content)

    def _value(self, content: Serialised) -> Any:
        try:
            return self._unpack(content)
        except msgpack.ExtraData as error:
            raise RemoteProtocolError(_CUT) from error
        except ValueError as error:
            if str(error) == INCOMPLETE:
                raise RemoteProtocolError(_CUT) from error
            raise
        except UNPACK_ERRORS:
            raise
        except Exception as error:  # a map's key is an object whose own hash fails
            raise ValueError(f"{type(error).__name__}: {error}") from error


class RecordDeserializer:
    """Puts together the records of one channel that span its buffers."""

    __slots__ = ("_spanning", "_unpacker")

    def __init__(self, unpacker: RecordUnpacker, memory: ReassemblyMemory) -> None:
        self._unpacker = unpacker
        self._spanning = SpanningRecord(memory)

    @property
    def inside_record(self) -> bool:
        """Whether the channel stands inside a record."""
        return self._spanning.size > 0

    def spanning_record(
        self, data: memoryview, continued: int, unfinished: int, clear_end: bool
    ) -> tuple[Any, ...]:
        """Take what a buffer has of records that span buffers, whose bytes are copied, and return
        the one that ends in it, if there is one. Whole records stand between, for the unpacker.

        ``data`` is its content behind ARRAY_HEADER_BYTES of room, ``continued`` and ``unfinished``
        are those of ``Buffer``.

        Raises one of UNPACK_ERRORS for bytes that are no record within the limits,
        RemoteProtocolError if records do not begin and end where the buffers say, and
        SerializationError if the disk refuses a long one.
        """
        spanning = self._spanning
        records: tuple[Any, ...] = ()
        if clear_end and not (continued or unfinished or spanning.size):
            return records
        goes_on = not clear_end and not unfinished
        if not spanning.size and (continued or goes_on):
            raise RemoteProtocolError("the peer continued a record that it had not begun")
        if goes_on:
            spanning.append(data, ARRAY_HEADER_BYTES, ARRAY_HEADER_BYTES + continued)
        elif continued:
            with data[ARRAY_HEADER_BYTES:] as content:
                records = (spanning.complete(content, continued, self._unpacker),)
        elif spanning.size:
            raise RemoteProtocolError(
                "the peer cut a record: it began one, and did not continue it in the next buffer"
            )
        if unfinished:
            spanning.append(data, len(data) - unfinished, len(data))
        return records

    def unconsumed(self) -> Iterator[bytes]:
        """The bytes of a record that is not complete; see ``SpanningRecord``."""
        return self._spanning.unconsumed()

    def restore(self, pieces: Iterable[bytes]) -> None:
        """Begin with such bytes; see ``SpanningRecord``."""
        self._spanning.restore(pieces)

    def release(self) -> None:
        """Drop a record that is not complete; idempotent."""
        self._spanning.release()
