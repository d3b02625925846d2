"""Keyed state is written to bytes and read again, at any parallelism."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.datastream import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from flinknet.errors import CheckpointCorruptedError, StateError
from flinknet.records.key_groups import key_group, key_group_range
from flinknet.state.descriptors import StateKind
from flinknet.state.entry_writer import WrittenGroup
from flinknet.state.keyed_snapshot import (
    DETACHED_ENTRIES,
    MERGE_ENTRIES,
    SLICE_ENTRIES,
    KeyedPlace,
    KeyedSnapshot,
    SpooledGroups,
    restore_keyed_state,
)
from flinknet.state.keyed_state import KeyedState
from flinknet.state.snapshot_format import RUN
from flinknet.state.value_serializer import ValueSerializer
from tests.unit.state.backends import Backends, made_backends
from tests.unit.state.keys import Key

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


def state_with(
    backends: Backends, name: str, entries: dict[Any, Any], kind: StateKind = StateKind.VALUE
) -> KeyedState:
    state = backends.state()
    state.table(name, kind).live.update(entries)
    return state


def written(state: KeyedState, where: KeyedPlace = PLACE, now_ms: int = 0) -> bytes:
    snapshot = KeyedSnapshot(state, where, SERIALIZER, now_ms)
    for _ in snapshot.slices():
        pass
    return whole(snapshot)


def whole(snapshot: KeyedSnapshot) -> bytes:
    """Return the written bytes, and close the snapshot."""
    part = b"".join(snapshot.pieces())
    snapshot.close()
    return part


def read(backends: Backends, parts: Iterable[bytes], where: KeyedPlace = PLACE) -> KeyedState:
    state = backends.state()
    for part in parts:
        for _ in restore_keyed_state(state, where, SERIALIZER, part):
            pass
    return state


def entries_of(state: KeyedState, name: str) -> dict[Any, Any]:
    return dict(state.entries[name].table.entries())


ENTRIES = st.dictionaries(KEYS, st.integers(0, 9) | st.lists(st.text()))


@settings(max_examples=60)
@given(ENTRIES, st.integers(1, GROUPS), st.integers(1, GROUPS))
def test_state_is_whole_at_any_parallelism(
    entries: dict[Any, Any], before: int, after: int
) -> None:
    with TemporaryDirectory() as directory, made_backends("heap", Path(directory)) as backends:
        check_that_state_is_whole(backends, entries, before, after)


@settings(max_examples=8, deadline=None)
@given(ENTRIES, st.integers(1, 2), st.integers(1, 2))
def test_state_on_disk_is_whole_at_any_parallelism(
    entries: dict[Any, Any], before: int, after: int
) -> None:
    with (
        TemporaryDirectory() as directory,
        made_backends("rocksdb", Path(directory)) as backends,
    ):
        check_that_state_is_whole(backends, entries, before, after)


def check_that_state_is_whole(
    backends: Backends, entries: dict[Any, Any], before: int, after: int
) -> None:
    """Check that state written by any number of subtasks is read by any other number.

    Each key is there once, in the subtask of its records.
    """
    entries = {nan if key != key else key: value for key, value in entries.items()}
    parts = []
    for index in range(before):
        own = place(before, index)
        mine = {k: v for k, v in entries.items() if key_group(k, GROUPS) in own.key_groups}
        parts.append(written(state_with(backends, "count", mine), own))
    found: dict[Any, Any] = {}
    for index in range(after):
        own = place(after, index)
        some = entries_of(read(backends, parts, own), "count")
        assert all(key_group(key, GROUPS) in own.key_groups for key in some)
        assert not found.keys() & some.keys()
        found |= some
    assert found == entries


def test_several_states_and_large_groups(backends: Backends) -> None:
    """The entries of one state come in several pieces, and another state follows them."""
    numbers = dict.fromkeys(range(5000), "x" * 500)
    state = state_with(backends, "text", numbers)
    state.table("list", StateKind.LIST).live.update({"a": [1, (2, [3])]})
    back = read(backends, [written(state)])
    assert entries_of(back, "text") == numbers
    assert entries_of(back, "list") == {"a": [1, (2, [3])]}
    assert back.entries["list"].kind is StateKind.LIST


def test_nothing_is_written_of_no_state(backends: Backends) -> None:
    assert written(backends.state()) == b""
    assert entries_of(read(backends, [written(state_with(backends, "count", {}))]), "count") == {}


def test_a_step_is_small_and_records_go_on_between(backends: Backends) -> None:
    entries = {number: [number] for number in range(10 * SLICE_ENTRIES)}
    state = state_with(backends, "list", entries, StateKind.LIST)
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
    assert entries_of(read(backends, [whole(snapshot)]), "list") == expected
    assert backends.kind != "heap" or type(table.live) is dict, "all is merged"
    table.check_invariants()
    assert table.live[0] == [0, "later"]


def test_records_go_on_after_it_was_detached(backends: Backends) -> None:
    """Values that can change in place stay in the table."""
    numbers = {number: number for number in range(2 * SLICE_ENTRIES)}
    state = state_with(backends, "count", numbers)
    state.table("list", StateKind.LIST).live["a"] = [1]
    snapshot = KeyedSnapshot(state, PLACE, SERIALIZER, 0)
    table = state.entries["count"].table
    list(snapshot.detach())
    assert backends.kind != "heap" or type(table.live) is dict
    for step, _ in enumerate(snapshot.slices()):
        table.live.pop(step)
        table.live.pop(2 * SLICE_ENTRIES - 1 - step)
        state.entries["list"].table.live["a"].append(2)
    assert snapshot.entries == len(numbers) + 1
    back = read(backends, [whole(snapshot)])
    assert (entries_of(back, "count"), entries_of(back, "list")) == (numbers, {"a": [1]})


def test_a_table_is_merged_whatever_is_written_meanwhile(backends: Backends) -> None:
    state = state_with(backends, "count", dict.fromkeys(range(DETACHED_ENTRIES + 1), 1))
    snapshot = KeyedSnapshot(state, PLACE, SERIALIZER, 0)
    table = state.entries["count"].table
    for _ in snapshot.detach():
        table.live.update(dict.fromkeys(range(2 * MERGE_ENTRIES), 2))
    snapshot.close()
    assert backends.kind != "heap" or type(table.live) is dict
    assert len(list(table.entries())) == DETACHED_ENTRIES + 1


def test_many_key_groups_are_completed_in_steps(backends: Backends) -> None:
    backends.groups = 4096
    where = replace(PLACE, max_parallelism=4096, key_groups=range(4096))
    entries = dict.fromkeys(range(200), 1)
    state = state_with(backends, "count", entries)
    first = KeyedSnapshot(state, where, SERIALIZER, 0)
    assert sum(1 for _ in first.slices()) == 1
    first.close()
    state.table("count", StateKind.VALUE).live.update(dict.fromkeys(range(2000), 1))
    snapshot = KeyedSnapshot(state, where, SERIALIZER, 0)
    assert sum(1 for _ in snapshot.slices()) > 2000 // SLICE_ENTRIES + 3
    assert len(entries_of(read(backends, [whole(snapshot)], where), "count")) == 2000


def test_large_values_make_short_steps(backends: Backends) -> None:
    state = state_with(backends, "text", dict.fromkeys(range(10), "x" * 100000))
    snapshot = KeyedSnapshot(state, PLACE, SERIALIZER, 0)
    assert sum(1 for _ in snapshot.slices()) >= 10
    snapshot.close()


def test_an_unserializable_value_is_named_and_the_operator_continues(backends: Backends) -> None:
    state = state_with(backends, "count", {("a", 1): object()})
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
    assert entries_of(read(backends, [written(state)]), "count") == {"b": 1}


def test_a_key_that_cannot_be_written_is_named(backends: Backends) -> None:
    with pytest.raises(StateError, match="at the key 1180591620717411303424 of type int"):
        written(state_with(backends, "count", {2**70: 1}))


def test_a_snapshot_that_is_given_up_lets_go(backends: Backends) -> None:
    state = state_with(backends, "count", {"a": 1})
    snapshot = KeyedSnapshot(state, PLACE, SERIALIZER, 0)
    snapshot.close()
    while state.merge(1):
        pass
    assert state.entries["count"].table.live == {"a": 1}


class Reversed:
    def serialize(self, value: str) -> bytes:
        return value[::-1].encode()

    def deserialize(self, data: bytes) -> str:
        return data.decode()[::-1]


def test_values_with_a_serializer_of_their_own(backends: Backends) -> None:
    """They stay bytes until they are used, even in the next checkpoint."""
    state, key = backends.state(), Key("a")
    descriptor = ListStateDescriptor("text", serializer=Reversed())
    state.state(descriptor, key).add("abc")
    back = read(backends, [written(state)])
    assert entries_of(back, "text") == {"a": [b"cba"]}
    again = read(backends, [written(back)])
    assert list(again.state(descriptor, key)) == ["abc"]


def test_state_that_is_asked_for_while_it_is_written(backends: Backends) -> None:
    """The checkpoint has the state at the time of its capture."""
    first, key = backends.state(), Key("a")
    descriptor = ListStateDescriptor("text", serializer=Reversed())
    first.state(descriptor, key).add("abc")
    state = read(backends, [written(first)])
    snapshot = KeyedSnapshot(state, PLACE, SERIALIZER, 0)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(timedelta(seconds=1)).build())
    asked = state.state(descriptor, key)
    assert list(asked) == ["abc"]
    asked.add("def")
    list(snapshot.slices())
    assert list(asked) == ["abc", "def"]
    part = whole(snapshot)
    assert written(state) != part
    assert entries_of(read(backends, [part]), "text") == {"a": [b"cba"]}
    assert entries_of(read(backends, [written(state)]), "text") == {"a": [(0, b"cba"), (0, b"fed")]}


def test_expired_entries_are_omitted_on_request(backends: Backends) -> None:
    """In memory and on disk, where there is room for two of the six entries in memory."""
    clock = [0]
    builder = StateTtlConfig.new_builder(timedelta(milliseconds=10))
    for config, left in (
        (builder.build(), "abcdef"),
        (builder.cleanup_full_snapshot().build(), "bdf"),
    ):
        state, key = backends.state(lambda: clock[0]), Key()
        descriptor = ValueStateDescriptor("count")
        descriptor.enable_time_to_live(config)
        value = state.state(descriptor, key)
        for number, name in enumerate("abcdef"):
            clock[0], key.current_key = 5 * (number % 2), name
            value.update(number)
        snapshot = KeyedSnapshot(state, PLACE, SERIALIZER, 10)
        list(snapshot.detach())
        list(snapshot.slices())
        back = read(backends, [whole(snapshot)])
        assert "".join(sorted(entries_of(back, "count"))) == left
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
def test_the_state_of_another_job(backends: Backends, change: dict[str, Any], message: str) -> None:
    own = replace(PLACE, types=((0, "Flight"),))
    part = written(state_with(backends, "count", {"a": 1}), own)
    assert entries_of(read(backends, [part], own), "count") == {"a": 1}
    assert entries_of(read(backends, [part], PLACE), "count") == {"a": 1}
    with pytest.raises(StateError, match=message):
        read(backends, [part], replace(own, **change))


def test_parts_that_do_not_belong_together(backends: Backends) -> None:
    parts = [
        written(state_with(backends, "count", {"a": 1})),
        written(state_with(backends, "count", {"a": [1]}, StateKind.LIST)),
    ]
    with pytest.raises(StateError, match="written in different ways"):
        read(backends, parts)


def test_values_that_are_none(backends: Backends) -> None:
    part = written(state_with(backends, "count", {"a": 1, "b": 2}))
    with pytest.raises(CheckpointCorruptedError, match="changed"):
        read(backends, [part[:-1] + bytes([part[-1] ^ 1])])
    flights = ValueSerializer([Flight])
    state = state_with(backends, "count", {"a": Flight(1)})
    snapshot = KeyedSnapshot(state, PLACE, flights, 0)
    list(snapshot.slices())
    with pytest.raises(CheckpointCorruptedError, match="no class is registered here"):
        read(backends, [whole(snapshot)])


def test_a_run_of_a_state_that_is_not_there(backends: Backends) -> None:
    part = written(state_with(backends, "count", {"a": 1}))
    from zlib import crc32

    from flinknet.state.snapshot_format import RUN, GroupPlace, parse_header

    header, content = parse_header(memoryview(part))
    group = RUN.pack(1, 1, 2) + bytes(content[RUN.size :])
    wrong = replace(
        header, groups=(GroupPlace(header.groups[0].group, 0, len(group), crc32(group)),)
    )
    with pytest.raises(CheckpointCorruptedError, match="there is no state 1"):
        read(backends, [wrong.to_bytes() + group])


def group(content: bytes) -> WrittenGroup:
    written = WrittenGroup()
    written.begun += content
    written.entries = 1
    written.end_run(0)
    return written


def test_groups_stand_behind_each_other(tmp_path: Path) -> None:
    spooled = SpooledGroups(str(tmp_path))
    groups = {3: group(b"x" * 3_000_000), 7: group(b"y"), 8: group(b"")}
    expected = b"".join(bytes(piece) for one in groups.values() for piece in one.pieces)
    checksums = [one.checksum for one in groups.values()]
    for number, written in groups.items():
        spooled.add(number, written)
        assert written.pieces == []
    assert [place.group for place in spooled.places] == [3, 7, 8]
    assert [place.checksum for place in spooled.places] == checksums
    ends = [place.offset + place.size for place in spooled.places]
    assert [place.offset for place in spooled.places] == [0, *ends[:-1]]
    pieces = list(spooled.pieces())
    assert b"".join(pieces) == expected
    assert max(map(len, pieces)) == 1 << 20
    assert expected[-RUN.size :] == RUN.pack(0, 1, 0)
    spooled.close()
    assert list(tmp_path.iterdir()) == []
