"""The tables of an operator in one database, and their order for a checkpoint."""

from __future__ import annotations

from pathlib import Path

from flinknet.config.state import StateConfig
from flinknet.records.key_groups import key_group
from flinknet.state.rocksdb.backend import RocksDBKeyedStateBackend
from flinknet.state.state_table import StateTable
from flinknet.state.value_serializer import ValueSerializer


def backend_in(path: Path) -> RocksDBKeyedStateBackend:
    return RocksDBKeyedStateBackend(
        path,
        "operator",
        serializer=ValueSerializer(),
        max_parallelism=8,
        config=StateConfig(rocksdb_cached_entries_max=1),
    )


def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    backend = backend_in(tmp_path / "state")
    assert backend.disk_entries([StateTable().capture()]) is None
    assert not (tmp_path / "state").exists()
    backend.close()
    assert backend.is_on_disk
    assert backend.directory == str(tmp_path / "state")
    assert (tmp_path / "state").exists()
    backend.close()
    assert not (tmp_path / "state").exists()


def test_entries_on_disk_come_by_group_and_then_by_capture(tmp_path: Path) -> None:
    backend = backend_in(tmp_path / "state")
    timers, one, other = StateTable(), backend.table("one"), backend.table("other")
    for table in (one, other):
        table.live.update({number: str(number) for number in range(100)} | {True: "1", 2.0: "2"})
        table.trim()
        table.live[50] = "changed since"
    captures = [timers.capture(), one.capture(), other.capture()]
    entries = backend.disk_entries(captures)
    assert entries is not None
    in_memory = [len([*capture.entries_in_memory()]) for capture in captures]
    assert in_memory == [0, 1, 1]
    found = list(entries)
    assert [(entry.group, entry.capture) for entry in found] == sorted(
        (entry.group, entry.capture) for entry in found
    )
    pack = ValueSerializer().pack
    expected = {(i, pack(n), pack(str(n))) for i in (1, 2) for n in range(100) if n != 50}
    assert {(entry.capture, entry.key, entry.value) for entry in found} == expected
    assert len(found) == len(expected)
    groups = {pack(number): key_group(number, 8) for number in range(100)}
    assert all(groups[entry.key] == entry.group for entry in found)
    for capture in captures:
        capture.close()
    backend.close()
    backend.close()
    assert list(tmp_path.iterdir()) == []
