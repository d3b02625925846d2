"""Deserialises records: consecutive msgpack values in the byte stream of a channel.

A record has no length prefix: msgpack values delimit themselves, and any msgpack library reads the
stream. ``packer.py`` packs records and ``c_unpacker.py`` unpacks them. A value that msgpack has no
type for is an extension (``extension_reader.py``) and keeps its type; lists arrive as tuples. Large
bytes and Arrow batches need no packer (``large_record.py``).

Theory of operation of the deserializer (Flink's NonSpanningWrapper and SpanningWrapper). A buffer
consists of the end of an earlier record, whole records, and the beginning of a record that
continues; each of them may be missing. The buffer tells the boundaries and the number of whole
records. Whole records are unpacked with one call, as one array. In front of a buffer's content is
room for the array's header. Behind the end of another record there is no room, so the records are
copied then. The compiled unpacker needs neither header nor copy; the array only serves to find the
error of invalid bytes. A record that spans buffers is reassembled (``spanning_record.py``) and
unpacked alone. A channel between two records holds no memory, so thousands of idle channels cost
none.
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
"""Errors of the unpacker for invalid bytes.

Examples are a key that cannot be hashed, text that is not UTF-8, a date that does not exist, and
values over the limits.
"""

_ARRAY32_MARKER, _ARRAY32 = 0xDD, Struct(">BI")
_CUT = (
    "the peer sent an incomplete record where it announced a record's end, or a wrong number of "
    "records"
)


def _record_unpacker(
    bytes_max: int, elements_max: int, keys_max: int, types: RecordTypes
) -> tuple[Callable[[Serialised], Any], UnpackRecords | None]:
    """Return a function that unpacks a value within the limits, and one for whole records.

    The second is None if there is none. ``keys_max`` limits each map and each set.
    """

    def read_extension(code: int, content: bytes) -> Any:
        return extensions.read(code, content)

    unpacker = CUnpacker(bytes_max, elements_max, read_extension, keys_max)
    extensions = ExtensionReader(types, unpacker.unpack, keys_max)
    return unpacker.unpack, unpacker.records


class RecordUnpacker:
    """Unpacker of records for any number of channels with the same registered classes.

    It has no state between two records. Its methods raise one of UNPACK_ERRORS for bytes that are
    not a record within the limits, and RemoteProtocolError if the last record does not end where
    the bytes end. No value up to ``length_max`` is refused for its length.
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
        # Long records are tried with these first. They refuse large maps and sets, and most records
        # have none, so most long records are unpacked without counting their keys.
        self._unpack_few_keys, self._unpack_records_few_keys = _record_unpacker(
            record_bytes_max, record_elements_max, FEW_KEYS, known
        )

    @classmethod
    def of(
        cls,
        config: NetworkConfig,
        types: Registered = None,
    ) -> Self:
        """Return an unpacker with the configured limits."""
        return cls(
            record_bytes_max=config.record_bytes_max,
            record_elements_max=config.record_elements_max,
            record_keys_max=config.record_keys_max,
            types=types,
        )

    def whole_records(self, data: memoryview, start: int, end: int, number: int) -> tuple[Any, ...]:
        """Return the ``number`` records in a part of a buffer.

        If there is room in front of the records, at the start of ``data``, it is overwritten.
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
                records = ()  # the code below finds the error again, and reports it
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
        with suppress(Exception):  # a map or a set is larger, or the bytes are invalid
            return self._unpack_few_keys(content)
        check_keys(content, self._keys_max, records=records)
        return self._value(content)

    def large_record(self, head: Serialised, content: bytes) -> Any:
        """Return a large record that was reassembled from several buffers."""
        return large_value(head, content)

    def record(self, content: Serialised) -> Any:
        """Return any other record that was reassembled."""
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
        except Exception as error:  # the key of a map is an object with a failing hash
            raise ValueError(f"{type(error).__name__}: {error}") from error


class RecordDeserializer:
    """Deserializer of the records of one channel that span its buffers."""

    __slots__ = ("_spanning", "_unpacker")

    def __init__(self, unpacker: RecordUnpacker, memory: ReassemblyMemory) -> None:
        self._unpacker = unpacker
        self._spanning = SpanningRecord(memory)

    @property
    def inside_record(self) -> bool:
        """Whether a record of the channel is incomplete."""
        return self._spanning.size > 0

    def spanning_record(
        self, data: memoryview, continued: int, unfinished: int, clear_end: bool
    ) -> tuple[Any, ...]:
        """Take a buffer's bytes of spanning records, and return the record that ends in it.

        The bytes are copied. The result is empty if no spanning record ends in the buffer. Whole
        records in between are left to the unpacker.

        ``data`` is the buffer's content after ARRAY_HEADER_BYTES of room; ``continued`` and
        ``unfinished`` equal those of ``Buffer``.

        Raises one of UNPACK_ERRORS for bytes that are not a record within the limits. Raises
        RemoteProtocolError if records do not begin and end where the buffers tell, and
        SerializationError if the disk fails for a long record.
        """
        spanning = self._spanning
        records: tuple[Any, ...] = ()
        if clear_end and not (continued or unfinished or spanning.size):
            return records
        goes_on = not clear_end and not unfinished
        if not spanning.size and (continued or goes_on):
            raise RemoteProtocolError("the peer continued a record that it did not begin")
        if goes_on:
            spanning.append(data, ARRAY_HEADER_BYTES, ARRAY_HEADER_BYTES + continued)
        elif continued:
            with data[ARRAY_HEADER_BYTES:] as content:
                records = (spanning.complete(content, continued, self._unpacker),)
        elif spanning.size:
            raise RemoteProtocolError(
                "the peer sent an incomplete record: it did not continue it in the next buffer"
            )
        if unfinished:
            spanning.append(data, len(data) - unfinished, len(data))
        return records

    def unconsumed(self) -> Iterator[bytes]:
        """Return the bytes of the incomplete record; see ``SpanningRecord``."""
        return self._spanning.unconsumed()

    def restore(self, pieces: Iterable[bytes]) -> None:
        """Restore the bytes of an incomplete record; see ``SpanningRecord``."""
        self._spanning.restore(pieces)

    def release(self) -> None:
        """Drop an incomplete record; idempotent."""
        self._spanning.release()
