"""Backends: storage of an operator's keyed state while the job runs (Flink's KeyedStateBackend).

An operator requests a table per state name from its backend, and accesses only the table's
``live``. On the heap, a table is a dict. With RocksDB, the entries in use are in a dict, and the
others on disk (``rocksdb/``). Both write the same bytes to a checkpoint, so a job may continue with
another backend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from flinknet.state.state_table import StateTable, TableCapture

__all__ = ["DiskEntry", "HeapKeyedStateBackend", "KeyedStateBackend"]


class DiskEntry(NamedTuple):
    """An entry on disk, in the form of a checkpoint."""

    group: int
    """Key group of the key."""
    capture: int
    """Index of the capture that the entry belongs to, among the given captures."""
    key: bytes
    value: bytes


class KeyedStateBackend(Protocol):
    """Storage of the tables of one operator in one subtask."""

    is_on_disk: bool
    """Whether the state may exceed memory."""

    def table(self, name: str) -> StateTable:
        """Return a new table for a state."""

    def disk_entries(self, captures: Sequence[TableCapture]) -> Iterator[DiskEntry] | None:
        """Iterate over the captured entries on disk, by key group and then by capture.

        Iterate after all captured entries in memory. Return None if the backend stores nothing on
        disk. The captures must have been made in one step.
        """

    @property
    def directory(self) -> str | None:
        """Directory for files while the operator runs; None if all state is in memory."""

    def close(self) -> None:
        """Release all tables; idempotent."""


class HeapKeyedStateBackend:
    """Backend with all state in dicts; Flink's HashMapStateBackend creates it."""

    is_on_disk = False
    directory: str | None = None

    def table(self, name: str) -> StateTable:
        return StateTable()

    def disk_entries(self, captures: Sequence[TableCapture]) -> Iterator[DiskEntry] | None:
        return None

    def close(self) -> None:
        """Do nothing: the backend holds no resources."""
