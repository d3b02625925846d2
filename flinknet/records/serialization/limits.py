"""Limits that a writer checks, so that it sends no record that the reader refuses."""

from __future__ import annotations

from typing import Any

from flinknet.config import RECORD_KEYS_MAX
from flinknet.errors import SerializationError
from flinknet.records.serialization.elements import check_elements
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES, check_keys
from flinknet.records.serialization.value_forms import is_arrow_batch

__all__ = ["RecordLimits"]


class RecordLimits:
    """The limits of a writer's records, which equal the limits of the reader.

    A record of at most ``unchecked_bytes`` cannot exceed any limit.

    Args:
        bytes_max: Larger records are refused.
        elements_max: Records with more elements are refused.
        keys_max: Records with more keys that could collide are refused.
    """

    __slots__ = ("_bytes_max", "_elements_max", "_keys_max", "unchecked_bytes")

    def __init__(self, bytes_max: int, elements_max: int, keys_max: int = RECORD_KEYS_MAX) -> None:
        self._bytes_max = bytes_max
        self._elements_max = elements_max
        self._keys_max = keys_max
        # An element takes at least one byte. Keys are not counted in shorter records.
        self.unchecked_bytes = min(bytes_max, elements_max, COUNTED_FROM_BYTES)

    def check(self, data: bytes | memoryview, head: bytes = b"") -> None:
        """Raise SerializationError if a record exceeds a limit.

        A record with a ``head`` is a large record, which has no elements.
        """
        size = len(head) + len(data)
        if size > self._bytes_max:
            raise SerializationError(
                f"a record has {size} bytes when serialised; the limit is {self._bytes_max} "
                f"(record_bytes_max)"
            )
        if head:
            return
        limit = "record_elements_max"
        try:
            if size > self._elements_max:
                check_elements(data, self._elements_max)
            limit = "record_keys_max"
            check_keys(data, self._keys_max)
        except ValueError as cause:
            raise SerializationError(f"a record cannot be written: {cause} ({limit})") from cause

    def check_long(self, data: bytes) -> None:
        """Raise SerializationError if a record that fits a buffer exceeds a limit.

        Only a record that is long enough to have too many keys is checked.
        """
        if len(data) > COUNTED_FROM_BYTES:
            self.check(data)

    def check_uncut(self, record: Any) -> None:
        """Raise SerializationError for an Arrow record batch that is too large to be split.

        Splitting copies the whole batch, before the records that it yields can be checked.
        """
        if is_arrow_batch(record):
            from flinknet.records.columns.record_batch import columns_bytes

            size = columns_bytes(record)
            if size > self._bytes_max:
                raise SerializationError(
                    f"an Arrow record batch to split has {size} bytes; the limit is "
                    f"{self._bytes_max} (record_bytes_max): emit fewer rows at a time"
                )
