"""The envelope of all checkpoint files except state parts, and, with another mark, of job records.

``FORMAT.md`` defines the bytes: a mark, a version, the length of the body, the body, and a checksum
of everything before. So a torn, damaged, foreign or newer file is recognised, and refused by name,
before any of its content is used.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import msgpack

from flinknet.errors import CheckpointCorruptedError, CheckpointError
from flinknet.wire.checksum import crc32c

__all__ = ["ENVELOPE_BYTES", "VERSION", "open_envelope", "put_in_envelope"]

VERSION = 1
"""Version of the formats in FORMAT.md."""

MARK = b"flinkchk"
_HEAD = Struct(">8sHI")
_CHECKSUM = Struct(">I")
ENVELOPE_BYTES = _HEAD.size + _CHECKSUM.size
"""Bytes around the body."""


def put_in_envelope(content: dict[str, Any], bytes_max: int, mark: bytes = MARK) -> bytes:
    """Return a file with this content. Raises CheckpointError if it exceeds ``bytes_max``."""
    body: bytes = msgpack.packb(content)
    if len(body) + ENVELOPE_BYTES > bytes_max:
        raise CheckpointError(
            f"the metadata takes {len(body) + ENVELOPE_BYTES} bytes, but only {bytes_max} are "
            "allowed: raise checkpointing.metadata_bytes_max, or lower "
            "checkpointing.inline_bytes_max"
        )
    file = _HEAD.pack(mark, VERSION, len(body)) + body
    return file + _CHECKSUM.pack(crc32c(file))


def open_envelope(file: bytes, name: str, mark: bytes = MARK) -> dict[str, Any]:
    """Return the content of a file. Raises CheckpointCorruptedError, with ``name``, if invalid."""
    if len(file) < _HEAD.size or not file.startswith(mark):
        if mark.startswith(file[: len(mark)]):
            raise CheckpointCorruptedError(f"{name} is torn: it ends after {len(file)} bytes")
        raise CheckpointCorruptedError(
            f"{name} is not a file of flinknet: it does not begin with {mark!r}"
        )
    _, version, length = _HEAD.unpack_from(file)
    if version != VERSION:
        raise CheckpointCorruptedError(
            f"{name} has version {version}, but this flinknet reads version {VERSION}: use the "
            "version of flinknet that wrote it, or a later one"
        )
    if len(file) != length + ENVELOPE_BYTES:
        raise CheckpointCorruptedError(
            f"{name} is torn: it has {len(file)} bytes and should have {length + ENVELOPE_BYTES}"
        )
    end = _HEAD.size + length
    (checksum,) = _CHECKSUM.unpack_from(file, end)
    if checksum != crc32c(file[:end]):
        raise CheckpointCorruptedError(f"{name} is damaged: its checksum is wrong")
    try:
        content = msgpack.unpackb(memoryview(file)[_HEAD.size : end])
    except ValueError as cause:
        raise CheckpointCorruptedError(f"{name} does not contain msgpack: {cause}") from cause
    if not isinstance(content, dict):
        raise CheckpointCorruptedError(f"{name} does not contain a map")
    return content
