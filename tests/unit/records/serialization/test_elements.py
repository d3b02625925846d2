from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.records.serialization.elements import check_elements

SCALARS = [
    None, True, 5, -5, 200, -200, 70_000, -70_000, 2**40, -(2**40), 2**63, 1.5, "", "short", b"",
    "x" * 31, "x" * 32, "x" * 300, "x" * 70_000, b"x" * 32, b"x" * 300, b"x" * 70_000,
    msgpack.Timestamp(1), msgpack.Timestamp(2**33), msgpack.Timestamp(2**35, 1),
    *(msgpack.ExtType(11, b"x" * size) for size in (0, 1, 2, 3, 4, 8, 16, 17, 300, 70_000)),
]  # fmt: skip


def is_within(record: Any, elements_max: int) -> bool:
    try:
        check_elements(msgpack.packb(record), elements_max)
    except ValueError:
        return False
    return True


def elements(record: Any) -> int:
    """Count the elements of a record in its objects."""
    if isinstance(record, dict):
        return len(record) + sum(map(elements, record)) + sum(map(elements, record.values()))
    if isinstance(record, list | tuple) and not isinstance(record, msgpack.ExtType):
        return len(record) + sum(map(elements, record))
    return 0


def test_every_form_of_a_value_is_passed_over() -> None:
    """Skipping one byte too many or too few would misread the bytes behind."""
    record = [[scalar, [1, 2]] for scalar in SCALARS] + [["the", {"end": [3]}]]
    assert elements(record) == 5 * len(SCALARS) + 5
    assert is_within(record, elements(record))
    assert not is_within(record, elements(record) - 1)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 300, 70_000])
def test_every_form_of_a_container_is_counted(size: int) -> None:
    for record in ([None] * size, dict.fromkeys(range(size)), [[], {}, [None] * size]):
        count = elements(record)
        assert is_within(record, count)
        assert not count or not is_within(record, count - 1)


@given(
    st.recursive(
        st.integers(-(2**63), 2**64 - 1) | st.text(max_size=40) | st.binary(max_size=40),
        lambda inner: st.lists(inner) | st.dictionaries(st.integers(0, 300), inner),
        max_leaves=30,
    )
)
def test_any_record_is_counted(record: Any) -> None:
    count = elements(record)
    assert is_within(record, count)
    assert not count or not is_within(record, count - 1)


def test_a_record_is_counted_where_it_lies() -> None:
    data = msgpack.packb([["x" * 40] * 3] * 4)
    with mmap.mmap(-1, len(data)) as mapping:
        mapping[:] = data
        for record in (data, bytearray(data), memoryview(data), mapping):
            check_elements(record, 16)
            with pytest.raises(ValueError, match="more than 15"):
                check_elements(record, 15)


@given(st.binary(max_size=100))
def test_any_bytes_end(data: bytes) -> None:
    """This holds for any bytes; the unpacker reports their error."""
    with suppress(ValueError):
        check_elements(data, 1_000)


@pytest.mark.parametrize("code", [1, 7, 10])
def test_elements_in_an_extension_count(code: int) -> None:
    """This holds in each of its forms.

    A set of empty maps takes as much memory as an array of them.
    """
    for length in (0, 1, 3, 7, 15, 14, 200, 70_000):
        content = msgpack.packb([{}] * length)
        record = [msgpack.ExtType(code, content), [1, 2], {"the": [msgpack.ExtType(code, content)]}]
        number = 2 * length + 3 + 2 + 1 + 1
        assert is_within(record, number)
        assert not is_within(record, number - 1)
