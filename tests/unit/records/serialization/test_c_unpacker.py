"""Unpacking with msgpack's library, and that the compiled form is called in the same way."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.compiled_modules import COMPILED
from flinknet.records.serialization.c_unpacker import CUnpacker
from flinknet.records.serialization.serializer import UNPACK_ERRORS
from tests.plain_module import plain_module

PLAIN: type[CUnpacker] = plain_module("flinknet.records.serialization.c_unpacker").CUnpacker
FORMS = {"plain": PLAIN, "as it runs": CUnpacker}


def read_extension(code: int, content: bytes) -> Any:
    return code, content


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
def test_arrays_are_tuples_and_maps_have_any_keys(make: type[CUnpacker]) -> None:
    unpacker = make(100, 100, read_extension)
    assert unpacker.unpack(b"\x92\x91\x01\x82\x01\xa1a\x91\x02\xc3") == ((1,), {1: "a", (2,): True})
    assert unpacker.unpack(b"\xd4\x07x") == (7, b"x")


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    "content",
    [
        b"\xa3abc",
        b"\xc4\x03abc",
        b"\x93\x01\x01\x01",
        b"\x82\x01\x01\x02\x02",
        b"\xc7\x03\x05abc",
        b"",
    ],
    ids=["text", "bytes", "array", "map", "extension", "nothing"],
)
def test_records_over_a_limit_are_refused(make: type[CUnpacker], content: bytes) -> None:
    unpacker = make(2, 2, read_extension, 1)
    with pytest.raises(UNPACK_ERRORS):
        unpacker.unpack(content)


def test_the_plain_form_leaves_whole_records_to_others() -> None:
    assert PLAIN(1, 1, read_extension).records is None
    assert (CUnpacker(1, 1, read_extension).records is not None) is COMPILED
