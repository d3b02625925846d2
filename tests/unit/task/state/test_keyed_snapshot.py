"""Keyed state goes to bytes and comes back, at any parallelism."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from math import nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.datastream import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from flinknet.errors import CheckpointCorruptedError, StateError
from flinknet.records.key_groups import key_group, key_group_range
from flinknet.task.state.descriptors import StateKind
from flinknet.task.state.keyed_snapshot import (
    SLICE_ENTRIES,
    KeyedPlace,
    KeyedSnapshot,
    restore_keyed_state,
)
from flinknet.task.state.keyed_state import KeyedState
from flinknet.task.state.value_serializer import ValueSerializer
from tests.unit.task.state.keys import Key

GROUPS = 32
PLACE = KeyedPlace(operator="Count", uid="count", max_parallelism=GROUPS, key_groups=range(GROUPS))
SERIALIZER = ValueSerializer()

KEYS = (
    st.none()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text()
    | st.binary()
    | st.floats()
    | st.tuples(st.text(), st.integers(0, 9))
)


def place(parallelism: int, index: int) -> KeyedPlace:
    return replace(PLACE, key_groups=key_group_range(GROUPS, parallelism, index))


def state_with(name: str, entries: dict[Any, Any], kind: StateKind = StateKind.VALUE) -> KeyedState:
    state = KeyedState()
    state.table(name, kind).live.update(entries)
    return state


def written(state: KeyedState, where: KeyedPlace = PLACE, now_ms: int = 0) -> bytes:
    snapshot = KeyedSnapshot(state, where, SERIALIZER, now_ms)
    for _ in snapshot.slices():
        pass
    return b"".join(snapshot.pieces())


def read(parts: Iterable[bytes], where: KeyedPlace = PLACE) -> KeyedState:
    state = KeyedState()
    for part in parts:
        for _ in restore_keyed_state(state, where, SERIALIZER, part):
            pass
    return state


def entries_of(state: KeyedState, name: str) -> dict[Any, Any]:
    return dict(state.entries[name].table.entries())


@settings(max_examples=60)
@given(st.dictionaries(KEYS, st.integers(0, 9) | st.lists(st.text())), st.data())
def test_state_is_whole_at_any_parallelism(entries: dict[Any, Any], data: st.DataObject) -> None:
    """Written by any number of subtasks, read by any other: each key once, where its records go."""
    entries = {nan if key != key else key: value for key, value in entries.items()}
    parts = []
    before, after = data.draw(st.integers(1, GROUPS)), data.draw(st.integers(1, GROUPS))
    for index in range(before):
        own = place(before, index)
        mine = {k: v for k, v in entries.items() if key_group(k, GROUPS) in own.key_groups}
        parts.append(written(state_with("count", mine), own))
    found: dict[Any, Any] = {}
    for index in range(after):
        own = place(after, index)
        some = entries_of(read(parts, own), "count")
        assert all(key_group(key, GROUPS) in own.key_groups for key in some)
        assert not found.keys() & some.keys()
        found |= some
    assert found == entries


def test_several_states_and_large_groups() -> None:
    """Runs of one state in several pieces, and another state behind them."""
    numbers = dict.fromkeys(range(5000), "x" * 500)
    state = state_with("text", numbers)
    state.table("list", StateKind.LIST).live.update({"a": [1, (2, [3])]})
    back = read([written(state)])
    assert entries_of(back, "text") == numbers
    assert entries_of(back, "list") == {"a": [1, (2, [3])]}
    assert back.entries["list"].kind is StateKind.LIST


def test_nothing_is_written_of_no_state() -> None:
    assert written(KeyedState()) == b""
    assert entries_of(read([written(state_with("count", {}))]), "count") == {}


def test_a_step_is_small_and_records_go_on_between() -> None:
    entries = {number: [number] for number in range(10 * SLICE_ENTRIES)}
    state = state_with("list", entries, StateKind.LIST)
    table = state.entries["list"].table
    snapshot = KeyedSnapshot(state, PLACE, SERIALIZER, 0)
    expected = {key: list(value) for key, value in entries.items()}
    steps = 0
    for step, _ in enumerate(snapshot.slices()):
        steps += 1
        table.live[step].append("later")
        table.live[f"new {step}"] = []
        table.live.pop(9 * SLICE_ENTRIES + step)
    assert steps >= 10
    assert snapshot.entries == len(entries)
    assert entries_of(read([b"".join(snapshot.pieces())]), "list") == expected
    assert type(table.live) is dict, "all is merged"
    assert table.live[0] == [0, "later"]


def test_many_key_groups_are_completed_in_steps() -> None:
    where = replace(PLACE, max_parallelism=4096, key_groups=range(4096))
    entries = dict.fromkeys(range(200), 1)
    state = state_with("count", entries)
    assert sum(1 for _ in KeyedSnapshot(state, where, SERIALIZER, 0).slices()) == 1
    state.table("count", StateKind.VALUE).live.update(dict.fromkeys(range(2000), 1))
    snapshot = KeyedSnapshot(state, where, SERIALIZER, 0)
    assert sum(1 for _ in snapshot.slices()) > 2000 // SLICE_ENTRIES + 3
    assert len(entries_of(read([b"".join(snapshot.pieces())], where), "count")) == 2000


def test_large_values_make_short_steps() -> None:
    state = state_with("text", dict.fromkeys(range(10), "x" * 100000))
    steps = sum(1 for _ in KeyedSnapshot(state, PLACE, SERIALIZER, 0).slices())
    assert steps == 10


def test_what_cannot_be_written_is_named_and_the_operator_goes_on() -> None:
    state = state_with("count", {("a", 1): object()})
    snapshot = KeyedSnapshot(state, PLACE, SERIALIZER, 0)
    state.entries["count"].table.live["b"] = 1
    message = (
        r'state "count" of operator "Count" \(uid count\) cannot be written .* at the key '
        r"\('a', 1\) of type tuple: a record of type object .* give the state's descriptor a "
        r"serializer"
    )
    with pytest.raises(StateError, match=message):
        list(snapshot.slices())
    state.entries["count"].table.live.pop(("a", 1))
    while state.merge(10):
        pass
    assert entries_of(read([written(state)]), "count") == {"b": 1}


def test_a_key_that_cannot_be_written_is_named() -> None:
    with pytest.raises(StateError, match="at the key 1180591620717411303424 of type int"):
        written(state_with("count", {2**70: 1}))


def test_a_snapshot_that_is_given_up_lets_go() -> None:
    state = state_with("count", {"a": 1})
    snapshot = KeyedSnapshot(state, PLACE, SERIALIZER, 0)
    snapshot.close()
    assert not state.merge(1)
    assert type(state.entries["count"].table.live) is dict


class Reversed:
    def serialize(self, value: str) -> bytes:
        return value[::-1].encode()

    def deserialize(self, data: bytes) -> str:
        return data.decode()[::-1]


def test_values_with_a_serializer_of_their_own() -> None:
    """They stay bytes until somebody asks for them, also in the next checkpoint."""
    state, key = KeyedState(), Key("a")
    descriptor = ListStateDescriptor("text", serializer=Reversed())
    state.get_list_state(descriptor, key).add("abc")
    back = read([written(state)])
    assert entries_of(back, "text") == {"a": [b"cba"]}
    again = read([written(back)])
    assert list(again.get_list_state(descriptor, key)) == ["abc"]


def test_state_that_is_asked_for_while_it_is_written() -> None:
    """What a checkpoint says of it is how it was when it was captured."""
    first, key = KeyedState(), Key("a")
    descriptor = ListStateDescriptor("text", serializer=Reversed())
    first.get_list_state(descriptor, key).add("abc")
    state = read([written(first)])
    snapshot = KeyedSnapshot(state, PLACE, SERIALIZER, 0)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(timedelta(seconds=1)).build())
    asked = state.get_list_state(descriptor, key)
    assert list(asked) == ["abc"]
    asked.add("def")
    list(snapshot.slices())
    assert list(asked) == ["abc", "def"]
    assert written(state) != b"".join(snapshot.pieces())
    assert entries_of(read([b"".join(snapshot.pieces())]), "text") == {"a": [b"cba"]}
    assert entries_of(read([written(state)]), "text") == {"a": [(0, b"cba"), (0, b"fed")]}


def test_what_has_expired_is_left_out_on_request() -> None:
    builder = StateTtlConfig.new_builder(timedelta(milliseconds=10))
    for config, left in ((builder.build(), 2), (builder.cleanup_full_snapshot().build(), 1)):
        clock = iter((0, 0, 5, 5, 5))
        state, key = KeyedState(clock.__next__), Key("a")
        descriptor = ValueStateDescriptor("count")
        descriptor.enable_time_to_live(config)
        value = state.get_state(descriptor, key)
        value.update(1)
        key.current_key = "b"
        value.update(1)
        back = read([written(state, now_ms=10)])
        assert len(entries_of(back, "count")) == left
        assert back.entries["count"].timed


@dataclass
class Flight:
    number: int


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uid": "other"}, "the state of uid count cannot be that of operator"),
        ({"max_parallelism": 64}, r"written with 32.*call set_max_parallelism\(32\)"),
        ({"types": ((0, "Airport"),)}, "class number 0 is Airport now, but was Flight"),
    ],
    ids=repr,
)
def test_the_state_of_another_job(change: dict[str, Any], message: str) -> None:
    own = replace(PLACE, types=((0, "Flight"),))
    part = written(state_with("count", {"a": 1}), own)
    assert entries_of(read([part], own), "count") == {"a": 1}
    assert entries_of(read([part], PLACE), "count") == {"a": 1}
    with pytest.raises(StateError, match=message):
        read([part], replace(own, **change))


def test_parts_that_do_not_belong_together() -> None:
    parts = [
        written(state_with("count", {"a": 1})),
        written(state_with("count", {"a": [1]}, StateKind.LIST)),
    ]
    with pytest.raises(StateError, match="written in two ways"):
        read(parts)


def test_values_that_are_none() -> None:
    part = written(state_with("count", {"a": 1, "b": 2}))
    with pytest.raises(CheckpointCorruptedError, match="changed"):
        read([part[:-1] + bytes([part[-1] ^ 1])])
    flights = ValueSerializer([Flight])
    state = state_with("count", {"a": Flight(1)})
    snapshot = KeyedSnapshot(state, PLACE, flights, 0)
    list(snapshot.slices())
    with pytest.raises(CheckpointCorruptedError, match="no class is registered here"):
        read([b"".join(snapshot.pieces())])


def test_a_run_of_a_state_that_is_not_there() -> None:
    part = written(state_with("count", {"a": 1}))
    from zlib import crc32

    from flinknet.task.state.snapshot_format import RUN, GroupPlace, parse_header

    header, content = parse_header(memoryview(part))
    group = RUN.pack(1, 1, 2) + bytes(content[RUN.size :])
    wrong = replace(
        header, groups=(GroupPlace(header.groups[0].group, 0, len(group), crc32(group)),)
    )
    with pytest.raises(CheckpointCorruptedError, match="there is no state 1"):
        read([wrong.to_bytes() + group])
