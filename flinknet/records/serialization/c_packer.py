"""Packing of records with libraries in C and Rust.

Theory of operation. ormsgpack packs: it is the only fast library that passes every value not
exactly of a msgpack type to ``form``, at any depth. It refuses map keys other than text, and more
than 255 nested arrays and maps. msgpack's own packer handles both, in twice the time
(``pack_otherwise``). It also finds the reason why a record is refused: ormsgpack drops an error
that ``form`` raises, so ``ValueForms`` keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import ormsgpack

from flinknet.records.serialization.extension_types import TIMESTAMP
from flinknet.records.serialization.record_types import RecordTypes
from flinknet.records.serialization.value_forms import ValueForms

__all__ = ["CPacker"]

_BUFFER_BYTES = 1024


class CPacker:
    """Packer of records and of the values in them.

    ``encode(value, form, options)`` equals ``pack(value)`` for most values, and saves a call. For
    other values it raises TypeError; the caller must then call ``pack_otherwise``.

    The compiled form has more methods, for direct routes. ``hold`` packs a value and keeps its
    bytes in the packer's memory until ``write`` appends them to a builder or ``release`` drops
    them. Held values form a stack: the last one is released first. ``write`` does not append a
    record that has no room or must be checked against the limits; it returns such a record.
    """

    def __init__(self, types: RecordTypes) -> None:
        self.encode: Callable[[Any, Callable[[Any], Any], int], bytes] = ormsgpack.packb
        self.options: int = (
            ormsgpack.OPT_PASSTHROUGH_DATACLASS
            | ormsgpack.OPT_PASSTHROUGH_DATETIME
            | ormsgpack.OPT_PASSTHROUGH_ENUM
            | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
            | ormsgpack.OPT_PASSTHROUGH_UUID
        )
        self._forms = ValueForms(types, self.pack)
        self.form = self._forms.made_with(ormsgpack.Ext)
        self._form_otherwise = self._forms.made_with(_extension)

    def pack(self, value: Any) -> bytes:
        """Return the bytes of a value. Raises the errors of ``pack_otherwise``."""
        try:
            return self.encode(value, self.form, self.options)
        except TypeError:
            return self.pack_otherwise(value)

    def pack_otherwise(self, value: Any) -> bytes:
        """Return the bytes of a value that ``encode`` has just refused.

        Raises the error that explains why the value cannot be packed.
        """
        failure, self._forms.failure = self._forms.failure, None
        if failure is not None:
            # ormsgpack has replaced this error by a TypeError of its own.
            raise failure
        packer = msgpack.Packer(
            default=self._known_otherwise, strict_types=True, buf_size=_BUFFER_BYTES
        )
        try:
            # One level deeper than the value: a reader needs that level for the array of all
            # records.
            packed: bytes = packer.pack([value])
        finally:
            self._forms.failure = None
        return packed[1:]

    def _known_otherwise(self, value: Any) -> Any:
        # Under ``strict_types``, msgpack's packer passes tuples on, too.
        return list(value) if type(value) is tuple else self._form_otherwise(value)


def _extension(code: int, content: bytes) -> Any:
    if code == TIMESTAMP:  # ExtType refuses negative codes
        return msgpack.Timestamp.from_bytes(content)
    return msgpack.ExtType(code, content)
