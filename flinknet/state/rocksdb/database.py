"""The RocksDB database of one operator in one subtask, and its errors.

The database is a working copy, because a job continues from checkpoints. It therefore has no
write-ahead log, and is never synced. An error of RocksDB is raised as a StateError that names the
operator and the directory. If a background write fails, for example because the disk is full, one
of the next writes raises the error.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
    WriteOptions,
)

from flinknet.config.state import StateConfig
from flinknet.errors import StateError
from flinknet.texts import text_of

__all__ = ["Database", "StateRows"]

BLOOM_BITS = 10
"""Bits per key; about one in a hundred look-ups of a missing key then reads a block needlessly."""

LOG_BYTES_MAX = 1 << 20
OPEN_FILES_MAX = 256


class Database:
    """An open database in ``directory``, which is created and removed with it.

    ``owner`` names the operator in errors. Raises StateError.
    """

    def __init__(self, directory: Path, owner: str, config: StateConfig) -> None:
        self.directory = directory
        self.owner = owner
        self.rows_written = 0
        self.open_rows: Any = None
        self.unlogged = WriteOptions()
        self.unlogged.disable_wal = True
        try:
            directory.mkdir(parents=True)
            self.open_rows = Rdict(str(directory / "db"), _options(config))
            self.open_rows.set_write_options(self.unlogged)
        except Exception as cause:
            self.close()
            raise self.failed("keyed state", "opened", cause) from cause

    def close(self) -> None:
        """Close and remove the database; idempotent."""
        rows, self.open_rows = self.open_rows, None
        if rows is not None:
            with suppress(Exception):  # pending writes are not needed any more
                rows.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def failed(self, state: str, what: str, cause: Exception) -> StateError:
        """Return the StateError for an error of RocksDB."""
        return StateError(
            f"{state} of {self.owner} cannot be {what} in the RocksDB database in "
            f"{self.directory}: {text_of(cause)}; free space on that disk, or choose another one "
            "with state.rocksdb_directory"
        )


class StateRows:
    """The rows of a database, read and written for one state, which its errors name.

    All states see the same rows.
    """

    def __init__(self, database: Database, state: str) -> None:
        self.database = database
        self._state = state

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is none."""
        try:
            found: bytes | None = self.database.open_rows.get(key)
        except Exception as cause:
            raise self._failed("read", cause) from cause
        return found

    def put(self, key: bytes, value: bytes) -> None:
        """Store the value of a key."""
        self.database.rows_written += 1
        try:
            self.database.open_rows.put(key, value)
        except Exception as cause:
            raise self._failed("written", cause) from cause

    def put_all(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Store several rows."""
        self.database.rows_written += len(rows)
        batch = WriteBatch(raw_mode=True)
        for key, value in rows:
            batch.put(key, value)
        try:
            self.database.open_rows.write(batch, self.database.unlogged)
        except Exception as cause:
            raise self._failed("written", cause) from cause

    def delete(self, key: bytes) -> None:
        """Delete the row of a key."""
        try:
            self.database.open_rows.delete(key)
        except Exception as cause:
            raise self._failed("written", cause) from cause

    def snapshot(self) -> RdictIter:
        """Return the current content for ``iterate``, in constant time; the caller must drop it.

        An iterator sees the content at the time of its construction. rocksdict's own snapshots
        cannot be used: iterating over one also shows later rows.
        """
        try:
            snapshot: RdictIter = self.database.open_rows.iter()
        except Exception as cause:
            raise self._failed("read", cause) from cause
        return snapshot

    def iterate(self, snapshot: RdictIter, first: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the content of a snapshot, from a key on, in key order.

        Only one iteration at a time is possible.
        """
        try:
            snapshot.seek(first)
            while snapshot.valid():
                yield snapshot.key(), snapshot.value()
                snapshot.next()
            snapshot.status()  # raises an error that has ended the iteration
        except Exception as cause:
            raise self._failed("read", cause) from cause

    def _failed(self, what: str, cause: Exception) -> StateError:
        return self.database.failed(f'state "{self._state}"', what, cause)


def _options(config: StateConfig) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(config.rocksdb_block_cache_bytes))
    blocks.set_bloom_filter(BLOOM_BITS, False)
    # Indexes and filters are split so that they fit the cache; whole ones would be read for every
    # key.
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    blocks.set_pin_top_level_index_and_filter(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(config.rocksdb_write_buffer_bytes)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_max_log_file_size(LOG_BYTES_MAX)
    options.set_keep_log_file_num(1)
    return options
