from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import ConfigurationError, SerializationError
from flinknet.records.key_groups import (
    check_key_groups,
    default_max_parallelism,
    key_group,
    key_group_range,
    key_hash,
    operator_index,
)
from tests.naming import spelled

GOLDEN: list[tuple[Any, int]] = [
    (0, 2904199831),
    (1, 2201457428),
    (-1, 1526413871),
    (2**63, 820686957),
    ("", 4239927415),
    ("JFK", 144948929),
    (b"JFK", 1511917317),
    (("JFK", "LAX"), 3734314626),
    (("EWR", 1), 1466778368),
    (1.5, 3365764450),
    (float("inf"), 2497837556),
    (1e300, 1099768476),
    ((("a",), ("b", 2.0)), 3971694592),
]
"""State is kept by key group, so a hash must never change."""

KEYS = st.recursive(
    st.integers(-(2**63), 2**64 - 1) | st.booleans() | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=3).map(tuple),
    max_leaves=5,
)

MAX_PARALLELISMS = st.integers(1, 300)


@pytest.mark.parametrize(("key", "value"), GOLDEN)
def test_a_hash_never_changes(key: object, value: int) -> None:
    """Q2."""
    assert key_hash(key) == value


def test_a_hash_does_not_depend_on_the_process() -> None:
    """Q2: Python's own hash of a string has a new salt in each process."""
    program = "from flinknet.records.key_groups import key_hash; print(key_hash(('JFK', b'x', 1)))"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True
    ).stdout
    assert int(printed) == key_hash(("JFK", b"x", 1))


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True),
        (0, 0.0, -0.0, False),
        (2**62, 2.0**62),
        (2**63, 2.0**63),
        (-(2**63), -(2.0**63)),
        (2**64 - 2048, float(2**64 - 2048)),
        (("a", 1), ("a", 1.0), ("a", True), ["a", 1]),
        ((1, (2.0,)), (1.0, (2,))),
        (b"key", bytearray(b"key")),
    ],
    ids=str,
)
def test_equal_keys_meet(equal: tuple[object, ...]) -> None:
    """A number may have any type, and a sequence may be a list or a tuple."""
    assert len({key_hash(key) for key in equal}) == 1


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_whole_float_meets_its_integer(number: float) -> None:
    whole = float(int(number))
    if -(2**63) <= whole < 2**64:
        assert key_hash(whole) == key_hash(int(whole))


def rewritten(key: Any) -> Any:
    """Return the same key with floats and lists."""
    if isinstance(key, tuple):
        return [rewritten(part) for part in key]
    if isinstance(key, int) and int(float(key)) == key:
        return float(key)
    return key


@given(KEYS)
def test_a_key_written_otherwise_has_the_same_hash(key: object) -> None:
    assert 0 <= key_hash(key) < 2**32
    assert key_hash(rewritten(key)) == key_hash(key)


@pytest.mark.parametrize(
    "key", [{1}, object(), {"a": 1}, (1, {2}), "\ud800", Ellipsis], ids=spelled
)
def test_a_key_that_cannot_be_hashed_is_refused(key: object) -> None:
    with pytest.raises(SerializationError, match=f"a key of type {type(key).__name__}"):
        key_hash(key)


def test_hashes_spread_over_groups_and_subtasks() -> None:
    """No group of 128 is empty or has over twice its share, with consecutive and with text keys."""
    for keys in (range(20_000), [f"key {number}" for number in range(20_000)]):
        counts = [0] * 128
        for key in keys:
            counts[key_group(key, 128)] += 1
        assert min(counts) > 0.6 * 20_000 / 128
        assert max(counts) < 1.5 * 20_000 / 128


@given(MAX_PARALLELISMS, st.data())
def test_ranges_share_out_the_groups(max_parallelism: int, data: st.DataObject) -> None:
    """Q2: every group has one owner, ranges follow each other, and sizes differ by at most one."""
    parallelism = data.draw(st.integers(1, max_parallelism))
    owned = [key_group_range(max_parallelism, parallelism, index) for index in range(parallelism)]
    assert [group for groups in owned for group in groups] == list(range(max_parallelism))
    assert max(map(len, owned)) - min(map(len, owned)) <= 1
    for index, groups in enumerate(owned):
        assert {operator_index(group, max_parallelism, parallelism) for group in groups} == {index}


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (128, 256), (170, 256), (171, 256), (172, 512),
     (21_845, 32_768), (30_000, 32_768)],
)  # fmt: skip
def test_the_default_maximum_is_a_power_of_two_over_one_and_a_half_times(
    parallelism: int, expected: int
) -> None:
    """Section 4: min(max(nextPow2(p + p/2), 128), 32768)."""
    assert default_max_parallelism(parallelism) == expected


def test_every_channel_needs_a_key_group() -> None:
    check_key_groups(4, 4)
    with pytest.raises(ConfigurationError, match="to 5 subtasks has only 4 key groups: raise"):
        check_key_groups(5, 4)
