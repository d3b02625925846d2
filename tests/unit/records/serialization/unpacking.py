"""The reference for the unpackers, and their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
from hypothesis import example, given
from hypothesis import strategies as st
from msgpack import ExtraData, ExtType, Timestamp

from flinknet.records.serialization.elements import INCOMPLETE
from flinknet.records.serialization.serializer import UNPACK_ERRORS
from tests.plain_module import plain_module
from tests.unit.records.serialization.scalars import scalars

BYTES_MAX, ELEMENTS_MAX = 70_000, 66_000
KNOWN_EXTENSION = 5


def read_extension(code: int, content: bytes) -> Any:
    if code != KNOWN_EXTENSION:
        raise ValueError(f"{code} is not known")
    return "extension", content


PlainUnpacker: Any = plain_module("flinknet.records.serialization.c_unpacker").CUnpacker
unpack_in_c = PlainUnpacker(BYTES_MAX, ELEMENTS_MAX, read_extension).unpack

VALUES = (
    scalars(300, 300)
    | st.builds(Timestamp, st.integers(-(2**40), 2**40), st.integers(0, 999_999_999))
    | st.builds(ExtType, st.sampled_from((KNOWN_EXTENSION, 6)), st.binary(max_size=300))
)
RECORDS = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.dictionaries(
            st.text(max_size=5) | st.integers(0, 9) | st.tuples(st.none()), inner, max_size=20
        )
    ),
    max_leaves=30,
)
PACKED = RECORDS.map(msgpack.packb)


def changed(content: bytes, cut: int, more: bytes) -> bytes:
    return content[: len(content) - cut % (len(content) + 1)] + more


CHANGED = st.builds(changed, PACKED, st.integers(0, 1000), st.binary(max_size=3))
"""Packed records that are then cut anywhere, or continued, or both."""


def given_any_bytes(test: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Give a test any few bytes, and some with each kind of fault."""
    for content in (
        b"",
        b"\xc1",
        b"\x81\x90\x01",
        b"\x81\x80\x01",
        b"\x82\xa1a\x01\xa1a\x02",
        b"\xa1\xff",
        b"\xa3\xed\xa0\x80",
        b"\x81\xa3\xed\xa0\x80\x01",
        b"\xd7\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\x00\x00\x00\x02\x01",
    ):
        test = example(content=content)(test)
    return given(content=st.binary(max_size=40))(test)


def outcome(unpack_value: Any, content: bytes) -> Any:
    """Return the value with its type, or that there is none, and whether bytes are missing."""
    try:
        value = unpack_value(content)
    except ExtraData as error:
        return "more", repr(error.unpacked), error.extra
    except UNPACK_ERRORS as error:
        return "refused", str(error) == INCOMPLETE
    return repr(value)


def assert_same_but_for_the_fault(unpack_value: Any, content: bytes) -> None:
    """Check that both give the value or both refuse; they may report different faults."""
    got, expected = outcome(unpack_value, content), outcome(unpack_in_c, content)
    assert got[0] == expected[0] == "refused" or got == expected


HEADS = {
    "short array": (b"\x91", b""),
    "array of two": (b"\x92\x01", b""),
    "array and what is behind": (b"\x95\x01\x02", b"\xa1a\xc0"),
    "array with two bytes of length": (b"\xdc\x00\x02\x01", b""),
    "array with four bytes of length": (b"\xdd\x00\x00\x00\x02", b"\xcd\x01\x02"),
    "short map": (b"\x81\xa1k", b""),
    "map and what is behind": (b"\x82\x01\x90\x02", b""),
    "map with two bytes of length": (b"\xde\x00\x02\x01", b"\x02\x80"),
    "map with four bytes of length": (b"\xdf\x00\x00\x00\x01\xc3", b""),
}
"""The bytes before and behind an element."""


def flat(value: Any) -> list[Any]:
    """Return all parts of a value, one after the other, to compare values that are too deep for
    ``==``."""
    found, ahead = [], [value]
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict):
            found.append(("map", len(value)))
            ahead += [each for item in value.items() for each in item]
        elif isinstance(value, tuple):
            found.append(("array", len(value)))
            ahead += value
        else:
            found.append(value)
    return found
