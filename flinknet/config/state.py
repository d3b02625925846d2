"""The limits and defaults of the state of keyed operators: where it is kept while a job runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flinknet.config.checks import KIB, MIB, check_fields, require_at_least

__all__ = ["StateBackendName", "StateConfig"]

StateBackendName = Literal["hashmap", "rocksdb"]


@dataclass(frozen=True, slots=True)
class StateConfig:
    """Where keyed state is kept; the limits are those of one operator in one subtask."""

    backend: StateBackendName = "hashmap"
    """For jobs that do not say: "hashmap" keeps all state as objects in memory, "rocksdb", with
    flinknet[rocksdb], those in use, and the others on disk. Flink: state.backend.type."""

    rocksdb_directory: str = ""
    """Directory for the files of running jobs, on a disk of the worker's own; empty takes the
    system's for temporary files. Flink: state.backend.rocksdb.localdir."""

    rocksdb_cached_entries_max: int = 16_384
    """Entries of each state that are kept as objects: those used last. They are what a checkpoint
    copies in one step, a millisecond, and with 1 KiB each take 16 MiB."""

    rocksdb_write_buffer_bytes: int = 16 * MIB
    """What is collected in memory before it is written to a file; there may be two. Flink:
    state.backend.rocksdb.writebuffer.size (64 MB)."""

    rocksdb_block_cache_bytes: int = 32 * MIB
    """What of the files is kept in memory, with their indexes. Flink:
    state.backend.rocksdb.block.cache-size (8 MB)."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least(self, 1, "rocksdb_cached_entries_max")
        require_at_least(self, 64 * KIB, "rocksdb_write_buffer_bytes", "rocksdb_block_cache_bytes")
