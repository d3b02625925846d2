"""Small records that are packed in place: the same bytes, wherever a buffer ends."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import SerializationError
from tests.unit.arrangements import content_of, run
from tests.unit.records.serialization.flat_records import FLAT, NUMBERS, OTHERS
from tests.unit.records.writing import Arranged

RECORDS = st.lists(FLAT | NUMBERS | OTHERS, max_size=30)
LENGTHS = [0, 1, 2, 3, 7, 8, 9, 15, 16, 30, 31, 32, 33, 255, 256]


def written(records: list[Any], segment_bytes: int, *, together: bool) -> list[tuple[bytes, int]]:
    """Write records; return the content of each buffer and the number of its whole records."""
    made = Arranged(segment_bytes=segment_bytes, segments=4_096)
    if together:
        run(made.writer.emit_many(records))
    else:
        made.emit(*records)
    made.writer.flush()
    taken = []
    while (polled := made.views[0].poll()) is not None:
        taken.append((content_of(polled.buffer), polled.buffer.records))
        polled.buffer.recycle()
    assert made.writer.records_out == len(records)
    made.close()
    return taken


def assert_written(records: list[Any], segment_bytes: int) -> None:
    packed = [msgpack.packb(record) for record in records]
    ends = [0, *accumulate(map(len, packed))]
    for together in (False, True):
        buffers = written(records, segment_bytes, together=together)
        assert b"".join(content for content, _ in buffers) == b"".join(packed)
        start = 0
        for content, whole in buffers:
            end = start + len(content)
            assert whole == sum(start <= first and last <= end for first, last in pairwise(ends))
            start = end


@given(records=RECORDS, segment_bytes=st.integers(16, 300))
def test_any_records(records: list[Any], segment_bytes: int) -> None:
    assert_written(records, segment_bytes)


@pytest.mark.parametrize("bits", range(65))
def test_numbers(bits: int) -> None:
    """This covers the numbers around every power of two, where the form or the number of digits
    changes."""
    numbers = {2**bits + more for more in (-2, -1, 0, 1)} | {
        -(2**bits) + more for more in (-1, 0, 1)
    }
    numbers = {number for number in numbers if -(2**63) <= number < 2**64}
    for number in numbers:
        assert_written([number, (number,), (number, 0.5, number)], 1_024)


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length: int) -> None:
    assert_written(["a" * length, ("a" * length, 1), ("ä" * length,), tuple(range(length))], 4_096)


@pytest.mark.parametrize("segment_bytes", range(16, 80))
def test_wherever_a_buffer_ends(segment_bytes: int) -> None:
    record = (300, 2**31, 0.5, "text", None, True, -1)
    assert_written([record] * 12, segment_bytes)


class Number(int):
    """An int subclass, which would arrive as its base class."""


def test_values_that_the_packer_refuses_are_refused() -> None:
    made = Arranged(segment_bytes=1_024)
    for record in (Number(5), (1, Number(5))):
        with pytest.raises(SerializationError, match="Number is derived from int"):
            made.emit(record)
    made.emit((1, 2))
    made.writer.flush()
    assert made.take() == [(1, 2)]
    made.close()
