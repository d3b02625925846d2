"""Temporary directories that are removed after their process ends, even by a crash.

Each directory has a file that is locked while its process lives. If a later process gets the lock,
the first process is gone, and the later one removes the directory. The directory gets its final
name after the file is locked; processes ignore directories with other names.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["LockedDirectory", "remove_leftovers"]

_UNNAMED = ".new-"
_LOCK = "owner.lock"


class LockedDirectory:
    """A temporary directory at ``path``; ``close`` removes it."""

    def __init__(self, prefix: str, base: Path) -> None:
        """Create a directory in ``base`` with a name that begins with ``prefix``.

        Raises OSError if it cannot be created.
        """
        unnamed = Path(tempfile.mkdtemp(prefix=_UNNAMED + prefix, dir=base))
        self._lock = os.open(unnamed / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Processes ignore the directory until it has its name, which it gets under the lock.
        self.path = unnamed.rename(unnamed.with_name(unnamed.name.removeprefix(_UNNAMED)))
        self._is_closed = False

    def close(self) -> None:
        """Remove the directory with its contents; idempotent."""
        if not self._is_closed:
            self._is_closed = True
            shutil.rmtree(self.path, ignore_errors=True)
            # Closing the file releases the lock.
            os.close(self._lock)


def remove_leftovers(prefix: str, base: Path) -> list[Path]:
    """Remove directories with this prefix left by ended processes, and return their paths."""
    removed = []
    for directory in base.glob(f"{prefix}*"):
        with suppress(OSError):
            lock = os.open(directory / _LOCK, os.O_RDWR)
            try:
                # Fails with OSError while the owner lives.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
                removed.append(directory)
            finally:
                os.close(lock)
    return removed
