"""Operator state is written to bytes, and redistributed as Flink does."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.datastream import ListStateDescriptor, MapStateDescriptor
from flinknet.errors import CheckpointCorruptedError, StateError
from flinknet.state.operator_snapshot import (
    HEAD,
    MAGIC,
    SLICE_ELEMENTS,
    OperatorStateSnapshot,
    redistribute,
    restore_operator_state,
)
from flinknet.state.operator_state import OperatorStateStore, StateMode

POSITIONS = ListStateDescriptor("positions")
RULES = MapStateDescriptor("rules")


def written(store: OperatorStateStore) -> bytes:
    snapshot = OperatorStateSnapshot(store, "Source", "flights")
    for _ in snapshot.slices():
        pass
    return b"".join(snapshot.pieces())


def read(parts: list[bytes], index: int, parallelism: int) -> OperatorStateStore:
    store = OperatorStateStore()
    for _ in restore_operator_state(store, "flights", parts, index, parallelism):
        pass
    return store


def subtask(*elements: Any, **rules: int) -> bytes:
    store = OperatorStateStore()
    store.get_list_state(POSITIONS).add_all(elements)
    store.get_broadcast_state(RULES).put_all(rules)
    return written(store)


def positions(parts: list[bytes], parallelism: int) -> list[list[Any]]:
    stores = [read(parts, index, parallelism) for index in range(parallelism)]
    return [store.get_list_state(POSITIONS).get() for store in stores]


def test_lists_go_back_to_those_that_had_them() -> None:
    assert positions([subtask(1, [2]), subtask(), subtask(3)], 3) == [[1, [2]], [], [3]]


def test_lists_are_dealt_out_anew_at_another_parallelism() -> None:
    parts = [subtask(1, 2, 3), subtask(4), subtask(5)]
    assert positions(parts, 1) == [[1, 2, 3, 4, 5]]
    assert positions(parts, 2) == [[1, 2, 3], [4, 5]]
    assert positions(parts, 7) == [[1], [2], [3], [4], [5], [], []]


@given(st.lists(st.lists(st.binary(max_size=2)), min_size=1, max_size=6), st.integers(1, 8))
def test_each_element_goes_to_one(had: list[list[bytes]], parallelism: int) -> None:
    parts = [redistribute(StateMode.SPLIT, had, index, parallelism) for index in range(parallelism)]
    row = [element for elements in had for element in elements]
    assert [element for part in parts for element in part] == row
    if len(had) != parallelism:
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_union_goes_to_all() -> None:
    parts = []
    for elements in ([1, 2], [3]):
        store = OperatorStateStore()
        store.get_union_list_state(POSITIONS).add_all(elements)
        parts.append(written(store))
    for index in range(3):
        assert read(parts, index, 3).get_union_list_state(POSITIONS).get() == [1, 2, 3]


def test_broadcast_state_goes_to_each_once() -> None:
    parts = [subtask(a=1), subtask(a=1)]
    for index in range(5):
        assert dict(read(parts, index, 5).get_broadcast_state(RULES).items()) == {"a": 1}


def test_broadcast_state_is_written_as_it_was_in_small_steps() -> None:
    store = OperatorStateStore()
    rules = store.get_broadcast_state(RULES)
    entries = {number: [number] for number in range(3 * SLICE_ELEMENTS)}
    rules.put_all({key: list(value) for key, value in entries.items()})
    snapshot = OperatorStateSnapshot(store, "Source", "flights")
    steps = 0
    for step, _ in enumerate(snapshot.slices()):
        steps += 1
        rules.get(step).append("later")
        rules.remove(1000 + step)
    assert steps >= 3
    back = read([b"".join(snapshot.pieces())], 0, 1).get_broadcast_state(RULES)
    assert dict(back.items()) == entries
    assert type(rules.table.live) is dict
    assert rules.get(0) == [0, "later"]


def test_layers_of_many_writes_are_merged_in_steps() -> None:
    store = OperatorStateStore()
    rules = store.get_broadcast_state(RULES)
    rules.put("a", 1)
    snapshot = OperatorStateSnapshot(store, "Source", "flights")
    rules.put_all(dict.fromkeys(range(10_000), 1))
    assert sum(1 for _ in snapshot.slices()) == 2
    assert type(rules.table.live) is dict


def test_nothing_is_written_of_no_state() -> None:
    assert written(OperatorStateStore()) == b""
    assert read([b"", b""], 0, 1).states == {}
    assert positions([b"", subtask(1)], 2) == [[], [1]]


def test_unrequested_state_is_kept() -> None:
    again = written(read([subtask(1, 2, a=1)], 0, 1))
    assert positions([again], 1) == [[1, 2]]
    assert read([again], 0, 1).get_broadcast_state(RULES).get("a") == 1


@pytest.mark.parametrize("name", ["positions", "rules"])
def test_an_unserializable_element_is_named(name: str) -> None:
    store = OperatorStateStore()
    if name == "rules":
        store.get_broadcast_state(RULES).put("a", object())
    else:
        store.get_list_state(POSITIONS).add(object())
    with pytest.raises(StateError, match=rf'"{name}" of operator "Source" .* with a object: '):
        written(store)


def test_parts_that_do_not_belong_together() -> None:
    other = OperatorStateStore()
    other.get_union_list_state(POSITIONS)
    with pytest.raises(StateError, match="written in different ways"):
        read([subtask(1), written(other)], 0, 2)


@given(st.integers(0, len(subtask(1, 2, a=1)) - 1), st.integers(1, 255))
def test_a_changed_or_cut_part_is_found(position: int, change: int) -> None:
    part = bytearray(subtask(1, 2, a=1))
    with pytest.raises(CheckpointCorruptedError):
        read([bytes(part[: position or 1])], 0, 1)
    part[position] ^= change
    with pytest.raises(CheckpointCorruptedError):
        read([bytes(part)], 0, 1)


def with_body(body: Any, version: int = 1) -> bytes:
    packed: bytes = msgpack.packb(body)
    return HEAD.pack(MAGIC, version, len(packed), crc32(packed)) + packed


def test_state_of_another_operator_or_version_is_refused() -> None:
    with pytest.raises(CheckpointCorruptedError, match="in form 2 cannot be read here"):
        read([with_body({}, version=2)], 0, 1)
    with pytest.raises(CheckpointCorruptedError, match="its content is invalid"):
        read([with_body({"uid": "flights", "states": [["a", "no mode", None, []]]})], 0, 1)
    with pytest.raises(StateError, match="of uid other cannot be restored to uid flights"):
        read([with_body({"uid": "other", "states": []})], 0, 1)
