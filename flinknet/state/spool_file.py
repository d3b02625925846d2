"""A temporary file for state that is larger than memory, on its way to a checkpoint or back.

It has no name, so it goes with the process, however that ends.
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
    """A file in ``directory``, None for the system's; to be closed. Raises StateError where there
    is no room."""

    def __init__(self, directory: str | None) -> None:
        self.size = 0
        self._directory = directory
        self._mapped: mmap | None = None
        try:
            self._file = tempfile.TemporaryFile(buffering=0, dir=directory)  # noqa: SIM115
        except OSError as cause:
            raise self._failed(cause) from cause

    def add(self, content: bytes) -> None:
        """Put something behind what is there."""
        try:
            with memoryview(content) as rest:
                at = 0
                while at < len(content):
                    at += self._file.write(rest[at:])
        except OSError as cause:
            raise self._failed(cause) from cause
        self.size += len(content)

    def pieces(self) -> Iterator[bytes]:
        """Iterate over the content, once; then it is gone."""
        try:
            self._file.seek(0)
            while piece := self._file.read(READ_BYTES):
                yield piece
        except OSError as cause:
            raise self._failed(cause) from cause
        finally:
            self.close()

    def view(self) -> mmap | bytes:
        """Return the content as it is on disk, to be looked at before ``close``."""
        if not self.size:
            return b""
        try:
            self._mapped = mmap(self._file.fileno(), self.size, access=ACCESS_READ)
        except OSError as cause:
            raise self._failed(cause) from cause
        return self._mapped

    def close(self) -> None:
        """Let go of the file; idempotent."""
        if self._mapped is not None:
            with suppress(BufferError):  # an error on its way has a part of it in its hands
                self._mapped.close()
        with suppress(OSError):
            self._file.close()

    def _failed(self, cause: OSError) -> StateError:
        where = self._directory or tempfile.gettempdir()
        return StateError(
            f"keyed state cannot be put down in {where} on its way to or from a checkpoint: "
            f"{text_of(cause)}; look for room on that disk, or choose another with "
            "state.rocksdb_directory"
        )
