"""Packing records with libraries in C and Rust.

Theory of operation. ormsgpack packs: it is the only fast one that passes on to ``form`` whatever is
not of one of msgpack's own types exactly, at any depth. It refuses keys of maps that are not text,
and more than 255 arrays and maps in one another. Both are for msgpack's own packer, which takes
twice as long (``pack_otherwise``), as is the reason why a record is refused: ormsgpack keeps no
error that ``form`` raises, so ``ValueForms`` does.
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
    """Packs records, and what stands in them.

    ``encode(value, form, options)`` is ``pack(value)`` for most values, and TypeError for the
    others, for ``pack_otherwise``. Who packs many saves a call.

    Compiled, there is more for direct routes: ``hold`` packs a value and keeps it, without an
    object, until ``write`` has appended it to a builder, or ``release``; values that were held
    later are released before. ``write`` never appends a long record, which has to be compared with
    the limits.
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
        """Return the bytes of a value; raises what ``pack_otherwise`` does."""
        try:
            return self.encode(value, self.form, self.options)
        except TypeError:
            return self.pack_otherwise(value)

    def pack_otherwise(self, value: Any) -> bytes:
        """Return the bytes of a value that ``encode`` has just refused.

        Raises whatever says that there are none."""
        failure, self._forms.failure = self._forms.failure, None
        if failure is not None:
            raise failure
        packer = msgpack.Packer(
            default=self._known_otherwise, strict_types=True, buf_size=_BUFFER_BYTES
        )
        try:
            # One level more than the value has: a reader needs it for the array of all records.
            packed: bytes = packer.pack([value])
        finally:
            self._forms.failure = None
        return packed[1:]

    def _known_otherwise(self, value: Any) -> Any:
        return list(value) if type(value) is tuple else self._form_otherwise(value)


def _extension(code: int, content: bytes) -> Any:
    if code == TIMESTAMP:
        return msgpack.Timestamp.from_bytes(content)
    return msgpack.ExtType(code, content)
