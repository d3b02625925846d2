"""The packer in Python gives the bytes of the one in C, and refuses what that refuses; kinds of
records are in ``test_packer.py``."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flinknet.interpreter import COMPILES_PYTHON
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
