"""The backends of the tests of keyed state.

State is on the heap, or in RocksDB with hardly anything in memory, so that entries are loaded and
evicted all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flinknet.config.state import StateConfig
from flinknet.records.serialization.record_types import Registered
from flinknet.state.keyed_state import KeyedState
from flinknet.state.keyed_state_backend import HeapKeyedStateBackend, KeyedStateBackend
from flinknet.state.state_table import StateTable
from flinknet.state.value_serializer import ValueSerializer

__all__ = ["BACKENDS", "Backends", "made_backends"]

BACKENDS = ["heap", "rocksdb"]


class Backends:
    """Makes backends of one kind, all with ``groups`` key groups."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.groups = 32
        self.types: Registered = None
        self.cached_max = 2
        self._directory = directory
        self._made: list[KeyedStateBackend] = []

    def backend(self) -> KeyedStateBackend:
        """Return a new backend."""
        if self.kind == "heap":
            return HeapKeyedStateBackend()
        from flinknet.state.rocksdb.backend import RocksDBKeyedStateBackend

        made = RocksDBKeyedStateBackend(
            self._directory / str(len(self._made)),
            'operator "Count" (uid count)',
            serializer=ValueSerializer(self.types),
            max_parallelism=self.groups,
            config=StateConfig(rocksdb_cached_entries_max=self.cached_max),
        )
        self._made.append(made)
        return made

    def state(self, now_ms: Callable[[], int] = lambda: 0) -> KeyedState:
        """Return the state of an operator."""
        return KeyedState(now_ms, self.backend())

    def table(self) -> StateTable:
        """Return a table of its own."""
        return self.backend().table("count")

    def close(self) -> None:
        """Close all backends that were made."""
        for made in self._made:
            made.close()


@contextmanager
def made_backends(kind: str, directory: Path) -> Iterator[Backends]:
    """Make backends that are closed at the end."""
    backends = Backends(kind, directory)
    try:
        yield backends
    finally:
        backends.close()
        assert not directory.exists() or not [*directory.iterdir()], "a backend leaves files"
