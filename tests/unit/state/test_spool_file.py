"""A private file for data larger than memory, and the error when the disk is full."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flinknet.errors import StateError
from flinknet.state.spool_file import SpoolFile


@contextmanager
def limited(bytes_max: int) -> Iterator[None]:
    """Limit the size of files to this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_spooled_content_is_read_once_in_pieces(tmp_path: Path) -> None:
    file = SpoolFile(str(tmp_path))
    file.add(b"x" * 3_000_000)
    file.add(b"y")
    assert file.size == 3_000_001
    assert list(tmp_path.iterdir()) == [], "it has no name"
    pieces = list(file.pieces())
    assert max(map(len, pieces)) == 1 << 20
    assert b"".join(pieces) == b"x" * 3_000_000 + b"y"
    file.close()


def test_it_can_be_looked_at_as_one() -> None:
    file = SpoolFile(None)
    assert file.view() == b""
    file.add(b"abc" * 5000)
    with memoryview(file.view()) as view:
        assert bytes(view[3000:3006]) == b"abcabc"
        file.close()  # a reader that holds a view keeps its bytes
        assert bytes(view[:3]) == b"abc"
    file.close()


def test_a_disk_without_room_is_said_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=rf"stored in {tmp_path}/none .*rocksdb_directory"):
        SpoolFile(str(tmp_path / "none"))
    file = SpoolFile(str(tmp_path))
    with limited(1000), pytest.raises(StateError, match=rf"in {tmp_path} .*File too large"):
        file.add(b"x" * 2000)
    file.close()


def test_a_closed_file_cannot_be_read(tmp_path: Path) -> None:
    file = SpoolFile(str(tmp_path))
    file.close()
    with pytest.raises(ValueError, match="closed"):
        list(file.pieces())
