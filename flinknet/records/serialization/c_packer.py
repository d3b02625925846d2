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

from flinknet.buffer.builder import BufferBuilder
from flinknet.records.serialization.extension_types import TIMESTAMP
from flinknet.records.serialization.key_counts import COUNTED_FROM_BYTES
from flinknet.records.serialization.record_types import RecordTypes
from flinknet.records.serialization.value_forms import ValueForms

__all__ = ["CPacker"]

_BUFFER_BYTES = 1024


class CPacker:
    """Packs records, and what stands in them.

    ``encode(value, form, options)`` is ``pack(value)`` for most values, and TypeError for the
    others, for ``pack_otherwise``. Who packs many saves a call.

    ``hold`` packs a value and keeps it until ``write`` has appended it to a builder, or
    ``release``; what is held later is let go of before. Compiled, that makes no object of it. A
    long record is never appended: it is to be held against the limits.
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
        self._held: list[bytes] = []

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

    def hold(self, value: Any) -> int:
        """Pack a value and keep it; return what ``write`` and ``release`` know it by. Raises what
        ``pack`` does."""
        self._held.append(self.pack(value))
        return len(self._held) - 1

    def write(self, held: int, builder: BufferBuilder) -> bytes | None:
        """Let go of what is held: append it as a record, or return it if it is long, or does not
        fit."""
        data = self._held[held]
        self.release(held)
        is_short = len(data) <= COUNTED_FROM_BYTES
        return None if is_short and builder.append_whole(data) else data

    def release(self, held: int) -> None:
        """Let go of what is held."""
        del self._held[held:]

    def _known_otherwise(self, value: Any) -> Any:
        return list(value) if type(value) is tuple else self._form_otherwise(value)


def _extension(code: int, content: bytes) -> Any:
    if code == TIMESTAMP:
        return msgpack.Timestamp.from_bytes(content)
    return msgpack.ExtType(code, content)
