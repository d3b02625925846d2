"""The checksum itself, and the trailer that says it."""

from __future__ import annotations

import msgpack
import pytest

from flinknet.wire.checksum import TRAILER_BYTES, crc32c, decode_trailer, encode_trailer, seal


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_the_checksum_is_castagnolis(data: bytes, crc: int) -> None:
    """The check value, and the vectors of RFC 3720."""
    assert crc32c(data) == crc
    assert crc32c(memoryview(bytearray(data))) == crc
    assert crc32c(data[5:], crc32c(data[:5])) == crc


@pytest.mark.parametrize("crc", [0, 0x80, 0xE3069283, 2**32 - 1])
def test_a_trailer_is_one_msgpack_integer_of_fixed_width(crc: int) -> None:
    trailer = encode_trailer(crc)
    assert len(trailer) == TRAILER_BYTES
    assert msgpack.unpackb(trailer) == crc
    assert decode_trailer(memoryview(b"before" + trailer), 6) == crc


def test_an_integer_of_another_form_is_no_trailer() -> None:
    """Nor is anything else: the checksum of what came before is not said there."""
    for mark in set(range(256)) - {0xCE}:
        assert decode_trailer(memoryview(bytes([mark]) + bytes(4)), 0) is None


def test_a_sealed_message_has_its_checksum_behind_it() -> None:
    assert seal(b"123456789") == b"123456789" + bytes.fromhex("cee3069283")
