"""Where a worker has the files of its running jobs' state, and what is left when workers are gone.

Theory of operation. A worker has one directory below ``base``, made when a job first needs it, and
in it one for each attempt. A file in it is locked as long as the worker lives, however it ends: so
whoever gets the lock knows that the worker is gone, and removes the directory. The directory gets
its name when the file is locked; nobody looks at those with another name.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from flinknet.errors import StateError

__all__ = ["StateDirectories"]

PREFIX = "flinknet-state-"
UNNAMED = "flinknet-new-state-"
LOCK = "lock"


class StateDirectories:
    """The directories of one worker; ``base`` is empty for the system's temporary directory."""

    def __init__(self, base: str) -> None:
        self.base = Path(base or tempfile.gettempdir())
        self._own: Path | None = None
        self._lock = -1

    def remove_leftovers(self) -> list[Path]:
        """Remove what workers have left that are gone, and return it."""
        removed = []
        for directory in self.base.glob(f"{PREFIX}*"):
            with suppress(OSError):
                lock = os.open(directory / LOCK, os.O_RDWR)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(directory, ignore_errors=True)
                    removed.append(directory)
                finally:
                    os.close(lock)
        return removed

    def of_attempt(self, job_id: str, attempt: int) -> Path:
        """Return the directory of an attempt, which is not there yet. Raises StateError."""
        if self._own is None:
            try:
                self._own = self._make()
            except OSError as cause:
                raise StateError(
                    f"there is no place for the state of running jobs in {self.base}: "
                    f"{cause.strerror}; choose another with state.rocksdb_directory"
                ) from cause
        return self._own / f"{job_id}-{attempt}"

    def close(self) -> None:
        """Remove everything; idempotent."""
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)
            os.close(self._lock)
            self._own = None

    def _make(self) -> Path:
        self.base.mkdir(parents=True, exist_ok=True)
        unnamed = Path(tempfile.mkdtemp(prefix=UNNAMED, dir=self.base))
        self._lock = os.open(unnamed / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return unnamed.rename(unnamed.with_name(PREFIX + unnamed.name.removeprefix(UNNAMED)))
