"""Where an operator's keyed state is kept while the job runs (Flink's KeyedStateBackend).

Whoever has the state asks a backend for a table per state name, and does not know more: what is
read and written is a table's ``live``. On the heap a table is a dict. In RocksDB the entries in use
are in a dict, too, and the others on disk (``rocksdb/``). A checkpoint is the same bytes from
either, so that a job may go on with another backend than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from flinknet.state.state_table import StateTable, TableCapture

__all__ = ["DiskEntry", "HeapKeyedStateBackend", "KeyedStateBackend"]


class DiskEntry(NamedTuple):
    """An entry that is not in memory, in the form in which a checkpoint has it."""

    group: int
    """Key group of its key."""
    capture: int
    """Which of the captures that were asked about it belongs to."""
    key: bytes
    value: bytes


class KeyedStateBackend(Protocol):
    """Keeps the tables of one operator in one subtask."""

    is_on_disk: bool
    """Whether there may be more of it than memory has room for."""

    def table(self, name: str) -> StateTable:
        """Return a new table for a state."""

    def disk_entries(self, captures: Sequence[TableCapture]) -> Iterator[DiskEntry] | None:
        """Iterate over what was captured and is not in memory, by key group and then by capture,
        once all that is in memory has been iterated; None if there can be nothing. The captures
        must have been made in one step."""

    @property
    def directory(self) -> str | None:
        """Where files may be written as long as the operator runs; None if all state is in memory,
        and needs none."""

    def close(self) -> None:
        """Let go of all tables; idempotent."""


class HeapKeyedStateBackend:
    """Everything is in dicts (Flink's HashMapStateBackend makes these)."""

    is_on_disk = False
    directory: str | None = None

    def table(self, name: str) -> StateTable:
        return StateTable()

    def disk_entries(self, captures: Sequence[TableCapture]) -> Iterator[DiskEntry] | None:
        return None

    def close(self) -> None:
        """There is nothing to let go of."""
