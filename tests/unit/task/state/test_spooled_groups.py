"""Groups go through a file and come back in their order."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from flinknet.errors import StateError
from flinknet.task.state.entry_writer import WrittenGroup
from flinknet.task.state.snapshot_format import RUN
from flinknet.task.state.spooled_groups import SpooledGroups


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


def test_without_a_directory_of_its_own_it_is_the_systems() -> None:
    spooled = SpooledGroups(None)
    assert list(spooled.pieces()) == []


def test_a_disk_without_room_is_said_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=rf"put down in {tmp_path}/none: .*rocksdb_directory"):
        SpooledGroups(str(tmp_path / "none"))
    spooled = SpooledGroups(str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StateError, match=rf"put down in {tmp_path}: .*File too large"):
            spooled.add(1, group(b"x" * 2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    spooled.close()


def test_what_cannot_be_read_again_is_said(tmp_path: Path) -> None:
    spooled = SpooledGroups(str(tmp_path))
    spooled.close()
    with pytest.raises(ValueError, match="closed"):
        list(spooled.pieces())
