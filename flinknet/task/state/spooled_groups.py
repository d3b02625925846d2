"""The key groups of a snapshot, one after the other, on their way through a file.

In a checkpoint the sizes of all groups stand in front of the first. Of state that is larger than
memory they are known when all was read, so it is put down once, in a temporary file that has no
name and goes with the process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress

from flinknet.errors import StateError
from flinknet.task.state.entry_writer import WrittenGroup
from flinknet.task.state.snapshot_format import GroupPlace
from flinknet.texts import text_of

__all__ = ["SpooledGroups"]

READ_BYTES = 1 << 20


class SpooledGroups:
    """Groups that are put down in the order in which they are to be read, in ``directory``.

    Raises StateError where there is no room; ``close`` is to be called, and may be twice."""

    def __init__(self, directory: str | None) -> None:
        self.places: list[GroupPlace] = []
        self._directory = directory
        self._size = 0
        try:
            self._file = tempfile.TemporaryFile(buffering=0, dir=directory)  # noqa: SIM115
        except OSError as cause:
            raise self._failed(cause) from cause

    def add(self, group: int, written: WrittenGroup) -> None:
        """Put a complete group down, and forget its pieces."""
        content = b"".join(written.pieces)
        written.pieces.clear()
        self.places.append(GroupPlace(group, self._size, written.size, written.checksum))
        self._size += len(content)
        try:
            with memoryview(content) as rest:
                at = 0
                while at < len(content):
                    at += self._file.write(rest[at:])
        except OSError as cause:
            raise self._failed(cause) from cause

    def pieces(self) -> Iterator[bytes]:
        """Iterate over what was put down, once; then it is gone."""
        try:
            self._file.seek(0)
            while piece := self._file.read(READ_BYTES):
                yield piece
        except OSError as cause:
            raise self._failed(cause) from cause
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file."""
        with suppress(OSError):
            self._file.close()

    def _failed(self, cause: OSError) -> StateError:
        where = self._directory or tempfile.gettempdir()
        return StateError(
            f"a snapshot of keyed state cannot be put down in {where}: {text_of(cause)}; look for "
            "room on that disk, or choose another with state.rocksdb_directory"
        )
