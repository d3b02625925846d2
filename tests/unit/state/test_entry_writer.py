"""Writing entries by key group, a few at a time.

The tests of snapshots cover a whole snapshot.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import msgpack
import pytest

from flinknet.errors import SerializationError
from flinknet.records.key_groups import key_group
from flinknet.state.entry_writer import RUN_BYTES, DetachedEntries, EntryWriter
from flinknet.state.snapshot_format import RUN
from flinknet.state.value_serializer import ValueSerializer

GROUPS = 16
MANY = 1_000_000


class Value:
    """A value that supports weak references, to test when it is released."""


def writer() -> EntryWriter:
    return EntryWriter(ValueSerializer(), GROUPS)


def contents(written: EntryWriter, state: int) -> dict[int, list[Any]]:
    """Return keys and values of each group, in turn."""
    found: dict[int, list[Any]] = {}
    for number, group in written.groups.items():
        group.end_run(state)
        data = b"".join(group.pieces)
        assert len(data) == group.size
        while data:
            of_state, entries, size = RUN.unpack_from(data)
            unpacker = msgpack.Unpacker()
            unpacker.feed(data[RUN.size : RUN.size + size])
            values = list(unpacker)
            assert (of_state, 2 * entries) == (state, len(values))
            found.setdefault(number, []).extend(values)
            data = data[RUN.size + size :]
    return found


@pytest.mark.parametrize(
    "key", [7, -1, "seven", ("seven", 7), (), 7.0, True, None, b"7", (7.0, "7"), ("7", (1, 2))]
)
@pytest.mark.parametrize("value", [1, "one", 1.5, b"1", None, [1, 2], {"a": [1]}])
def test_an_entry_is_in_the_group_of_its_key(key: Any, value: Any) -> None:
    written = writer()
    assert written.write(0, iter([(key, value)]), None, MANY, MANY) == 1
    assert list(written.groups) == [key_group(key, GROUPS)]
    pack = ValueSerializer().pack
    group = written.groups[key_group(key, GROUPS)]
    assert bytes(group.begun) == pack(key) + pack(value)


def test_it_stops_behind_so_many_entries_or_bytes_and_goes_on() -> None:
    entries = iter([(number, "x" * 10) for number in range(10)])
    written = writer()
    counts = [written.write(3, entries, None, 4, MANY), written.write(3, entries, None, MANY, 30)]
    while counts[-1]:
        counts.append(written.write(3, entries, None, MANY, MANY))
    assert counts == [4, 3, 3, 0]
    found = [value for values in contents(written, 3).values() for value in values]
    assert sorted(found[::2]) == list(range(10))


def test_a_long_group_is_several_runs() -> None:
    written = writer()
    written.write(1, iter([("one", "x" * RUN_BYTES), ("one", "y")]), None, MANY, MANY)
    (group,) = written.groups.values()
    assert (len(group.pieces), group.entries) == (2, 1)
    assert contents(written, 1) == {key_group("one", GROUPS): ["one", "x" * RUN_BYTES, "one", "y"]}


def test_a_group_without_entries_has_no_run() -> None:
    written = writer()
    written.write(1, iter([("one", 1)]), None, MANY, MANY)
    (group,) = written.groups.values()
    group.end_run(1)
    group.end_run(2)
    assert len(group.pieces) == 2


def test_a_serializer_makes_the_bytes_of_a_value_first() -> None:
    written = writer()
    written.write(0, iter([("one", object())]), lambda value: b"bytes", MANY, MANY)
    assert contents(written, 0) == {key_group("one", GROUPS): ["one", b"bytes"]}


@pytest.mark.parametrize("entry", [("key", object()), ("key", 2**70), (2**70, 1)])
def test_an_unserializable_entry_is_named_by_its_key(entry: Any) -> None:
    written = writer()
    with pytest.raises(SerializationError):
        written.write(0, iter([("before", 1), entry]), None, MANY, MANY)
    assert written.key == entry[0]


def detached(entries: dict[Any, Any]) -> DetachedEntries:
    taken = DetachedEntries(entries)
    assert taken.take(MANY)
    assert taken.is_whole
    return taken


@pytest.mark.parametrize("at_once", [1, 7, 16, 40, 41])
def test_entries_are_detached_a_bit_at_a_time(at_once: int) -> None:
    entries = {number: (number, str(number)) for number in range(40)}
    taken = DetachedEntries(entries)
    steps = 0
    while not taken.is_whole:
        assert taken.take(at_once)
        steps += 1
    assert steps == 40 // at_once + 1
    entries.clear()
    assert list(taken) == [(number, (number, str(number))) for number in range(40)]
    assert list(taken) == []


def test_nothing_is_detached_of_an_empty_dict() -> None:
    assert list(detached({})) == []


def test_values_that_could_be_changed_are_noticed_when_they_are_taken() -> None:
    taken = DetachedEntries({"a": 1, "b": [1]})
    assert taken.take(1)
    assert not taken.take(1)


def test_detached_entries_are_released() -> None:
    """This happens when it has been written or aborted. The dict has other values by then."""
    entries: dict[Any, Any] = {f"key {number}": (Value(), number) for number in range(3)}
    seen = [ref(value[0]) for value in entries.values()]
    taken = DetachedEntries(entries)
    assert not taken.take(MANY)
    entries.clear()
    next(taken)
    assert [one() is None for one in seen] == [True, False, False]
    del taken
    assert [one() is None for one in seen] == [True, True, True]


def test_detached_entries_are_written_like_others() -> None:
    entries = dict.fromkeys(range(10), "x" * 10)
    one, other, taken = writer(), writer(), detached(entries)
    counts = [one.write_detached(3, taken, None, 4, MANY)]
    counts += [one.write_detached(3, taken, None, MANY, 30)]
    while counts[-1]:
        counts.append(one.write_detached(3, taken, None, MANY, MANY))
    assert counts == [4, 3, 3, 0]
    other.write(3, iter(entries.items()), None, MANY, MANY)
    assert contents(one, 3) == contents(other, 3)
