"""Checksums: the trailer of each message on a connection with checksums.

A trailer is one msgpack integer of fixed width. It holds the CRC32C (Castagnoli) of the whole
message before it, header and body. TCP's 16-bit checksum misses one damaged packet in 65,536, and
proxies, drivers and memory can damage data outside of packets.

The compiled version (``checksum.pyx``) reads the bytes in place, with the CRC32C instructions of
the processor. Without such instructions it calls the same library as this version.
"""

from __future__ import annotations

import warnings
from struct import Struct

with warnings.catch_warnings():
    # The library warns that it is slow without its C extension, even where Python is compiled.
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
    """Extend the CRC32C ``crc`` of earlier bytes over ``data``.

    The library only takes bytes, so writable memory is copied first.
    """
    result: int = _extend(crc, bytes(data))
    return result


def crc32c_between(data: bytes | memoryview, start: int, end: int, crc: int = 0) -> int:
    """Extend the CRC32C ``crc`` of earlier bytes over ``data[start:end]``.

    Raises:
        ValueError: If the range is not inside ``data``.
    """
    if not 0 <= start <= end <= len(data):
        raise ValueError(f"the range {start} to {end} is outside of {len(data)} bytes")
    return crc32c(data[start:end], crc)


def make_trailer(header: bytes | memoryview, body: bytes | memoryview) -> bytes:
    """Return the trailer of a message in two pieces."""
    return encode_trailer(crc32c(body, crc32c(header)))


def encode_trailer(crc: int) -> bytes:
    """Encode the trailer for a checksum."""
    return _TRAILER.pack(_UINT32, crc)


def decode_trailer(data: bytes | memoryview, start: int) -> int | None:
    """Return the checksum in a trailer, or None if the bytes are not a trailer.

    Raises:
        ValueError: If it is cut off.
    """
    if not 0 <= start <= len(data) - TRAILER_BYTES:
        raise ValueError("the trailer is cut off")
    mark, crc = _TRAILER.unpack_from(data, start)
    return crc if mark == _UINT32 else None


def seal(message: bytes) -> bytes:
    """Return a message with its trailer."""
    return message + encode_trailer(crc32c(message))
