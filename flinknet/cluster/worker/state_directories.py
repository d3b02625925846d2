"""Where a worker has the files of its running jobs' state, and what is left when workers are gone.

A worker has one directory below ``base``, made when a job first needs it, and in it one for each
attempt. It goes with the worker, or when the next one starts (``locked_directory.py``).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from flinknet.config.locked_directory import LockedDirectory, remove_leftovers
from flinknet.errors import StateError

__all__ = ["StateDirectories"]

PREFIX = "flinknet-state-"


class StateDirectories:
    """The directories of one worker; ``base`` is empty for the system's temporary directory."""

    def __init__(self, base: str) -> None:
        self.base = Path(base or tempfile.gettempdir())
        self._own: LockedDirectory | None = None

    def remove_leftovers(self) -> list[Path]:
        """Remove what workers have left that are gone, and return it."""
        return remove_leftovers(PREFIX, self.base)

    def of_attempt(self, job_id: str, attempt: int) -> Path:
        """Return the directory of an attempt, which is not there yet. Raises StateError."""
        if self._own is None:
            try:
                self.base.mkdir(parents=True, exist_ok=True)
                self._own = LockedDirectory(PREFIX, self.base)
            except OSError as cause:
                raise StateError(
                    f"there is no place for the state of running jobs in {self.base}: "
                    f"{cause.strerror}; choose another with state.rocksdb_directory"
                ) from cause
        return self._own.path / f"{job_id}-{attempt}"

    def close(self) -> None:
        """Remove everything; idempotent."""
        if self._own is not None:
            self._own.close()
            self._own = None
