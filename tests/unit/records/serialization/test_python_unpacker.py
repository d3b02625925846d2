"""The unpacker in Python makes what msgpack's makes, and refuses what that refuses."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgpack import ExtType, StackError

from flinknet.records.serialization.python_unpacker import PythonUnpacker
from tests.unit.records.serialization.unpacking import (
    BYTES_MAX,
    CHANGED,
    ELEMENTS_MAX,
    HEADS,
    KNOWN_EXTENSION,
    PACKED,
    assert_same_but_for_the_fault,
    flat,
    given_any_bytes,
    outcome,
    read_extension,
    unpack_in_c,
)

unpack = PythonUnpacker(BYTES_MAX, ELEMENTS_MAX, read_extension).unpack


@given(content=PACKED)
def test_any_record(content: bytes) -> None:
    assert outcome(unpack, content) == outcome(unpack_in_c, content)


@given(content=CHANGED)
def test_a_record_that_is_cut_or_goes_on(content: bytes) -> None:
    assert outcome(unpack, content) == outcome(unpack_in_c, content)


@given_any_bytes
def test_any_bytes(content: bytes) -> None:
    assert_same_but_for_the_fault(unpack, content)


@example(rest=bytes(range(20)))
@given(rest=st.binary(max_size=20))
def test_every_first_byte(rest: bytes) -> None:
    for head in range(256):
        assert_same_but_for_the_fault(unpack, bytes((head,)) + rest)


@pytest.mark.parametrize("length", [15, 16, 255, 256, 65_535, 65_536])
def test_lengths(length: int) -> None:
    numbers = list(range(length))
    for record in ("a" * length, b"a" * length, numbers, dict(zip(numbers, numbers, strict=True))):
        content = msgpack.packb(record)
        assert unpack(content) == unpack_in_c(content)
        assert outcome(unpack, content[:-1]) == ("refused", True)


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ("a" * (BYTES_MAX + 1), "str"),
        (b"a" * (BYTES_MAX + 1), "bin"),
        (ExtType(KNOWN_EXTENSION, bytes(BYTES_MAX + 1)), "ext"),
    ],
    ids=["str", "bin", "ext"],
)
def test_what_is_too_long_is_refused(record: Any, kind: str) -> None:
    content = msgpack.packb(record)
    for unpack_value in (unpack, unpack_in_c):
        with pytest.raises(ValueError, match=rf"exceeds max_{kind}_len\({BYTES_MAX}\)"):
            unpack_value(content)


@pytest.mark.parametrize("head", [b"\xdd", b"\xdf"])
def test_what_has_too_many_elements_is_refused(head: bytes) -> None:
    content = head + (ELEMENTS_MAX + 1).to_bytes(4, "big") + b"\x00" * 2 * (ELEMENTS_MAX + 1)
    with pytest.raises(ValueError, match=rf"exceeds max_(array|map)_len\({ELEMENTS_MAX}\)"):
        unpack(content)


def test_what_is_too_deep_is_refused() -> None:
    with pytest.raises(StackError):
        unpack(b"\x91" * 60_000 + b"\x00")


@pytest.mark.parametrize(("before", "behind"), HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("levels", [98, 99, 100, 101, 102, 600, 1_023])
def test_what_is_far_inside(levels: int, before: bytes, behind: bytes) -> None:
    """Also if bytes are missing there, or one stands there that nothing begins with."""
    content = before * levels + b"\x05" + behind * levels
    assert flat(unpack(content)) == flat(unpack_in_c(content))
    for wrong in (content[: len(before) * levels], before * levels + b"\xc1" + behind * levels):
        assert outcome(unpack, wrong) == outcome(unpack_in_c, wrong)


@pytest.mark.parametrize(("before", "behind"), HEADS.values(), ids=HEADS)
def test_a_level_too_many_is_refused(before: bytes, behind: bytes) -> None:
    with pytest.raises(StackError):
        unpack(before * 1_025 + b"\x05" + behind * 1_025)


@pytest.mark.parametrize(("head", "kind"), [(b"\xdd", "array"), (b"\xdf", "map")])
def test_elements_are_counted_far_inside(head: bytes, kind: str) -> None:
    content = b"\x91" * 500 + head + (ELEMENTS_MAX + 1).to_bytes(4, "big")
    with pytest.raises(ValueError, match=rf"exceeds max_{kind}_len\({ELEMENTS_MAX}\)"):
        unpack(content)


class Endless:
    """A key whose hash asks for itself."""

    def __hash__(self) -> int:
        return hash((self,))


def test_a_stack_that_ends_is_an_error_of_unpacking() -> None:
    def endless(code: int, content: bytes) -> Endless:
        return Endless()

    with pytest.raises(StackError):
        PythonUnpacker(BYTES_MAX, ELEMENTS_MAX, endless).unpack(b"\x81\xd4\x05\x00\x01")


def test_memory_is_not_looked_at_later() -> None:
    memory = bytearray(b"\x92\xa2ab\xc4\x02cd")
    value = unpack(memoryview(memory))
    memory[:] = bytes(len(memory))
    assert value == ("ab", b"cd")
