"""The key groups of a snapshot, one after the other, on their way through a file.

In a checkpoint the sizes of all groups stand in front of the first. Of state that is larger than
memory they are known when all was read, so it is put down once.
"""

from __future__ import annotations

from collections.abc import Iterator

from flinknet.state.entry_writer import WrittenGroup
from flinknet.state.snapshot_format import GroupPlace
from flinknet.state.spool_file import SpoolFile

__all__ = ["SpooledGroups"]


class SpooledGroups:
    """Groups that are put down in the order in which they are to be read, in ``directory``.

    Raises StateError where there is no room; ``close`` is to be called, and may be twice."""

    def __init__(self, directory: str | None) -> None:
        self.places: list[GroupPlace] = []
        self._file = SpoolFile(directory)

    def add(self, group: int, written: WrittenGroup) -> None:
        """Put a complete group down, and forget its pieces."""
        content = b"".join(written.pieces)
        written.pieces.clear()
        place = GroupPlace(group, self._file.size, written.size, written.checksum)
        self._file.add(content)
        self.places.append(place)

    def pieces(self) -> Iterator[bytes]:
        """Iterate over what was put down, once; then it is gone."""
        return self._file.pieces()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
