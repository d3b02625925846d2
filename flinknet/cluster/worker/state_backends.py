"""The backends that keep the keyed state of jobs on a worker."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

from flinknet.config.locked_directory import LockedDirectory, remove_leftovers
from flinknet.config.state import StateBackendName, StateConfig
from flinknet.errors import ConfigurationError, StateError
from flinknet.state.keyed_state_backend import KeyedStateBackend
from flinknet.state.state_handler import BackendFactory
from flinknet.state.value_serializer import ValueSerializer

__all__ = ["AttemptBackends", "StateBackends", "StateDirectories"]


PREFIX = "flinknet-state-"


class StateDirectories:
    """The directories for the state of a worker's running jobs.

    A worker has one directory below ``base``, made when a job first needs it. Each attempt has a
    directory in it. The worker removes its directory when it ends, and a later worker removes
    leftovers at its start (``locked_directory.py``).
    """

    def __init__(self, base: str) -> None:
        """``base`` is empty for the system's temporary directory."""
        self.base = Path(base or tempfile.gettempdir())
        self._own: LockedDirectory | None = None

    def remove_leftovers(self) -> list[Path]:
        """Remove the directories of dead workers, and return their paths."""
        return remove_leftovers(PREFIX, self.base)

    def of_attempt(self, job_id: str, attempt: int) -> Path:
        """Return the directory of an attempt, without making it. Raises StateError."""
        if self._own is None:
            try:
                self.base.mkdir(parents=True, exist_ok=True)
                self._own = LockedDirectory(PREFIX, self.base)
            except OSError as cause:
                raise StateError(
                    f"the state of running jobs cannot be kept in {self.base}: "
                    f"{cause.strerror}; set state.rocksdb_directory to another directory"
                ) from cause
        return self._own.path / f"{job_id}-{attempt}"

    def close(self) -> None:
        """Remove everything; idempotent."""
        if self._own is not None:
            self._own.close()
            self._own = None


class AttemptBackends:
    """Makes the state backends of one attempt of a job.

    Their files are in ``directory``; None keeps the state on the heap.
    """

    def __init__(self, directory: Path | None, config: StateConfig) -> None:
        self._directory = directory
        self._config = config
        self._made: list[KeyedStateBackend] = []

    def of_subtask(self, name: str) -> BackendFactory | None:
        """Return the factory for the backends of a subtask's operators; None for the heap."""
        if self._directory is None:
            return None
        return partial(self._make, self._directory / name)

    def close(self) -> None:
        """Close all backends and remove their files; idempotent."""
        for backend in self._made:
            backend.close()
        self._made.clear()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _make(
        self, directory: Path, whose: str, serializer: ValueSerializer, max_parallelism: int
    ) -> KeyedStateBackend:
        # RocksDB is an optional dependency.
        from flinknet.state.rocksdb.backend import RocksDBKeyedStateBackend

        backend = RocksDBKeyedStateBackend(
            directory.with_name(f"{directory.name}-{len(self._made)}"),
            whose,
            serializer=serializer,
            max_parallelism=max_parallelism,
            config=self._config,
        )
        self._made.append(backend)
        return backend


class StateBackends:
    """Makes the state backends of all attempts on a worker."""

    def __init__(self, config: StateConfig) -> None:
        self.config = config
        self.directories = StateDirectories(config.rocksdb_directory)

    def of_attempt(
        self, job_id: str, attempt: int, wanted: StateBackendName | None
    ) -> AttemptBackends:
        """Return the backends of an attempt, of the wanted or else the configured kind.

        Raises ConfigurationError if the library of that kind is not installed.
        """
        if (wanted or self.config.backend) == "hashmap":
            return AttemptBackends(None, self.config)
        try:
            import rocksdict  # noqa: F401
        except ImportError as cause:
            raise ConfigurationError(
                'the job keeps its state in RocksDB (state.backend is "rocksdb", or it has an '
                "EmbeddedRocksDBStateBackend): install flinknet[rocksdb] where workers run, or "
                'choose "hashmap" (HashMapStateBackend)'
            ) from cause
        return AttemptBackends(self.directories.of_attempt(job_id, attempt), self.config)
