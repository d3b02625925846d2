"""What a place for checkpoints must be able to do: files by path, whole ones only.

A path is names joined by ``/``, below the place's own location. What is being written has no name
yet, so a reader finds all of a file or nothing, after a crash too; and what was created stays after
a loss of power, with all that was written to the same directory before. Two implementations:
``file_storage.py`` and ``object_storage.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

__all__ = ["Storage"]


class Storage(Protocol):
    """A place for checkpoints. Everything raises CheckpointStorageError, which names path and
    reason; a call that is cancelled leaves nothing half written."""

    location: str
    """Where it is, for people."""

    async def write(self, path: str, blocks: Iterable[bytes]) -> None:
        """Write a file of these blocks, in place of one that may be there.

        Blocks are asked for on the event loop, a few at a time, between which others have their
        turn; they are best some tens of KiB. What ``blocks`` raises is raised, and nothing is
        written.
        """
        ...

    async def create(self, path: str, content: bytes) -> bool:
        """Write a file if there is none with this path; otherwise change nothing, and return False.

        Of several that try at the same time, one gets True.
        """
        ...

    async def read(self, path: str, bytes_max: int) -> bytes:
        """Return a file's content. CheckpointNotFoundError if there is none,
        CheckpointStorageError too if it is larger than ``bytes_max``."""
        ...

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes of a file from ``start`` on, fewer where it ends before.
        CheckpointNotFoundError if there is none."""
        ...

    async def files(self, directory: str = "") -> dict[str, int]:
        """Return the path and the size in bytes of every file below a directory, at any depth, in
        order; nothing if there is no such directory. Files that are being written are left out.

        CheckpointStorageError if there are more than ``checkpointing.files_max``.
        """
        ...

    async def directories(self, directory: str = "") -> list[str]:
        """Return the names of the directories in a directory, in order, those too that hold nothing
        but files that are being written; nothing if there is no such directory."""
        ...

    async def delete(self, path: str) -> None:
        """Remove a file, if there is one."""
        ...

    async def delete_unfinished(self, directory: str) -> None:
        """Remove what killed processes have left of files that they were writing in a directory.

        Nobody may be writing there, or what is being written fails.
        """
        ...

    async def delete_directory(self, directory: str) -> None:
        """Remove every file below a directory, also those that are being written."""
        ...
