"""Groups go through a file and come back in their order."""

from __future__ import annotations

from pathlib import Path

from flinknet.state.entry_writer import WrittenGroup
from flinknet.state.snapshot_format import RUN
from flinknet.state.spooled_groups import SpooledGroups


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
