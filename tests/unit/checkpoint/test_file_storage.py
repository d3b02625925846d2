"""Checkpoints in a directory: only whole files appear, at any failure.

`contract/test_checkpoint_stores.py` tests the behaviour that other places share.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flinknet.checkpoint import file_storage
from flinknet.checkpoint.file_storage import BLOCK_BYTES, COLLECT_S, FileStorage
from flinknet.config import CheckpointingConfig
from flinknet.errors import (
    CheckpointNotFoundError,
    CheckpointStorageError,
    CheckpointStorageFullError,
)
from tests.unit.checkpoint.checkpoints import files_below

CONFIG = CheckpointingConfig(files_max=5)


@pytest.fixture
def storage(tmp_path: Path) -> FileStorage:
    return FileStorage(tmp_path / "checkpoints", CONFIG)


def everything(storage: FileStorage) -> list[str]:
    return files_below(Path(storage.location))


async def test_only_the_written_files_exist(storage: FileStorage) -> None:
    blocks = [b"1", bytes(BLOCK_BYTES), b"", b"2" * 10]
    await storage.write("a/b/part", blocks)
    assert await storage.create("a/b/metadata", b"m")
    assert not await storage.create("a/b/metadata", b"other")
    assert everything(storage) == ["a/b/metadata", "a/b/part"]
    assert await storage.read("a/b/part", 2 * BLOCK_BYTES) == b"".join(blocks)
    assert await storage.read_range("a/b/part", 0, 2) == b"1\0"
    assert await storage.read("a/b/metadata", 1) == b"m"


async def test_blocks_that_take_time_are_asked_for_a_few_at_a_time(
    storage: FileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tasks run between them, even if the blocks are small."""
    now = 0.0
    monkeypatch.setattr(file_storage, "monotonic", lambda: now)
    assert await most_in_a_turn(storage, 100) == 100

    def takes_time() -> None:
        nonlocal now
        now += 0.4 * COLLECT_S

    assert await most_in_a_turn(storage, 100, takes_time) == 3


async def most_in_a_turn(
    storage: FileStorage, count: int, take: Callable[[], None] = lambda: None
) -> int:
    """Write ``count`` blocks of one byte; return how many were taken without a turn of other
    tasks."""
    asked = most = 0

    def blocks() -> Iterator[bytes]:
        nonlocal asked
        for _ in range(count):
            asked += 1
            take()
            yield b"1"

    async def others() -> None:
        nonlocal asked, most
        while True:
            most, asked = max(most, asked), 0
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    await storage.write("part", blocks())
    await asyncio.sleep(0)
    running.cancel()
    assert await storage.read("part", count) == count * b"1"
    return most


async def test_reading_more_than_is_allowed_is_refused(storage: FileStorage) -> None:
    await storage.write("f", [b"123"])
    with pytest.raises(CheckpointStorageError, match="f is larger than the 2 bytes that are"):
        await storage.read("f", 2)


async def test_a_missing_file_is_named(storage: FileStorage) -> None:
    missing = f"cannot read {storage.location}/a/b: No such file or directory"
    with pytest.raises(CheckpointNotFoundError, match=missing):
        await storage.read("a/b", 10)
    with pytest.raises(CheckpointNotFoundError, match=missing):
        await storage.read_range("a/b", 0, 10)
    assert await storage.files() == {}
    await storage.delete("a/b")
    await storage.delete_directory("a")


async def test_files_are_listed_in_order_and_bounded(storage: FileStorage) -> None:
    for name in ("c/2", "c/1", "b", "a/x/y", "d"):
        await storage.write(name, [name.encode()])
    (Path(storage.location) / ".hidden").touch()
    assert await storage.files() == {"a/x/y": 5, "b": 1, "c/1": 3, "c/2": 3, "d": 1}
    assert await storage.files("c") == {"c/1": 3, "c/2": 3}
    await storage.write("e", [b""])
    with pytest.raises(CheckpointStorageError, match="has more than 5 files below it: name a"):
        await storage.files()


async def test_files_of_killed_processes_are_found_and_removed(
    storage: FileStorage, tmp_path: Path
) -> None:
    assert await storage.directories() == await storage.directories("a") == []
    for name in ("b/part", "a/c/d", "file"):
        await storage.write(name, [b"1"])
    leave(tmp_path / "checkpoints" / "b" / ".other.0.unfinished")
    leave(tmp_path / "checkpoints" / "e" / ".part.0.unfinished")
    assert await storage.directories() == ["a", "b", "e"]
    assert await storage.directories("a") == ["c"]
    await storage.delete_unfinished("b")
    await storage.delete_unfinished("nowhere")
    assert everything(storage) == ["a/c/d", "b/part", "e/.part.0.unfinished", "file"]


def leave(file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    file.touch()


async def test_a_directory_goes_with_all_that_is_in_it(
    storage: FileStorage, tmp_path: Path
) -> None:
    await storage.write("a/b/c", [b"1"])
    await storage.write("a/d", [b"2"])
    (Path(storage.location) / "a/.d.0.unfinished").touch()
    await storage.delete_directory("a/b")
    assert await storage.files() == {"a/d": 1}
    await storage.delete("a/d")
    await storage.write("a/e/f", [b"3"])
    await storage.delete_directory("a")
    assert not (tmp_path / "checkpoints" / "a").exists()


async def test_a_file_in_the_way_is_an_error_that_says_so(tmp_path: Path) -> None:
    await FileStorage(tmp_path, CONFIG).write("file", [b""])
    storage = FileStorage(tmp_path / "file", CONFIG)
    with pytest.raises(CheckpointStorageError, match=r"cannot write .*/a: (File|Not)"):
        await storage.write("a", [b""])
    with pytest.raises(CheckpointStorageError, match=r"cannot list .*: Not a directory"):
        await storage.files()


@pytest.mark.parametrize("call", ["write", "create"])
async def test_a_full_disk_leaves_nothing_and_says_what_to_do(
    storage: FileStorage, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(descriptor: int, block: Any) -> int:
        if len(block) > 1:
            return write(descriptor, block[:1])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write = os.write
    monkeypatch.setattr(os, "write", full)
    message = "cannot write .*/a/b: No space left on device; make room there, or name another"
    with pytest.raises(CheckpointStorageFullError, match=message):
        await (storage.write("a/b", [b"123"]) if call == "write" else storage.create("a/b", b"12"))
    assert everything(storage) == []


FILLING = """
import asyncio, resource, sys
from pathlib import Path
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.config import CheckpointingConfig
from flinknet.errors import CheckpointStorageError

resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
storage = FileStorage(Path(sys.argv[1]), CheckpointingConfig())
try:
    asyncio.run(storage.write("c/part", (bytes(500_000) for _ in range(100))))
except CheckpointStorageError as error:
    print(error)
"""


def test_a_limit_of_the_system_that_is_reached_fails_the_file_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    """The kernel refuses the bytes beyond it, as on a full disk."""
    run = subprocess.run(
        [sys.executable, "-c", FILLING, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(f"cannot write {tmp_path}/c/part: File too large; make room")
    assert files_below(tmp_path) == []


async def test_a_cancelled_write_waits_for_its_thread_and_leaves_nothing(
    storage: FileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def slow(descriptor: int, block: Any) -> int:
        began.set()
        may_end.wait()
        return write(descriptor, block)

    write = os.write
    monkeypatch.setattr(os, "write", slow)
    writing = asyncio.create_task(storage.write("part", [b"123"]))
    await asyncio.get_running_loop().run_in_executor(None, began.wait)
    writing.cancel()
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.sleep(0)
    assert not writing.done()
    assert len(everything(storage)) == 1
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert everything(storage) == []


async def test_a_cancelled_call_is_cancelled_even_if_its_thread_fails(
    storage: FileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def failing(*_: object) -> bytes:
        began.set()
        may_end.wait()
        raise OSError(errno.EIO, "the disk")

    monkeypatch.setattr(file_storage, "_read", failing)
    reading = asyncio.create_task(storage.read_range("part", 0, 1))
    await asyncio.get_running_loop().run_in_executor(None, began.wait)
    reading.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_an_error_of_the_blocks_iterator_is_raised(storage: FileStorage) -> None:
    def failing() -> Iterator[bytes]:
        yield bytes(BLOCK_BYTES)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        await storage.write("part", failing())
    assert everything(storage) == []


async def test_a_file_that_is_removed_while_files_are_listed_is_left_out(
    storage: FileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.write("a/1", [b"1"])
    await storage.write("b/2", [b"2"])
    top = Path(storage.location)
    walk = os.walk

    def walked(directory: Path, **options: Any) -> Iterator[tuple[str, list[str], list[str]]]:
        found = [*walk(directory, **options)]
        (top / "a" / "1").unlink()
        options["onerror"](FileNotFoundError(errno.ENOENT, "gone"))
        yield from found

    monkeypatch.setattr(os, "walk", walked)
    assert await storage.files() == {"b/2": 1}


async def test_two_that_make_a_directory_at_once_both_have_it(
    storage: FileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = Path.mkdir

    def late(path: Path, *arguments: Any) -> None:
        mkdir(path, parents=True)
        mkdir(path, *arguments)

    monkeypatch.setattr(Path, "mkdir", late)
    await storage.write("a/b", [b"1"])
    assert everything(storage) == ["a/b"]
