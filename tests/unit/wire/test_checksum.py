"""The checksum and the trailer that holds it, in their plain and their compiled form."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from types import ModuleType
from typing import Any

import google_crc32c
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.compiled_modules import COMPILED
from flinknet.wire import checksum
from flinknet.wire.checksum import TRAILER_BYTES
from tests.plain_module import plain_module

PLAIN = plain_module("flinknet.wire.checksum")
FORMS = [PLAIN] + [checksum] * COMPILED
SOME_BYTES = Random(39).randbytes(20_000)

form = pytest.mark.parametrize("form", FORMS, ids=["plain", "compiled"][: len(FORMS)])


def said_by_the_library(data: bytes, crc: int = 0) -> int:
    result: int = google_crc32c.extend(crc, data)
    return result


@form
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
def test_the_checksum_is_castagnolis(form: ModuleType, data: bytes, crc: int) -> None:
    """It gives the check value, and the vectors of RFC 3720."""
    assert form.crc32c(data) == crc
    assert form.crc32c(memoryview(bytearray(data))) == crc
    assert form.crc32c(data[5:], form.crc32c(data[:5])) == crc


@form
def test_every_length_at_every_alignment_has_the_checksum_of_the_library(form: ModuleType) -> None:
    memory = memoryview(bytearray(SOME_BYTES))
    for start in range(9):
        for size in range(301):
            part = memory[start : start + size]
            assert form.crc32c(part) == said_by_the_library(bytes(part)), (start, size)


@form
@pytest.mark.parametrize("lanes", [3, 6, 72])
def test_as_many_bytes_as_fill_lanes_have_the_checksum_of_the_library(
    form: ModuleType, lanes: int
) -> None:
    """Lengths just below and above a multiple of the lanes are included."""
    for size in range(lanes * 256 - 9, lanes * 256 + 10):
        part = SOME_BYTES[3 : 3 + size]
        assert form.crc32c(part, 7) == said_by_the_library(part, 7), size


@form
@given(
    cuts=st.lists(st.integers(0, len(SOME_BYTES)), min_size=2, max_size=6),
    crc=st.integers(0, 2**32 - 1),
)
def test_a_checksum_goes_on_from_part_to_part(form: ModuleType, cuts: list[int], crc: int) -> None:
    cuts.sort()
    whole = said_by_the_library(SOME_BYTES[cuts[0] : cuts[-1]], crc)
    for start, end in pairwise(cuts):
        crc = form.crc32c_between(SOME_BYTES, start, end, crc)
    assert crc == whole


@form
@pytest.mark.parametrize(("start", "end"), [(-1, 3), (2, 1), (0, 10), (10, 10)])
def test_a_range_outside_of_the_memory_has_no_checksum(
    form: ModuleType, start: int, end: int
) -> None:
    with pytest.raises(ValueError, match=f"the range {start} to {end} is outside of 9 bytes"):
        form.crc32c_between(b"123456789", start, end)


@form
@pytest.mark.parametrize("crc", [0, 0x80, 0xE3069283, 2**32 - 1])
def test_a_trailer_is_one_msgpack_integer_of_fixed_width(form: ModuleType, crc: int) -> None:
    trailer = form.encode_trailer(crc)
    assert len(trailer) == form.TRAILER_BYTES == TRAILER_BYTES
    assert msgpack.unpackb(trailer) == crc
    assert form.decode_trailer(memoryview(b"before" + trailer), 6) == crc


@form
def test_an_integer_of_another_form_is_no_trailer(form: ModuleType) -> None:
    """Every other first byte is refused as well."""
    for mark in set(range(256)) - {0xCE}:
        assert form.decode_trailer(memoryview(bytes([mark]) + bytes(4)), 0) is None


@form
@pytest.mark.parametrize("start", [-1, 1, 6])
def test_a_trailer_that_is_cut_off_is_not_read(form: ModuleType, start: int) -> None:
    with pytest.raises(ValueError, match="cut off"):
        form.decode_trailer(form.encode_trailer(1), start)


@form
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_sealed_message_has_its_checksum_behind_it(form: ModuleType, kind: Any) -> None:
    """The message may be given in one piece or in two."""
    trailer = bytes.fromhex("cee3069283")
    assert form.seal(b"123456789") == b"123456789" + trailer
    assert form.make_trailer(kind(b"1234"), kind(b"56789")) == trailer
