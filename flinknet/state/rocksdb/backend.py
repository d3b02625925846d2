"""The keyed state of one operator in one subtask, in a database of its own.

It corresponds to Flink's RocksDBKeyedStateBackend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from flinknet.config.state import StateConfig
from flinknet.state.keyed_state_backend import DiskEntry
from flinknet.state.rocksdb.database import Database
from flinknet.state.rocksdb.table import RocksDBCapture, RocksDBTable
from flinknet.state.state_table import StateTable, TableCapture
from flinknet.state.value_serializer import ValueSerializer

__all__ = ["RocksDBKeyedStateBackend"]


class RocksDBKeyedStateBackend:
    """Backend in a RocksDB database in ``path``, which is created when it is first needed.

    ``owner`` names the operator in errors. Raises StateError.
    """

    is_on_disk = True

    def __init__(
        self,
        path: Path,
        owner: str,
        *,
        serializer: ValueSerializer,
        max_parallelism: int,
        config: StateConfig,
    ) -> None:
        self._path = path
        self._owner = owner
        self._serializer = serializer
        self._max_parallelism = max_parallelism
        self._config = config
        self._database: Database | None = None
        self._tables = 0

    @property
    def directory(self) -> str | None:
        return str(self._open().directory)

    def table(self, name: str) -> StateTable:
        self._tables += 1
        return RocksDBTable(
            self._open(),
            self._tables,
            name,
            serializer=self._serializer,
            max_parallelism=self._max_parallelism,
            cached_max=self._config.rocksdb_cached_entries_max,
        )

    def disk_entries(self, captures: Sequence[TableCapture]) -> Iterator[DiskEntry] | None:
        places = {
            one.number: (index, one)
            for index, one in enumerate(captures)
            if isinstance(one, RocksDBCapture)
        }
        return _disk_entries(places) if places else None

    def _open(self) -> Database:
        if self._database is None:
            self._database = Database(self._path, self._owner, self._config)
        return self._database

    def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()


def _disk_entries(places: dict[int, tuple[int, RocksDBCapture]]) -> Iterator[DiskEntry]:
    """Iterate over the captured entries on disk.

    All tables are in one database, so the snapshot of one capture covers all tables.
    """
    _, first = next(iter(places.values()))
    for row, value in first.rows():
        index, capture = places[int.from_bytes(row[2:4], "big")]  # the number of the table
        for group, _, key, content in capture.entries_of(row, value):
            yield DiskEntry(group, index, key, content)
