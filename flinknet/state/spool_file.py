"""Spool file: temporary file for state larger than memory, on its way to a checkpoint or back.

It has no name, so it disappears with the process, however the process ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from mmap import ACCESS_READ, mmap

from flinknet.errors import StateError
from flinknet.texts import text_of

__all__ = ["SpoolFile"]

READ_BYTES = 1 << 20


class SpoolFile:
    """Temporary file in ``directory``, or in the system's directory for None; must be closed.

    Raises StateError if there is no space.
    """

    def __init__(self, directory: str | None) -> None:
        self.size = 0
        self._directory = directory
        self._mapped: mmap | None = None
        try:
            self._file = tempfile.TemporaryFile(buffering=0, dir=directory)  # noqa: SIM115
        except OSError as cause:
            raise self._failed(cause) from cause

    def add(self, content: bytes) -> None:
        """Append bytes."""
        try:
            with memoryview(content) as rest:
                at = 0
                while at < len(content):  # a write may be short
                    at += self._file.write(rest[at:])
        except OSError as cause:
            raise self._failed(cause) from cause
        self.size += len(content)

    def pieces(self) -> Iterator[bytes]:
        """Iterate over the content once; this closes the file."""
        try:
            self._file.seek(0)
            while piece := self._file.read(READ_BYTES):
                yield piece
        except OSError as cause:
            raise self._failed(cause) from cause
        finally:
            self.close()

    def view(self) -> mmap | bytes:
        """Return a view of the content on disk, valid until ``close``."""
        if not self.size:
            return b""
        try:
            self._mapped = mmap(self._file.fileno(), self.size, access=ACCESS_READ)
        except OSError as cause:
            raise self._failed(cause) from cause
        return self._mapped

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._mapped is not None:
            with suppress(BufferError):  # the traceback of an error may hold a part of the mapping
                self._mapped.close()
        with suppress(OSError):
            self._file.close()

    def _failed(self, cause: OSError) -> StateError:
        where = self._directory or tempfile.gettempdir()
        return StateError(
            f"keyed state cannot be stored in {where} while a checkpoint is written or restored: "
            f"{text_of(cause)}; free space on that disk, or choose another one with "
            "state.rocksdb_directory"
        )
