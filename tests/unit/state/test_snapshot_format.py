"""The bytes of keyed state: their layout, and refused contents."""

from __future__ import annotations

from zlib import crc32

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import CheckpointCorruptedError
from flinknet.state.descriptors import StateKind
from flinknet.state.snapshot_format import (
    HEAD,
    MAGIC,
    RUN,
    GroupPlace,
    KeyedHeader,
    StateMeta,
    parse_header,
    runs_of,
)

RUNS = RUN.pack(0, 1, 2) + b"ab" + RUN.pack(1, 2, 3) + b"cde"
HEADER = KeyedHeader(
    operator="Count",
    uid="count",
    max_parallelism=128,
    key_groups=range(64),
    types=((0, "Flight"),),
    states=(
        StateMeta("count", StateKind.VALUE, None, False),
        StateMeta("b", StateKind.LIST, "B", True),
    ),
    groups=(GroupPlace(3, 0, len(RUNS), crc32(RUNS)),),
)
PART = HEADER.to_bytes() + RUNS


def with_body(body: object, version: int = 1) -> bytes:
    packed: bytes = msgpack.packb(body)
    return HEAD.pack(MAGIC, version, len(packed), crc32(packed)) + packed


def test_a_header_says_what_follows() -> None:
    header, content = parse_header(memoryview(PART))
    assert header == HEADER
    assert content == RUNS
    runs = [
        (state, entries, bytes(run)) for state, entries, run in runs_of(header.groups[0], content)
    ]
    assert runs == [(0, 1, b"ab"), (1, 2, b"cde")]


@given(st.integers(0, len(PART) - 1), st.integers(1, 255))
def test_a_changed_byte_is_found(position: int, change: int) -> None:
    changed = bytearray(PART)
    changed[position] ^= change
    with pytest.raises(CheckpointCorruptedError):
        header, content = parse_header(memoryview(changed))
        list(runs_of(header.groups[0], content))


@given(st.integers(0, len(PART) - 1))
def test_a_cut_part_is_found(size: int) -> None:
    with pytest.raises(CheckpointCorruptedError):
        parse_header(memoryview(PART[:size]))


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CheckpointCorruptedError):
        parse_header(memoryview(data))


def test_a_newer_form_is_named() -> None:
    with pytest.raises(CheckpointCorruptedError, match="in form 2 cannot be read here"):
        parse_header(memoryview(with_body({}, version=2)))


@pytest.mark.parametrize(
    "change",
    [
        {"key_groups": [0]},
        {"key_groups": ["a", "b"]},
        {"max_parallelism": -1},
        {"groups": [[1, 2]]},
        {"states": [["a", "no kind", None, False]]},
        {"types": [1]},
    ],
    ids=repr,
)
def test_a_header_that_says_what_cannot_be(change: dict[str, object]) -> None:
    fields = msgpack.unpackb(HEADER.to_bytes()[HEAD.size :])
    with pytest.raises(CheckpointCorruptedError, match="its header is invalid"):
        parse_header(memoryview(with_body({**fields, **change})))


@pytest.mark.parametrize("group", [b"ab", RUN.pack(0, 1, 5) + b"abc"])
def test_a_group_that_ends_inside_a_run(group: bytes) -> None:
    with pytest.raises(CheckpointCorruptedError, match="key group 1 is truncated"):
        list(runs_of(GroupPlace(1, 0, len(group), crc32(group)), memoryview(group)))
