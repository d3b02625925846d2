"""An output directory with atomic replacement: it holds the result of one job or of the previous.

Writers fill a *staging* directory beside the output, ``.NAME.TRANSACTION.staging``. Readers ignore
names that begin with a dot. The commit writes a *manifest* into the staging directory
(``_flinknet.json``: the transaction and its files). Then it exchanges the two directories in one
step (Linux: ``renameat2`` with RENAME_EXCHANGE), or renames the staging directory if the output is
missing or empty. Finally it removes the previous result. File names contain the transaction. A
reader that listed the directory before the exchange and opens a file after it finds the file
missing; it never mixes two results.

The state after a crash, by the last step completed:

    staged               the previous result; the staging directory is left over
    manifest written     the same
    exchanged            the new result; the previous one is left over under the staging name
    (two renames)        see below

A commit can be repeated, from anywhere: the manifest of the output tells whether it was done. A
commit waits for one that is running (``flock`` on the parent directory, where the file system has
locks), because two at once would exchange the directories twice. The next commit removes the
leftovers of other transactions. If two jobs write to one output at the same time, one commits and
the other fails with that reason.

Some systems and network file systems cannot exchange directories. There the output is renamed to
``.NAME.TRANSACTION.replaced`` before the staging directory takes its place. For a moment readers
find no directory, but never a mixture. A crash at this moment leaves no output. The next job that
opens the output restores the previous result (``repair``), and a repeated commit continues from
there.
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

# Arguments of Linux's renameat2.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""Errors of systems and file systems that cannot exchange directories."""


class OutputDirectory:
    """One transaction's view of an output directory; each process involved has its own."""

    def __init__(self, path: Path, transaction: str, names: PartNames = PARQUET_PARTS) -> None:
        """Create a view; all processes of a job attempt share ``transaction``, and only they."""
        self.path = path.resolve()
        self.transaction = transaction
        self._names = names
        self.staging = self._beside(transaction, _STAGING)

    def open(self) -> None:
        """Create the staging directory, and repair the output after a crash.

        Raises ConfigurationError if the output must not be replaced.
        """
        self.repair()
        self.check_replaceable()
        self.staging.mkdir(parents=True, exist_ok=True)

    def check_replaceable(self) -> None:
        """Raise ConfigurationError if the output holds an entry that no job has written."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise ConfigurationError(f"{self.path} is a file: choose a directory for the output")
        own = {MANIFEST, *self._manifest().get("files", ())}
        for entry in self.path.iterdir():
            if entry.name not in own and not self._names.is_own(entry.name):
                raise ConfigurationError(
                    f"{self.path} holds {entry.name}, which was not written by a job and would be "
                    "replaced: remove it or choose another path"
                )

    def name(self, index: int, parallelism: int, number: int) -> str:
        """Return the name of a subtask's file."""
        return self._names.of_job(index, parallelism, self.transaction, number)

    def writable(self, name: str) -> Path:
        """Return the file's path until it is committed."""
        return self.staging / name

    def persist(self, names: Iterable[str]) -> None:
        """Flush staged files to disk, so that they survive a power failure."""
        for name in names:
            with self.writable(name).open("rb") as opened:
                os.fsync(opened.fileno())

    def close(self) -> None:
        """Do nothing: the view holds no resources."""

    def commit(self, files: Sequence[str]) -> None:
        """Replace the content of the output by exactly the staged files; idempotent.

        Raises JobFailedError if the files are missing, ConfigurationError if the output must not be
        replaced, and OSError if it cannot be.
        """
        # Two commits at once would exchange the directories twice.
        with _alone_in(self.path.parent):
            if not self._is_committed():
                self._require_staged(files)
                self.check_replaceable()
                self._write_manifest(files)
                self._take_place()
            self._remove_leftovers()

    def abort(self) -> None:
        """Remove the staging directory, unless it was committed; idempotent."""
        aborted = self._beside(self.transaction, _ABORTED)
        # Rename it first, in one step: a commit that runs elsewhere then finds all files or none.
        with suppress(FileNotFoundError):
            self.staging.rename(aborted)
        shutil.rmtree(aborted, ignore_errors=True)

    def repair(self) -> None:
        """Restore the previous result if a crash between two renames has left no output."""
        if self.path.exists():
            return
        for replaced in sorted(self._all_beside(_REPLACED)):
            # Another subtask may be doing the same.
            with suppress(OSError):
                replaced.rename(self.path)

    def _is_committed(self) -> bool:
        return self._manifest().get("transaction") == self.transaction

    def _manifest(self) -> dict[str, Any]:
        """Return the manifest of the present result; an empty dict if there is none."""
        try:
            manifest = json.loads((self.path / MANIFEST).read_text())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}
        return manifest if isinstance(manifest, dict) else {}

    def _require_staged(self, files: Sequence[str]) -> None:
        """Check that the staged files exist, and remove all other staged files."""
        present = {entry.name for entry in self.staging.iterdir()} if self.staging.is_dir() else ()
        missing = sorted(set(files).difference(present))
        if missing or not self.staging.is_dir():
            raise JobFailedError(
                f"{', '.join(missing) or 'the directory'} of {self.staging} was removed before its "
                f"commit: only one job at a time may write to {self.path}"
            )
        for name in set(present) - set(files):
            (self.staging / name).unlink()

    def _write_manifest(self, files: Sequence[str]) -> None:
        manifest = {"transaction": self.transaction, "files": sorted(files)}
        with (self.staging / MANIFEST).open("w") as file:
            json.dump(manifest, file)
            file.flush()
            # The manifest must be on disk before the directories are exchanged.
            os.fsync(file.fileno())
        _sync(self.staging)

    def _take_place(self) -> None:
        """Move the staging directory to the output's place; the old output becomes a leftover."""
        if not self.path.exists() or not any(self.path.iterdir()):
            self.staging.rename(self.path)
        # Readers find no directory between the two renames, but never a mixture.
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
    """Hold an exclusive lock on the directory during a commit.

    The system releases the lock of a killed process.
    """
    with ExitStack() as stack:
        with suppress(OSError):  # the directory is gone, or its file system has no locks
            descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two directories atomically; return whether this system can do that."""
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
    """Flush the entries of a directory to disk, so that they survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
