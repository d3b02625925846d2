"""Checkpoint storage in a directory that all processes of the cluster can reach.

Theory of operation
-------------------
A file is written under a name that begins with a dot, and made durable (fsync). After that it gets
its own name. ``write`` uses ``rename``, which replaces an existing file; ``create`` uses
``link``, which fails if a file exists. After a ``link`` the directory is made durable, which covers
all names in it. A renamed file is not durable by itself. That suffices for the parts of a
checkpoint, because the metadata is linked in the same directory after all parts are written. (A
sync per name took as long as writing a small part.) A failed call removes its files. The remains of
a killed process are removed with their directory.

Every system call runs in a thread, because a disk may take seconds. A cancelled call first waits
for its thread, so that no thread writes to a closed or removed file.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from flinknet.config import CheckpointingConfig
from flinknet.errors import (
    CheckpointNotFoundError,
    CheckpointStorageError,
    CheckpointStorageFullError,
)
from flinknet.machine import monotonic, token_hex

__all__ = ["FileStorage"]

BLOCK_BYTES = 1 << 20
COLLECT_S = 0.002
"""Size in bytes and time in seconds up to which blocks are collected before a thread writes them.
With less, the switch to the thread takes longer than the write. With more, collecting keeps the
event loop from other work."""

_UNFINISHED = ".unfinished"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Result = TypeVar("Result")


class FileStorage:
    """A directory as checkpoint storage; it need not exist before the first write."""

    def __init__(self, directory: Path, config: CheckpointingConfig) -> None:
        self.location = str(directory)
        self._directory = directory
        self._files_max = config.files_max

    async def write(self, path: str, blocks: Iterable[bytes]) -> None:
        """Write a file; see ``Storage.write``."""
        with self._explained("write", path):
            unfinished = _Unfinished(self._directory / path)
            try:
                for block, is_last in _collected(blocks):
                    # Each thread call costs a turn of the loop, which may be busy. So the last
                    # block and the rename share one call.
                    await _in_thread(unfinished.write_last if is_last else unfinished.write, block)
            except BaseException:
                unfinished.give_up()
                raise
            finally:
                # Two system calls, made without a thread even if this task is being cancelled.
                unfinished.remove()

    async def create(self, path: str, content: bytes) -> bool:
        """Create a file; see ``Storage.create``."""
        with self._explained("write", path):
            return await _in_thread(_create, self._directory / path, content)

    async def read(self, path: str, bytes_max: int) -> bytes:
        """Read a file; see ``Storage.read``."""
        with self._explained("read", path):
            content = await _in_thread(_read, self._directory / path, 0, bytes_max + 1)
        if len(content) > bytes_max:
            raise CheckpointStorageError(
                f"{self.location}/{path} is larger than the {bytes_max} bytes that are allowed"
            )
        return content

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """Read a range of a file; see ``Storage.read_range``."""
        with self._explained("read", path):
            return await _in_thread(_read, self._directory / path, start, length)

    async def files(self, directory: str = "") -> dict[str, int]:
        """List files with their sizes; see ``Storage.files``."""
        with self._explained("list", directory):
            found = await _in_thread(self._walk, self._directory / directory)
        if len(found) > self._files_max:
            raise CheckpointStorageError(
                f"{self.location}/{directory} has more than {self._files_max} files below it: name "
                "a directory of checkpoints, or raise checkpointing.files_max"
            )
        return dict(sorted(found.items()))

    async def directories(self, directory: str = "") -> list[str]:
        """List subdirectories; see ``Storage.directories``."""
        with self._explained("list", directory):
            return await _in_thread(_directories, self._directory / directory)

    async def delete(self, path: str) -> None:
        """Delete a file; see ``Storage.delete``."""
        with self._explained("remove", path):
            await _in_thread(_delete, self._directory / path)

    async def delete_unfinished(self, directory: str) -> None:
        """Delete unfinished files; see ``Storage.delete_unfinished``."""
        with self._explained("clean", directory):
            await _in_thread(_delete_unfinished, self._directory / directory)

    async def delete_directory(self, directory: str) -> None:
        """Delete a directory with its files; see ``Storage.delete_directory``."""
        with self._explained("remove", directory):
            await _in_thread(_delete_directory, self._directory / directory)

    def _walk(self, top: Path) -> dict[str, int]:
        """Return files with their sizes, at most one more than the limit."""
        found: dict[str, int] = {}
        for folder, _, names in os.walk(top, onerror=_unless_gone):
            for name in names:
                file = Path(folder, name)
                if not name.startswith("."):
                    with suppress(FileNotFoundError):
                        found[file.relative_to(self._directory).as_posix()] = file.stat().st_size
                if len(found) > self._files_max:
                    return found
        return found

    @contextmanager
    def _explained(self, done: str, path: str) -> Iterator[None]:
        """Convert an error of the operating system to one that names the path."""
        try:
            yield
        except OSError as cause:
            text = f"cannot {done} {self.location}/{path}: {cause.strerror or cause}"
            if isinstance(cause, FileNotFoundError):
                raise CheckpointNotFoundError(text) from cause
            if cause.errno in _NO_SPACE:
                text += "; make room there, or name another place in checkpointing.directory"
                raise CheckpointStorageFullError(text) from cause
            raise CheckpointStorageError(text) from cause


async def _in_thread(function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function in a thread; a cancellation takes effect when the function has returned."""
    running = asyncio.get_running_loop().run_in_executor(None, partial(function, *arguments))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        running.exception()  # Mark the error as retrieved: no caller is left to take it.
        raise cancelled
    return running.result()


def _collected(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Join small blocks into blocks worth a thread call; yield each with whether it is the last."""
    waiting: list[bytes] = []
    size = 0
    began = monotonic()
    for block in blocks:
        waiting.append(block)
        size += len(block)
        if size >= BLOCK_BYTES or monotonic() - began >= COLLECT_S:
            yield b"".join(waiting), False
            waiting, size = [], 0
            began = monotonic()
    yield b"".join(waiting), True


class _Unfinished:
    """A file that does not have its final name yet."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._path = target.with_name(f".{target.name}.{token_hex(8)}{_UNFINISHED}")
        self._descriptor: int | None = None
        self._has_place = False

    def write(self, block: bytes) -> None:
        if self._descriptor is None:
            _make_directory(self._target.parent)
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        left = memoryview(block)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def write_last(self, block: bytes) -> None:
        """Write the last block, and give the file its name."""
        self.write(block)
        self.take_place()

    def take_place(self) -> None:
        """Give the file its name; replace an existing file."""
        # The new name is not durable by itself. The link of the metadata makes all names in the
        # directory durable, and a sync for each name takes as long as writing a small part.
        self._sync()
        self._path.rename(self._target)
        self._has_place = True

    def take_free_place(self) -> bool:
        """Give the file its name unless another file has it; return whether it was given."""
        self._sync()
        try:
            self._target.hardlink_to(self._path)
        except FileExistsError:
            return False
        _sync(self._target.parent)  # This also covers the names of the parts beside it.
        return True

    def give_up(self) -> None:
        """Remove the file again if it got its name in a call that did not return normally."""
        if self._has_place:
            self._target.unlink(missing_ok=True)

    def remove(self) -> None:
        """Close the file, and remove its temporary name if it still exists."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._path.unlink(missing_ok=True)

    def _sync(self) -> None:
        assert self._descriptor is not None
        os.fsync(self._descriptor)


def _create(target: Path, content: bytes) -> bool:
    unfinished = _Unfinished(target)
    try:
        unfinished.write(content)
        return unfinished.take_free_place()
    finally:
        unfinished.remove()


def _read(target: Path, start: int, length: int) -> bytes:
    with target.open("rb") as file:
        file.seek(start)
        return file.read(length)


def _delete(target: Path) -> None:
    with suppress(FileNotFoundError):
        target.unlink()
        _sync(target.parent)


def _directories(top: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return sorted(entry.name for entry in top.iterdir() if entry.is_dir())
    return []


def _delete_unfinished(top: Path) -> None:
    for unfinished in top.glob(f".*{_UNFINISHED}"):
        unfinished.unlink(missing_ok=True)


def _delete_directory(top: Path) -> None:
    for folder, folders, names in os.walk(top, topdown=False, onerror=_unless_gone):
        for name in names:
            Path(folder, name).unlink(missing_ok=True)
        for name in folders:
            Path(folder, name).rmdir()
    with suppress(FileNotFoundError):
        top.rmdir()
        _sync(top.parent)


def _make_directory(directory: Path) -> None:
    """Create a directory with its parents, and make them durable."""
    if not directory.is_dir():
        _make_directory(directory.parent)
        with suppress(FileExistsError):
            directory.mkdir()
        _sync(directory.parent)


def _sync(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unless_gone(error: OSError) -> None:
    """Ignore a directory that was removed concurrently."""
    if not isinstance(error, FileNotFoundError):
        raise error
