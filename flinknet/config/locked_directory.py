"""Temporary directories that go with the process that has made them, however that ends.

Theory of operation. Each has a file that is locked for as long as its process lives. A later
process that gets the lock knows that the first one is gone, and removes the directory. The
directory gets its name when the file is locked; no process looks at those with another name.
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
    """One directory, ``path``; ``close`` removes it."""

    def __init__(self, prefix: str, base: Path) -> None:
        """Make a directory in ``base`` whose name begins with ``prefix``; OSError if it cannot."""
        unnamed = Path(tempfile.mkdtemp(prefix=_UNNAMED + prefix, dir=base))
        self._lock = os.open(unnamed / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = unnamed.rename(unnamed.with_name(unnamed.name.removeprefix(_UNNAMED)))
        self._is_closed = False

    def close(self) -> None:
        """Remove it with what is in it; idempotent."""
        if not self._is_closed:
            self._is_closed = True
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)


def remove_leftovers(prefix: str, base: Path) -> list[Path]:
    """Remove the directories with this prefix whose processes are gone, and return them."""
    removed = []
    for directory in base.glob(f"{prefix}*"):
        with suppress(OSError):
            lock = os.open(directory / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
                removed.append(directory)
            finally:
                os.close(lock)
    return removed
