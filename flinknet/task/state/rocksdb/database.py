"""The RocksDB database of one operator in one subtask, and what is wrong with it, in words.

It is a working copy: checkpoints are what a job goes on from. So nothing is logged before it is
written, and nothing is synced. What RocksDB says is raised as a StateError that names the operator
and the directory; a write that its background threads could not make, because the disk is full,
say, is raised by one of the next.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rocksdict import (
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

__all__ = ["Database"]

BLOOM_BITS = 10
"""Per key; a key that is not there is then looked for in vain once in a hundred times."""

LOG_BYTES_MAX = 1 << 20
OPEN_FILES_MAX = 256


class Database:
    """An open database in ``directory``, which is made for it and removed with it.

    ``whose`` is the operator, for errors. Raises StateError, as everything here does.
    """

    def __init__(self, directory: Path, whose: str, config: StateConfig) -> None:
        self.directory = directory
        self.whose = whose
        self.rows_written = 0
        self._rows: Any = None
        try:
            directory.mkdir(parents=True)
            self._rows = Rdict(str(directory / "db"), _options(config))
            unlogged = WriteOptions()
            unlogged.disable_wal = True
            self._rows.set_write_options(unlogged)
            self._unlogged = unlogged
        except Exception as cause:
            self.close()
            raise self._failed("opened", cause) from cause

    def get(self, key: bytes) -> bytes | None:
        """Return what is stored under a key."""
        try:
            found: bytes | None = self._rows.get(key)
        except Exception as cause:
            raise self._failed("read", cause) from cause
        return found

    def put(self, key: bytes, value: bytes) -> None:
        """Store something under a key."""
        self.rows_written += 1
        try:
            self._rows.put(key, value)
        except Exception as cause:
            raise self._failed("written", cause) from cause

    def put_all(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Store several."""
        self.rows_written += len(rows)
        batch = WriteBatch(raw_mode=True)
        for key, value in rows:
            batch.put(key, value)
        try:
            self._rows.write(batch, self._unlogged)
        except Exception as cause:
            raise self._failed("written", cause) from cause

    def delete(self, key: bytes) -> None:
        """Store nothing under a key."""
        try:
            self._rows.delete(key)
        except Exception as cause:
            raise self._failed("written", cause) from cause

    def snapshot(self) -> RdictIter:
        """Return what is stored now, in no time, for ``rows``; to be let go of.

        An iterator sees what was stored when it was made. rocksdict's own snapshots cannot be
        iterated: that shows what is stored later, too."""
        try:
            snapshot: RdictIter = self._rows.iter()
        except Exception as cause:
            raise self._failed("read", cause) from cause
        return snapshot

    def rows(self, rows: RdictIter) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over what was stored then, in the order of the keys; one after the other."""
        try:
            rows.seek(b"")
            while rows.valid():
                yield rows.key(), rows.value()
                rows.next()
            rows.status()
        except Exception as cause:
            raise self._failed("read", cause) from cause

    def close(self) -> None:
        """Close and remove it; idempotent."""
        rows, self._rows = self._rows, None
        if rows is not None:
            with suppress(Exception):  # what it cannot write any more is of no use
                rows.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _failed(self, what: str, cause: Exception) -> StateError:
        return StateError(
            f"the keyed state of {self.whose} cannot be {what} in the RocksDB database in "
            f"{self.directory}: {text_of(cause)}; look for room on that disk, or choose another "
            "with state.rocksdb_directory"
        )


def _options(config: StateConfig) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(config.rocksdb_block_cache_bytes))
    blocks.set_bloom_filter(BLOOM_BITS, False)
    blocks.set_cache_index_and_filter_blocks(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(config.rocksdb_write_buffer_bytes)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_max_log_file_size(LOG_BYTES_MAX)
    options.set_keep_log_file_num(1)
    return options
