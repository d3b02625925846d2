"""Large records: their forms, and how their first bytes are read."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Literal

import msgpack
import pytest

from flinknet.records.serialization.large_record import (
    LARGE_RECORD_BYTES,
    kept_form,
    large_form,
    large_parts,
    large_value,
)
from flinknet.records.serialization.packer import RecordPacker

SIZES = [16_383, 16_384, 65_535, 65_536, 200_000]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview], ids=["bytes", "array", "view"])
@pytest.mark.parametrize("size", SIZES)
def test_large_bytes_are_what_the_packer_makes_of_them(
    size: int, kind: Callable[[bytes], Any]
) -> None:
    record = kind(Random(size).randbytes(size))
    form = large_form(record)
    assert (form is not None) == (size >= 16_384)
    if form is not None:
        assert b"".join(form) == RecordPacker().pack(record)


@pytest.mark.parametrize("items", ["B", "b", "i", "d"])
def test_a_large_view_of_any_items_is_its_bytes(items: Literal["B", "b", "i", "d"]) -> None:
    """This includes views of several dimensions. Its length counts bytes, not items."""
    view = memoryview(Random(items).randbytes(40_000)).cast(items)
    shaped = view.cast("B").cast(items, [len(view) // 4, 4])
    for record in (view, shaped):
        form = large_form(record)
        assert form is not None
        assert b"".join(form) == RecordPacker().pack(record)


@pytest.mark.parametrize(
    "record",
    ["x" * 50_000, [b"x" * 50_000], (bytearray(50_000),), {"key": b"x" * 50_000}, b"", bytearray(),
     memoryview(b""), memoryview(bytes(50_000))[::2], None, 1],
    ids=lambda record: type(record).__name__,
)  # fmt: skip
def test_nothing_else_has_a_large_form(record: object) -> None:
    assert large_form(record) is None


def test_an_arrow_batch_has_a_large_form_however_short_it_is() -> None:
    """Arrow has its bytes already.

    The packer makes the same bytes, except for the shortest head.
    """
    pyarrow = pytest.importorskip("pyarrow")
    for rows in (1, 10_000):
        batch = pyarrow.record_batch({"a": list(range(rows))})
        form = large_form(batch)
        assert form is not None
        data, packed = b"".join(form), RecordPacker().pack(batch)
        assert msgpack.unpackb(data) == msgpack.unpackb(packed)
        parts = large_parts(data, 0, len(data))
        assert (parts is not None) == (len(data) >= 16_384)
        head_bytes, length = parts or (6, len(data) - 6)
        assert head_bytes + length == len(data)
        assert large_value(data[:head_bytes], data[head_bytes:]).equals(batch)


@pytest.mark.parametrize("size", SIZES[1:])
def test_the_first_bytes_say_how_long_it_is(size: int) -> None:
    record = Random(size).randbytes(size)
    data = RecordPacker().pack(record)
    head_bytes = len(data) - size
    for start in (0, 5):
        with memoryview(b"x" * start + data + b"behind") as view:
            for end in (6, 7, len(data), len(data) + 6):
                assert large_parts(view, start, start + end) == (head_bytes, size)
            for end in range(6):
                assert large_parts(view, start, start + end) is None
    assert large_value(data[:head_bytes], record) is record


@pytest.mark.parametrize(
    "head",
    [
        b"\xc4\xff", b"\xc5\x3f\xfc", b"\xc6\x00\x00\x3f\xfa", b"\xc9\x00\x00\x3f\xf9\x0a",
        b"\xc9\x00\x01\x00\x00\x00", b"\xc9\x00\x01\x00\x00\xff", b"\xc8\xff\xff\x0a",
        b"\xdb\x00\x01\x00\x00", b"\xda\xff\xff", b"\x93", b"\x01",
    ],
    ids=bytes.hex,
)  # fmt: skip
def test_nothing_else_is_taken_for_a_large_record(head: bytes) -> None:
    """This covers shorter records, and other extensions and text, which need further checks."""
    data = head + bytes(20)
    assert large_parts(data, 0, len(data)) is None


@pytest.mark.parametrize("make", [bytes, bytearray, lambda content: memoryview(bytearray(content))])
def test_the_pieces_of_a_kept_record_do_not_change(make: Callable[[bytes], Any]) -> None:
    content = Random(1).randbytes(LARGE_RECORD_BYTES)
    record = make(content)
    pieces = kept_form(record)
    assert pieces is not None
    if make is not bytes:
        record[:4] = bytes(4)
    assert b"".join(pieces) == RecordPacker().pack(content)
