"""The packer in Python gives the bytes of the one in C, and refuses what that refuses; kinds of
records are in ``test_packer.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flinknet.interpreter import COMPILES_PYTHON
from flinknet.records.serialization.extension_types import NESTING_MAX
from flinknet.records.serialization.packer import RecordPacker
from flinknet.records.serialization.python_packer import PythonPacker
from flinknet.records.serialization.record_types import RecordTypes
from tests.unit.records.serialization.record_values import TYPES, Frozen, Reading

pytestmark = pytest.mark.skipif(COMPILES_PYTHON, reason="there is no packer in C to compare with")

pack = PythonPacker(RecordTypes(TYPES)).pack
pack_in_c = RecordPacker(TYPES).pack

ZONES = st.none() | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(
    lambda offset: timezone(timedelta(minutes=offset // timedelta(minutes=1)))
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**65)
    | st.floats()
    | st.text(max_size=300)
    | st.binary(max_size=300)
    | st.datetimes(timezones=ZONES)
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals()
)
RECORDS = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.lists(inner, max_size=20).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers() | st.dates(), inner, max_size=20)
        | st.frozensets(st.integers() | st.dates() | st.builds(Frozen, st.integers()), max_size=1)
        | st.builds(Reading, st.text(max_size=5), inner)
    ),
    max_leaves=30,
)


BORDERS = [
    sign * 2**bits + more
    for bits in (0, 5, 7, 8, 15, 16, 31, 32, 63, 64)
    for sign in (1, -1)
    for more in (-1, 0, 1)
]
LENGTHS = (0, 1, 2, 3, 4, 5, 15, 16, 31, 32, 255, 256, 65_535, 65_536)


def outcome(pack_value: Any, value: Any) -> Any:
    try:
        return pack_value(value)
    except Exception:
        return "refused"


@pytest.mark.parametrize("value", BORDERS)
def test_borders(value: Any) -> None:
    assert outcome(pack, value) == outcome(pack_in_c, value)


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length: int) -> None:
    numbers = range(length)
    for value in (
        "a" * length,
        "é" * length,
        b"a" * length,
        bytearray(length),
        memoryview(bytes(length)),
        tuple(numbers),
        list(numbers),
        dict(zip(numbers, numbers, strict=True)),
    ):
        assert pack(value) == pack_in_c(value)


@given(record=RECORDS)
@example(record=float("nan"))
@example(record=-0.0)
def test_any_record(record: Any) -> None:
    assert outcome(pack, record) == outcome(pack_in_c, record)


def test_what_no_length_can_say_is_refused() -> None:
    """The memory is never touched, so it takes none."""
    with pytest.raises(ValueError, match="4294967296 elements or bytes are more than msgpack can"):
        pack(bytes(2**32))


def test_a_view_with_gaps_is_refused() -> None:
    with pytest.raises(BufferError, match="not C-contiguous"):
        pack(memoryview(b"abcd")[::2])


def nested(levels: int, kinds: Sequence[Callable[[Any], Any]]) -> Any:
    """A record with so many levels, which are of each of the kinds in turn."""
    record: Any = None
    for level in range(levels):
        record = kinds[level % len(kinds)](record)
    return record


SHAPES: dict[str, Sequence[Callable[[Any], Any]]] = {
    "lists": [lambda each: [each]],
    "maps": [lambda each: {"a": each}],
    "maps of numbers": [lambda each: {1: each}],
    "long arrays": [lambda each: (*range(20), each, "behind")],
    "all": [
        lambda each: (each, 5),
        lambda each: {1: 2, "a": each, 3: b"x"},
        lambda each: [Frozen(1), each, 1.5],
    ],
}


@pytest.mark.parametrize("kinds", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("levels", [99, 100, 101, 102, NESTING_MAX])
def test_what_is_far_inside_is_packed_alike(
    levels: int, kinds: Sequence[Callable[[Any], Any]]
) -> None:
    record = nested(levels, kinds)
    assert pack(record) == pack_in_c(record)


@pytest.mark.parametrize("kinds", SHAPES.values(), ids=SHAPES)
def test_a_level_too_many_is_refused(kinds: Sequence[Callable[[Any], Any]]) -> None:
    with pytest.raises(RecursionError, match=f"nested more than {NESTING_MAX} levels deep"):
        pack(nested(NESTING_MAX + 1, kinds))
