"""Packer of records for writers and state; explains why a record cannot be serialised.

The packer copies, so the caller may change the record afterwards. It does no I/O and has no state
between two records, so storage of records can use it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinknet.errors import SerializationError
from flinknet.records.serialization.c_packer import CPacker
from flinknet.records.serialization.extension_types import NESTING_MAX
from flinknet.records.serialization.limits import RecordLimits
from flinknet.records.serialization.record_types import RecordTypes, Registered

__all__ = ["CheckedRecordPacker", "RecordPacker", "unserializable"]


class RecordPacker:
    """Packer of the records of one writer.

    Args:
        types: The registered classes of the objects in records; see ``RecordTypes``.
    """

    encode: Callable[[Any, Callable[[Any], Any], int], bytes]
    """Packs most records without a Python call: ``encode(record, form, options)``.

    The result equals ``pack(record)``. For other records it raises TypeError; call
    ``pack_otherwise(record)`` at once then.
    """

    form: Callable[[Any], Any]
    options: int
    direct: CPacker
    """The underlying packer, for direct routes."""

    def __init__(self, types: Registered = None) -> None:
        self.direct = packer = CPacker(RecordTypes.of(types))
        self.encode, self.form, self.options = packer.encode, packer.form, packer.options
        self._pack, self._pack_otherwise = packer.pack, packer.pack_otherwise

    def pack(self, record: Any) -> bytes:
        """Return the bytes of a record. Raises SerializationError."""
        try:
            return self._pack(record)
        except Exception as cause:
            raise unserializable(record, cause) from cause

    def pack_otherwise(self, record: Any) -> bytes:
        """Return the bytes of a record that ``encode`` has just refused.

        Raises SerializationError.
        """
        try:
            return self._pack_otherwise(record)
        except Exception as cause:
            raise unserializable(record, cause) from cause


class CheckedRecordPacker(RecordPacker):
    """Packer that checks records against the limits, for large buffers.

    A record over a limit may fit a large buffer, so all methods also raise SerializationError for a
    record over a limit. Only ``direct`` does not check: its ``write`` returns the records that must
    be checked, and its caller appends them.
    """

    def __init__(self, types: Registered, limits: RecordLimits) -> None:
        super().__init__(types)
        self._limits = limits
        self._encode = self.encode
        self.encode = self._encode_checked

    def _encode_checked(self, record: Any, form: Callable[[Any], Any], options: int) -> bytes:
        return self._checked(self._encode(record, form, options))

    def pack(self, record: Any) -> bytes:
        """Return the bytes of a record. Raises SerializationError."""
        return self._checked(super().pack(record))

    def pack_otherwise(self, record: Any) -> bytes:
        """Return the bytes of a record that ``encode`` has just refused."""
        return self._checked(super().pack_otherwise(record))

    def _checked(self, data: bytes) -> bytes:
        self._limits.check_long(data)
        return data


def unserializable(record: Any, cause: Exception) -> SerializationError:
    """Return the error for a record that cannot be packed, with its type and the reason."""
    reason = str(cause) or type(cause).__name__
    if "recursion limit exceeded" in reason:
        reason = f"arrays and maps are nested more than {NESTING_MAX} levels deep"
    return SerializationError(
        f"a record of type {type(record).__name__} cannot be serialised: {reason} (records are "
        f"made of None, bool, int of 64 bits, float, str, bytes, tuple, list, dict, set, "
        f"frozenset, date, time, datetime, timedelta, Decimal, UUID, Arrow record batches and "
        f"registered classes)"
    )
