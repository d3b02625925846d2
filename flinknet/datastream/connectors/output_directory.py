"""A directory whose content is replaced as a whole: the output of one job, or the one before.

Theory of operation
-------------------
Writers fill a *staging* directory beside the output, ``.NAME.TRANSACTION.staging``; readers pass
over names that begin with a dot. The commit writes a *manifest* into it (``_flinknet.json``: the
transaction and its files) and exchanges the two directories in one step (Linux: ``renameat2`` with
RENAME_EXCHANGE); an output that is not there yet, or is empty, is replaced by a plain rename. Then
what was there before is removed. Files of one transaction have names of their own, so that a reader
which listed the directory before and opens a file after misses it, and never mixes two results.

What a crash leaves, by the last step that was done:

    staged               the result before; the staging directory is left over
    manifest written     the same
    exchanged            the new result; the one before is left over under the staging name
    (two renames)        see below

The same commit may be called again, anywhere: the manifest of the output says whether it has been
done. One that is called while another one runs waits for it (``flock`` on the directory around the
output, where there is such a thing): done twice at once, the second would exchange the directories
back. Leftovers of other transactions are removed by the next commit. So of two jobs that write to
one output at the same time one commits and the other fails with that reason.

Where directories cannot be exchanged (other systems, some network file systems) the output is
renamed to ``.NAME.TRANSACTION.replaced`` before the staging directory takes its place: readers find
no directory for a moment, never a mixture. A crash just there leaves none; the next job that opens
the output puts the result before back (``repair``), and the same commit, called again, goes on.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from flinknet.datastream.connectors.part_names import PARQUET_PARTS, PartNames
from flinknet.errors import ConfigurationError, JobFailedError

__all__ = ["MANIFEST", "OutputDirectory"]

MANIFEST = "_flinknet.json"

_STAGING = ".staging"
_REPLACED = ".replaced"
_ABORTED = ".aborted"

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


class OutputDirectory:
    """One transaction's view of an output directory; every process that takes part has its own."""

    def __init__(self, path: Path, transaction: str, names: PartNames = PARQUET_PARTS) -> None:
        """``transaction`` is the same in all processes of a job attempt, and in no other one."""
        self.path = path.resolve()
        self.transaction = transaction
        self._names = names
        self.staging = self._beside(transaction, _STAGING)

    def open(self) -> None:
        """Make the staging directory, and put right what a crash has left.

        ConfigurationError if the output must not be replaced.
        """
        self.repair()
        self.check_replaceable()
        self.staging.mkdir(parents=True, exist_ok=True)

    def check_replaceable(self) -> None:
        """Raise ConfigurationError if the output holds what no job has written."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise ConfigurationError(f"{self.path} is a file: choose a directory for the output")
        own = {MANIFEST, *self._manifest().get("files", ())}
        for entry in self.path.iterdir():
            if entry.name not in own and not self._names.is_own(entry.name):
                raise ConfigurationError(
                    f"{self.path} holds {entry.name}, which no job has written there and which a "
                    "result would replace: remove it or choose another path"
                )

    def name(self, index: int, parallelism: int, number: int) -> str:
        """How a subtask's file is called."""
        return self._names.of_job(index, parallelism, self.transaction, number)

    def writable(self, name: str) -> Path:
        """Where it is until it is committed."""
        return self.staging / name

    def persist(self, names: Iterable[str]) -> None:
        """Have staged files survive a loss of power."""
        for name in names:
            with self.writable(name).open("rb") as opened:
                os.fsync(opened.fileno())

    def close(self) -> None:
        """It holds nothing of its own."""

    def commit(self, files: Sequence[str]) -> None:
        """Make the staged files, and nothing else, the content of the output; idempotent.

        JobFailedError if they are not there any more, ConfigurationError if the output must not be
        replaced, OSError if it cannot be.
        """
        with _alone_in(self.path.parent):
            if not self._is_committed():
                self._require_staged(files)
                self.check_replaceable()
                self._write_manifest(files)
                self._take_place()
            self._remove_leftovers()

    def abort(self) -> None:
        """Remove what is staged, unless it has been committed; idempotent."""
        aborted = self._beside(self.transaction, _ABORTED)
        # In one step first: a commit that still runs elsewhere finds all of it or nothing.
        with suppress(FileNotFoundError):
            self.staging.rename(aborted)
        shutil.rmtree(aborted, ignore_errors=True)

    def repair(self) -> None:
        """Put the result before back, if a crash between two renames has left none."""
        if self.path.exists():
            return
        for replaced in sorted(self._all_beside(_REPLACED)):
            # Another subtask may do the same at this moment.
            with suppress(OSError):
                replaced.rename(self.path)

    def _is_committed(self) -> bool:
        return self._manifest().get("transaction") == self.transaction

    def _manifest(self) -> dict[str, Any]:
        """Return that of the result that is there; an empty one if there is none."""
        try:
            manifest = json.loads((self.path / MANIFEST).read_text())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}
        return manifest if isinstance(manifest, dict) else {}

    def _require_staged(self, files: Sequence[str]) -> None:
        """Require that the files are there, and remove what others left among them."""
        present = {entry.name for entry in self.staging.iterdir()} if self.staging.is_dir() else ()
        missing = sorted(set(files).difference(present))
        if missing or not self.staging.is_dir():
            raise JobFailedError(
                f"{', '.join(missing) or 'the directory'} of {self.staging} is gone before its "
                f"commit: only one job at a time may write to {self.path}"
            )
        for name in set(present) - set(files):
            (self.staging / name).unlink()

    def _write_manifest(self, files: Sequence[str]) -> None:
        manifest = {"transaction": self.transaction, "files": sorted(files)}
        with (self.staging / MANIFEST).open("w") as file:
            json.dump(manifest, file)
            file.flush()
            os.fsync(file.fileno())
        _sync(self.staging)

    def _take_place(self) -> None:
        """Let the staging directory become the output, and the output, if any, a leftover."""
        if not self.path.exists() or not any(self.path.iterdir()):
            self.staging.rename(self.path)
        elif not _exchange(self.staging, self.path):
            replaced = self._beside(self.transaction, _REPLACED)
            self.path.rename(replaced)
            try:
                self.staging.rename(self.path)
            except OSError:
                replaced.rename(self.path)
                raise
        _sync(self.path.parent)

    def _remove_leftovers(self) -> None:
        for suffix in (_STAGING, _REPLACED, _ABORTED):
            for leftover in self._all_beside(suffix):
                shutil.rmtree(leftover, ignore_errors=True)

    def _beside(self, transaction: str, suffix: str) -> Path:
        return self.path.with_name(f".{self.path.name}.{transaction}{suffix}")

    def _all_beside(self, suffix: str) -> list[Path]:
        own = re.compile(rf"\.{re.escape(self.path.name)}\.[0-9A-Za-z-]+{re.escape(suffix)}")
        parent = self.path.parent
        if not parent.is_dir():
            return []
        return [entry for entry in parent.iterdir() if own.fullmatch(entry.name)]


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Let nobody else commit there meanwhile; the lock of a process that is killed is free."""
    with ExitStack() as stack:
        with suppress(OSError):  # it is gone, or on a file system without locks
            descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _exchange(one: Path, other: Path) -> bool:
    """Let two directories change places in one step; say whether this system can do that."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))


def _sync(directory: Path) -> None:
    """Have the names in a directory survive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
