"""Limits and defaults of keyed state: where running jobs keep it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flinknet.config.checks import KIB, MIB, check_fields, require_at_least

__all__ = ["StateBackendName", "StateConfig"]

StateBackendName = Literal["hashmap", "rocksdb"]


@dataclass(frozen=True, slots=True)
class StateConfig:
    """The location of keyed state; limits apply to one operator in one subtask."""

    backend: StateBackendName = "hashmap"
    """Backend of jobs that set none.

    "hashmap" keeps all state as objects in memory. "rocksdb" needs flinknet[rocksdb]; it keeps
    entries in use in memory, and the others on disk. Flink: state.backend.type.
    """

    rocksdb_directory: str = ""
    """Directory for the files of running jobs, on the worker's own disk.

    Empty means the system's directory for temporary files. Flink: state.backend.rocksdb.localdir.
    """

    rocksdb_cached_entries_max: int = 16_384
    """Maximum number of entries of each state kept as objects, the most recently used ones.

    A checkpoint copies them in one step, which takes a millisecond. With 1 KiB each they take 16
    MiB.
    """

    rocksdb_write_buffer_bytes: int = 16 * MIB
    """Size of a write buffer in memory, which is then written to a file; there may be two.

    Flink: state.backend.rocksdb.writebuffer.size (64 MB).
    """

    rocksdb_block_cache_bytes: int = 32 * MIB
    """Size of the cache for the files' blocks, including their indexes.

    Flink: state.backend.rocksdb.block.cache-size (8 MB).
    """

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least(self, 1, "rocksdb_cached_entries_max")
        require_at_least(self, 64 * KIB, "rocksdb_write_buffer_bytes", "rocksdb_block_cache_bytes")
