from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENODEV, ENOSPC
from pathlib import Path

import pytest

from flinknet.errors import SerializationError
from flinknet.records.serialization.spill_file import SpillFile


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def write(spill_file: SpillFile, extent: int, position: int, data: bytes) -> None:
    spill_file.write(extent, position, memoryview(b"<" + data + b">"), 1, 1 + len(data))


def content(spill_file: SpillFile, extent: int, size: int) -> bytes:
    with spill_file.map(extent, size) as mapping:
        return bytes(mapping)


def release_all(spill_file: SpillFile, extents: list[int]) -> None:
    for extent in extents:
        spill_file.release(extent)
        spill_file.check_invariants()
    assert spill_file.extents == 0


def test_extents_do_not_touch(tmp_path: Path) -> None:
    """Each has its full size, and its content is contiguous."""
    spill_file = SpillFile(str(tmp_path), 10_000)
    extents = [spill_file.acquire() for _ in range(5)]
    assert extents == [0, 1, 2, 3, 4]
    for part in range(4):
        for extent in extents:
            write(spill_file, extent, part * 2_500, bytes([extent]) * 2_500)
    for extent in extents:
        assert content(spill_file, extent, 10_000) == bytes([extent]) * 10_000
    release_all(spill_file, extents)


def test_a_thousand_extents_take_one_descriptor(tmp_path: Path) -> None:
    before = descriptors()
    spill_file = SpillFile(str(tmp_path), 1 << 26)
    extents = [spill_file.acquire() for _ in range(1_000)]
    for extent in extents:
        write(spill_file, extent, 0, b"%d" % extent)
    assert descriptors() == before + 1
    assert content(spill_file, 999, 3) == b"999"
    release_all(spill_file, extents)
    assert descriptors() == before


def test_the_lowest_free_extent_is_taken_again(tmp_path: Path) -> None:
    """The file thus stays as short as possible, and no stale content appears."""
    spill_file = SpillFile(str(tmp_path), 100)
    for _ in range(4):
        spill_file.acquire()
    write(spill_file, 1, 0, b"stale content")
    for extent in (3, 1):
        spill_file.release(extent)
        spill_file.check_invariants()
    assert [spill_file.acquire() for _ in range(3)] == [1, 3, 4]
    write(spill_file, 1, 0, b"new")
    assert content(spill_file, 1, 3) == b"new"
    release_all(spill_file, [0, 1, 2, 3, 4])


def test_nothing_has_a_name_and_the_last_extent_gives_the_disk_back(tmp_path: Path) -> None:
    spill_file = SpillFile(str(tmp_path), 100)
    for _ in range(2):
        extents = [spill_file.acquire() for _ in range(3)]
        write(spill_file, extents[0], 0, b"content")
        assert list(tmp_path.iterdir()) == []
        release_all(spill_file, extents)


def test_a_process_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from flinknet.records.serialization.spill_file import SpillFile\n"
        "spill_file = SpillFile(sys.argv[1], 1000)\n"
        "spill_file.write(spill_file.acquire(), 0, memoryview(b'x' * 1000), 0, 1000)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert ended.returncode == -9
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("directory", ["missing", "file"])
def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path, directory: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    spill_file = SpillFile(str(tmp_path / directory), 100)
    with pytest.raises(SerializationError, match=rf"{directory}: .*\(spill_directory\)"):
        spill_file.acquire()
    assert spill_file.extents == 0
    spill_file.check_invariants()


@contextmanager
def full_device_instead_of(spill_file: SpillFile) -> Iterator[None]:
    """Use /dev/full for the file: it refuses a write as a full disk does, but it cannot be
    mapped."""
    descriptor = spill_file._descriptor
    kept, full = os.dup(descriptor), os.open("/dev/full", os.O_RDWR)
    try:
        os.dup2(full, descriptor)
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)
        os.close(full)


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (lambda spill_file, extent: write(spill_file, extent, 0, b"more"), ENOSPC),
        (lambda spill_file, extent: spill_file.map(extent, 4), ENODEV),
    ],
    ids=["write", "map"],
)
def test_a_disk_that_refuses_is_named_and_the_other_extents_are_as_before(
    use: Callable[[SpillFile, int], object], reason: int
) -> None:
    spill_file = SpillFile("", 100)
    first, second = spill_file.acquire(), spill_file.acquire()
    write(spill_file, first, 0, b"content")
    with full_device_instead_of(spill_file):
        with pytest.raises(SerializationError, match=os.strerror(reason)) as refused:
            use(spill_file, second)
        assert "spill_directory" in str(refused.value)
    assert content(spill_file, first, 7) == b"content"
    release_all(spill_file, [second, first])
