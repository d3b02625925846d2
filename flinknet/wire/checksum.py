"""Checksums: what follows every message when a connection has them.

A trailer is one msgpack integer of fixed width, the CRC32C (Castagnoli) of all bytes of the message
before it, header and body. TCP's own 16 bits let one damaged packet in 65,536 through, and proxies,
drivers and memory damage what no packet had wrong.

The ``.pyx`` beside this module is the same for C: it reads the bytes where they lie, with the
instructions that processors have for CRC32C. Where a processor has none, it calls the library that
this form calls.
"""

from __future__ import annotations

import warnings
from struct import Struct

with warnings.catch_warnings():
    # That it is slow without its own C, which is not so where Python is compiled.
    warnings.simplefilter("ignore", RuntimeWarning)
    import google_crc32c

__all__ = [
    "TRAILER_BYTES",
    "crc32c",
    "crc32c_between",
    "decode_trailer",
    "encode_trailer",
    "make_trailer",
    "seal",
]

_TRAILER = Struct(">BI")
_UINT32 = 0xCE
TRAILER_BYTES = _TRAILER.size

_extend = google_crc32c.extend


def crc32c(data: bytes | memoryview, crc: int = 0) -> int:
    """Return the CRC32C of what has the CRC32C ``crc`` with ``data`` behind it.

    The library takes nothing but bytes, so memory that can be written is copied first.
    """
    result: int = _extend(crc, bytes(data))
    return result


def crc32c_between(data: bytes | memoryview, start: int, end: int, crc: int = 0) -> int:
    """Return the CRC32C of what has the CRC32C ``crc`` with part of ``data`` behind it.

    Raises ValueError if that is no part of it.
    """
    if not 0 <= start <= end <= len(data):
        raise ValueError(f"there are no bytes {start} to {end} in {len(data)}")
    return crc32c(data[start:end], crc)


def make_trailer(header: bytes | memoryview, body: bytes | memoryview) -> bytes:
    """Return the trailer of a message that is in two pieces."""
    return encode_trailer(crc32c(body, crc32c(header)))


def encode_trailer(crc: int) -> bytes:
    """Encode what follows a message with this checksum."""
    return _TRAILER.pack(_UINT32, crc)


def decode_trailer(data: bytes | memoryview, start: int) -> int | None:
    """Return the checksum that a trailer says, None if it is no trailer.

    Raises ValueError if it is cut off.
    """
    if not 0 <= start <= len(data) - TRAILER_BYTES:
        raise ValueError("the trailer is cut off")
    mark, crc = _TRAILER.unpack_from(data, start)
    return crc if mark == _UINT32 else None


def seal(message: bytes) -> bytes:
    """Return a message with its trailer."""
    return message + encode_trailer(crc32c(message))
