"""Checksums: what follows every message when a connection has them.

A trailer is one msgpack integer of fixed width, the CRC32C (Castagnoli) of all bytes of the message
before it, header and body. TCP's own 16 bits let one damaged packet in 65,536 through, and proxies,
drivers and memory damage what no packet had wrong.
"""

from __future__ import annotations

import warnings
from struct import Struct

with warnings.catch_warnings():
    # That it is slow without its own C, which is not so where Python is compiled.
    warnings.simplefilter("ignore", RuntimeWarning)
    import google_crc32c

__all__ = ["TRAILER_BYTES", "crc32c", "decode_trailer", "encode_trailer", "seal"]

_TRAILER = Struct(">BI")
_UINT32 = 0xCE
TRAILER_BYTES = _TRAILER.size

_extend = google_crc32c.extend


def crc32c(data: bytes | memoryview, crc: int = 0) -> int:
    """Return the CRC32C of what has the CRC32C ``crc`` with ``data`` behind it.

    The library takes nothing but bytes, so memory that can be written is copied first, which costs
    half of what the checksum does.
    """
    result: int = _extend(crc, bytes(data))
    return result


def encode_trailer(crc: int) -> bytes:
    """Encode what follows a message with this checksum."""
    return _TRAILER.pack(_UINT32, crc)


def decode_trailer(data: memoryview, start: int) -> int | None:
    """Return the checksum that a trailer says, None if it is no trailer."""
    mark, crc = _TRAILER.unpack_from(data, start)
    return crc if mark == _UINT32 else None


def seal(message: bytes) -> bytes:
    """Return a message with its trailer."""
    return message + encode_trailer(crc32c(message))
