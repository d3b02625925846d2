"""The content of a large record, in both of its forms."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from flinknet.compiled_modules import COMPILED
from flinknet.records.serialization.large_content import LargeContent
from tests.plain_module import plain_module

Make = Callable[[int], LargeContent]


@pytest.fixture(params=["plain"] + ["compiled"] * COMPILED)
def make(request: pytest.FixtureRequest) -> Make:
    """Return the constructor of one of the forms."""
    if request.param == "compiled":
        return LargeContent
    made: Make = plain_module("flinknet.records.serialization.large_content").LargeContent
    return made


def test_pieces_become_the_content(make: Make) -> None:
    """They may lie in any memory, which may change afterwards."""
    wanted = Random(1).randbytes(100_000)
    content = make(len(wanted))
    start = 0
    for size in (0, 1, 40_000, 0, 59_998, 1):
        piece = bytearray(b"before" + wanted[start : start + size] + b"behind")
        with memoryview(piece) as data:
            content.append(data, 6, 6 + size)
        piece[:] = bytes(len(piece))
        start += size
        assert (content.size, content.length) == (start, len(wanted))
        assert content.part(0, start) == wanted[:start]
        assert content.part(start // 3, start // 2) == wanted[start // 3 : start // 2]
        assert content.part(start // 2, len(wanted)) == wanted[start // 2 : start]
    taken = content.take()
    assert type(taken) is bytes
    assert taken == wanted


def test_taken_content_belongs_to_the_caller(make: Make) -> None:
    """The caller may keep it, as it is not written again."""
    content = make(3)
    content.append(memoryview(b"abc"), 0, 3)
    taken = content.take()
    assert (content.size, content.length, content.part(0, 9), content.take()) == (0, 0, b"", b"")
    with pytest.raises(ValueError, match="do not fit"):
        content.append(memoryview(b"xyz"), 0, 1)
    assert taken == b"abc"


def test_incomplete_content_is_not_returned(make: Make) -> None:
    content = make(5)
    content.append(memoryview(b"abcd"), 0, 4)
    with pytest.raises(ValueError, match="4 of 5 bytes have arrived"):
        content.take()
    content.append(memoryview(b"e"), 0, 1)
    assert content.take() == b"abcde"


@pytest.mark.parametrize("bounds", [(0, 4), (-1, 1), (2, 1), (3, 6), (5, 6)])
def test_a_piece_that_does_not_fit_is_refused(make: Make, bounds: tuple[int, int]) -> None:
    """A piece may exceed the missing bytes, or its bounds may lie outside of it.

    The content does not change then.
    """
    content = make(5)
    content.append(memoryview(b"ab"), 0, 2)
    with pytest.raises(ValueError, match="of 5 do not fit: 2 of 5 have arrived"):
        content.append(memoryview(b"vwxyz"), *bounds)
    assert content.part(0, 5) == b"ab"
