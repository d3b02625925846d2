"""The interface of checkpoint storage: files by path, which appear completely or not at all.

A path consists of names joined by ``/``, below the storage's location. A file that is being written
has no name yet. So a reader finds a complete file or none, even after a crash. A created file
survives a loss of power, together with all files written to the same directory before. There are
two implementations: ``file_storage.py`` and ``object_storage.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

__all__ = ["Storage"]


class Storage(Protocol):
    """Storage for checkpoints.

    All methods raise CheckpointStorageError, which names path and reason. A cancelled call leaves
    no partial file.
    """

    location: str
    """Location of the storage, for people."""

    async def write(self, path: str, blocks: Iterable[bytes]) -> None:
        """Write a file of these blocks, replacing an existing one.

        ``blocks`` is iterated on the event loop, a few blocks at a time, with pauses for other
        tasks; blocks of some tens of KiB are best. An error of ``blocks`` is raised, and no file is
        written.
        """
        ...

    async def create(self, path: str, content: bytes) -> bool:
        """Write a file if none exists at this path; otherwise change nothing and return False.

        Of several concurrent calls, exactly one returns True.
        """
        ...

    async def read(self, path: str, bytes_max: int) -> bytes:
        """Return the content of a file.

        Raises CheckpointNotFoundError if there is none, CheckpointStorageError if it exceeds
        ``bytes_max``.
        """
        ...

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes of a file from ``start``, or fewer at its end.

        Raises CheckpointNotFoundError if there is none.
        """
        ...

    async def files(self, directory: str = "") -> dict[str, int]:
        """Return path and size in bytes of all files below a directory, at any depth, in order.

        The result is empty if there is no such directory. Unfinished files are left out. Raises
        CheckpointStorageError if there are more than ``checkpointing.files_max``.
        """
        ...

    async def directories(self, directory: str = "") -> list[str]:
        """Return the names of the subdirectories of a directory, in order.

        Subdirectories that only hold unfinished files are included. The result is empty if there is
        no such directory.
        """
        ...

    async def delete(self, path: str) -> None:
        """Remove a file, if it exists."""
        ...

    async def delete_unfinished(self, directory: str) -> None:
        """Remove unfinished files in a directory, which killed processes have left.

        No process may be writing there, because its write would fail.
        """
        ...

    async def delete_directory(self, directory: str) -> None:
        """Remove every file below a directory, including unfinished ones."""
        ...
