"""Arrow and Parquet files as sources and sinks. Needs ``flinknet[arrow]``.

A source's unit of work is a whole file, or a part of one: a row group of a Parquet file, a record
batch of an Arrow IPC file. Units are dealt out round robin in the order of the sorted file names,
so every subtask knows its share without asking anyone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flinknet.datastream.connectors.output_directory import OutputDirectory
from flinknet.datastream.connectors.part_files import PartFiles
from flinknet.errors import ConfigurationError
from flinknet.task.context import RuntimeContext
from flinknet.task.sink import CheckpointedSink, CommitContext, Committer
from flinknet.task.source import Source

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

__all__ = ["DirectoryCommitter", "FileSource", "ParquetSink"]

PARQUET = (".parquet",)
ARROW = (".arrow", ".feather", ".ipc")

SOURCE_BATCH_ROWS = 4096
"""Rows decoded at a time into tuples or dicts: some milliseconds of work on the event loop."""

SOURCE_RECORD_BATCH_ROWS = 32_768
"""Rows of a record batch: as long, because none becomes a Python object."""

ROW_GROUP_ROWS = 65_536
"""Rows that a sink gathers before it writes a row group."""


class FileSource(Source):
    """The rows of Parquet and Arrow IPC files.

    ``path`` is a file, a directory (with everything below it that has a known suffix and whose name
    does not start with "_" or "."), or a sequence of these. It is looked up when the source is
    made, so that every subtask sees the same files, and must be readable under the same path by
    every worker.

    Records are tuples of ``columns`` in that order (None: all, as in the file), dicts, or with
    ``records="batch"`` Arrow record batches of at most ``SOURCE_RECORD_BATCH_ROWS`` rows, each of
    which counts as one record. ``split`` says what is dealt out to the subtasks; by default files
    if there are enough for all of them, else parts. The rows of a unit keep their order, and so do
    the units of a subtask.
    """

    replayable = True

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        columns: Sequence[str] | None = None,
        records: Literal["tuple", "dict", "batch"] = "tuple",
        split: Literal["file", "part"] | None = None,
    ) -> None:
        if records not in ("tuple", "dict", "batch"):
            raise ConfigurationError(f'records is {records!r}: choose "tuple", "dict" or "batch"')
        if split not in ("file", "part", None):
            raise ConfigurationError(f'split is {split!r}: choose "file", "part" or None')
        paths = [path] if isinstance(path, str | Path) else path
        self.files = tuple(file for one in paths for file in _files_in(Path(one)))
        if columns is not None and not columns:
            raise ConfigurationError("columns is empty: name at least one, or None for all")
        self._columns = None if columns is None else list(columns)
        self._records = records
        self._split = split

    def batches(self, context: RuntimeContext) -> Iterator[list[Any]]:
        _require_pyarrow(context.operator_name)
        whole_files = self._split == "file" or (
            self._split is None and len(self.files) >= context.parallelism
        )
        if whole_files:
            units: list[tuple[Path, int | None]] = [(file, None) for file in self.files]
        else:
            units = [(file, part) for file in self.files for part in range(_parts_of(file))]
        rows_max = SOURCE_RECORD_BATCH_ROWS if self._records == "batch" else SOURCE_BATCH_ROWS
        for file, part in units[context.index :: context.parallelism]:
            for batch in _read(file, part, self._columns, rows_max):
                if batch.num_rows:
                    yield self._records_of(batch)

    def _records_of(self, batch: pyarrow.RecordBatch) -> list[Any]:
        if self._records == "batch":
            return [batch]
        if self._records == "dict":
            rows: list[Any] = batch.to_pylist()
            return rows
        return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


class ParquetSink(CheckpointedSink):
    """Writes one Parquet file per subtask below ``path``, ``part-00002-of-00004-JOB.parquet``.

    ``columns`` maps column names to Arrow types by name (``{"origin": "string", "count":
    "int64"}``), or is a sequence of names whose types are those of the first records. Records are
    tuples with one value per column, or dicts; or all of them are Arrow record batches, of which
    the columns of these names are written, cast to their types as far as no value is lost. A
    subtask without records writes an empty file if the types are known.

    When every subtask of the job has finished, the directory's content is replaced as a whole by
    the new files: readers see the result before or the new one, and a job that failed, or was
    killed at any moment, changes nothing (``output_directory.py``). In the directory there may be
    nothing but such results, else it is a ConfigurationError; the directory above it must be
    writable, as the new one is made beside it.

    In a job with checkpoints a subtask writes a file for each of them, if there is something in it,
    and that becomes visible when the checkpoint is complete (``part_files.py``): readers see each
    record once, whatever was killed. A new job wants an empty directory then.

    Each sink of a job has a directory of its own: ``union`` the streams that shall be one result.
    """

    def __init__(self, path: str | Path, columns: Mapping[str, str] | Sequence[str]) -> None:
        if isinstance(columns, str) or not columns:
            raise ConfigurationError("ParquetSink needs at least one column")
        self._path = Path(path)
        self._names = list(columns)
        self._types = dict(columns) if isinstance(columns, Mapping) else None
        self._gathered: list[Any] = []
        self._gathered_rows = 0
        self._takes_batches: bool | None = None
        self._writer: pyarrow.parquet.ParquetWriter | None = None
        self._file: Path | None = None
        self._is_prepared = False
        self._parts: PartFiles | None = None
        self._next_part = 0
        self._place = 0, 1

    def exclusive_output(self) -> str:
        """Return the directory: subtasks of two sinks would call their files the same."""
        return str(self._path.resolve())

    def open(self, runtime_context: RuntimeContext) -> None:
        _require_pyarrow(runtime_context.operator_name)
        self._schema = None if self._types is None else _schema(self._types)
        try:
            if runtime_context.checkpointed:
                self._open_parts(runtime_context)
            else:
                self._open_staging(runtime_context)
        except ConfigurationError as error:
            raise ConfigurationError(f'sink "{runtime_context.operator_name}": {error}') from error

    def _open_parts(self, runtime_context: RuntimeContext) -> None:
        self._place = runtime_context.index, runtime_context.parallelism
        self._parts = PartFiles(self._path, runtime_context.job_id, runtime_context.attempt)
        self._parts.open(restored=runtime_context.state.is_restored)

    def _open_staging(self, runtime_context: RuntimeContext) -> None:
        transaction = _transaction(runtime_context.job_id, runtime_context.attempt)
        output = OutputDirectory(self._path, transaction)
        output.open()
        place = f"{runtime_context.index:05d}-of-{runtime_context.parallelism:05d}"
        self._file = output.staging / f"part-{place}-{transaction}.parquet"

    def write(self, records: list[Any]) -> None:
        if self._are_batches(records):
            for batch in records:
                self._gathered.append(self._conform(batch))
                self._gathered_rows += batch.num_rows
        else:
            self._gathered += records
            self._gathered_rows += len(records)
        if self._gathered_rows >= ROW_GROUP_ROWS:
            self._write_row_group()

    def finish(self) -> None:
        if self._parts is not None:
            return  # What is gathered is for the last part.
        if self._gathered or (self._writer is None and self._schema is not None):
            self._write_row_group()
        if self._writer is not None:
            self._writer.close()

    async def prepare_commit(self) -> list[str]:
        """Return the names of this subtask's files: one, or none without records and types."""
        if self._writer is None or self._file is None:
            return []
        await asyncio.to_thread(_sync, self._file)
        self._is_prepared = True
        return [self._file.name]

    def roll(self) -> list[str]:
        """End the present file, if there is something in it, and return its name."""
        if self._gathered:
            self._write_row_group()
        if self._writer is None or self._parts is None:
            return []
        self._writer.close()
        self._writer = None
        name = self._parts.name(*self._place, self._next_part)
        self._next_part += 1
        return [name]

    def persist(self, committables: list[str]) -> None:
        """Have files survive a loss of power."""
        self._part_files().persist(committables)

    def publish(self, committables: list[str]) -> None:
        """Let readers see files."""
        self._part_files().publish(committables)

    def discard(self, kept: Collection[str], is_own: Callable[[int], bool]) -> None:
        """Remove what earlier attempts have prepared in vain."""
        self._part_files().discard(kept, is_own)

    def _part_files(self) -> PartFiles:
        assert self._parts is not None, "a job with checkpoints has parts"
        return self._parts

    def create_committer(self, context: CommitContext) -> Committer:
        """Make what replaces the directory's content, or removes what was to replace it; with
        checkpoints, what commits the last files of each subtask."""
        if context.checkpointed:
            return PartCommitter(PartFiles(self._path, context.job_id, context.attempt))
        transaction = _transaction(context.job_id, context.attempt)
        return DirectoryCommitter(OutputDirectory(self._path, transaction))

    def close(self) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            if self._file is not None and not self._is_prepared:
                self._file.unlink(missing_ok=True)
            if self._parts is not None and self._writer is not None:
                name = self._parts.name(*self._place, self._next_part)
                self._parts.hidden(name).unlink(missing_ok=True)

    def _are_batches(self, records: list[Any]) -> bool:
        """Whether they are Arrow record batches; ValueError if some are and some are not."""
        import pyarrow

        types = set(map(type, records))
        if pyarrow.Table in types:
            raise ValueError("an Arrow table is no record: emit the batches, table.to_batches()")
        are_batches = pyarrow.RecordBatch in types
        if (are_batches and len(types) > 1) or self._takes_batches is (not are_batches):
            raise ValueError(
                "a Parquet sink takes rows or Arrow record batches, not both: give each a sink"
            )
        self._takes_batches = are_batches
        return are_batches

    def _conform(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return the columns that are written, in the types of the file."""
        import pyarrow

        for name in self._names:
            if (count := batch.schema.names.count(name)) != 1:
                raise ValueError(
                    f'an Arrow record batch has {count or "no"} columns "{name}": it has '
                    f"{', '.join(batch.schema.names)}"
                )
        chosen = batch.select(self._names)
        if self._schema is None:
            self._schema = pyarrow.schema(zip(self._names, chosen.schema.types, strict=True))
        return chosen.cast(self._schema)

    def _write_row_group(self) -> None:
        import pyarrow
        import pyarrow.parquet

        gathered, self._gathered, self._gathered_rows = self._gathered, [], 0
        if self._takes_batches:
            table = pyarrow.Table.from_batches(gathered, self._schema)
        else:
            table = self._table_of_rows(gathered)
        if self._writer is None:
            self._schema = table.schema
            self._writer = pyarrow.parquet.ParquetWriter(self._present_file(), table.schema)
        self._writer.write_table(table)

    def _present_file(self) -> Path | None:
        if self._parts is None:
            return self._file
        return self._parts.hidden(self._parts.name(*self._place, self._next_part))

    def _table_of_rows(self, rows: list[Any]) -> pyarrow.Table:
        import pyarrow

        types = self._schema.types if self._schema is not None else [None] * len(self._names)
        arrays = [
            pyarrow.array(column, type=kind)
            for column, kind in zip(_columns_of(rows, self._names), types, strict=True)
        ]
        return pyarrow.table(arrays, names=self._names)


class PartCommitter(Committer):
    """Commits what each subtask has written since the last checkpoint that it heard of."""

    def __init__(self, parts: PartFiles) -> None:
        self._parts = parts

    def commit(self, committables: list[list[str]]) -> None:
        """Let readers see the last files."""
        self._parts.finish([name for names in committables for name in names])

    def abort(self) -> None:
        """What is prepared may be part of a checkpoint: who goes on from that decides."""


class DirectoryCommitter(Committer):
    """Commits the files of all subtasks as one directory."""

    def __init__(self, output: OutputDirectory) -> None:
        self._output = output

    def commit(self, committables: list[list[str]]) -> None:
        """Let the files become the content of the directory."""
        self._output.commit([name for names in committables for name in names])

    def abort(self) -> None:
        """Remove what the subtasks have written."""
        self._output.abort()


def _transaction(job_id: str, attempt: int) -> str:
    return f"{job_id}-{attempt}"


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _columns_of(rows: list[Any], names: list[str]) -> Iterable[Sequence[Any]]:
    """Turn rows into columns; ValueError or KeyError if a row does not have them all."""
    if not rows:
        return [()] * len(names)
    if isinstance(rows[0], dict):
        return [[row[name] for row in rows] for name in names]
    if len(rows[0]) != len(names):
        raise ValueError(f"a record has {len(rows[0])} values for the {len(names)} columns")
    return zip(*rows, strict=True)


def _require_pyarrow(operator: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f'operator "{operator}" reads or writes Arrow files, which needs pyarrow: install '
            "flinknet[arrow]"
        ) from error


def _files_in(path: Path) -> list[Path]:
    if path.is_file():
        if path.suffix not in PARQUET + ARROW:
            raise ConfigurationError(
                f"{path} is of an unknown kind: known suffixes are {', '.join(PARQUET + ARROW)}"
            )
        return [path.absolute()]
    found = sorted(
        file.absolute()
        for file in path.rglob("*")
        if file.suffix in PARQUET + ARROW and not file.name.startswith(("_", "."))
    )
    if not found:
        problem = "holds no Parquet or Arrow file" if path.is_dir() else "does not exist"
        raise ConfigurationError(f"{path} {problem}: choose another path for the source")
    return found


def _parts_of(file: Path) -> int:
    import pyarrow
    import pyarrow.parquet

    if file.suffix in PARQUET:
        with pyarrow.parquet.ParquetFile(file) as parquet:
            row_groups: int = parquet.num_row_groups
            return row_groups
    with pyarrow.ipc.open_file(file) as arrow:
        batches: int = arrow.num_record_batches
        return batches


def _read(
    file: Path, part: int | None, columns: list[str] | None, rows_max: int
) -> Iterator[pyarrow.RecordBatch]:
    """Read one unit in batches: a part of the file, or all of it if ``part`` is None."""
    import pyarrow
    import pyarrow.parquet

    if file.suffix in PARQUET:
        with pyarrow.parquet.ParquetFile(file) as parquet:
            _require_columns(file, columns, parquet.schema_arrow.names)
            groups = None if part is None else [part]
            for batch in parquet.iter_batches(rows_max, row_groups=groups, columns=columns):
                yield batch if columns is None else batch.select(columns)
        return
    with pyarrow.ipc.open_file(file) as arrow:
        _require_columns(file, columns, arrow.schema.names)
        for number in range(arrow.num_record_batches) if part is None else [part]:
            batch = arrow.get_batch(number)
            chosen = batch if columns is None else batch.select(columns)
            for start in range(0, chosen.num_rows, rows_max):
                yield chosen.slice(start, rows_max)


def _require_columns(file: Path, columns: list[str] | None, present: list[str]) -> None:
    missing = sorted(set(columns or ()) - set(present))
    if missing:
        raise ConfigurationError(
            f"{file} has no column {', '.join(missing)}: it has {', '.join(present)}"
        )


def _schema(types: Mapping[str, str]) -> pyarrow.Schema:
    import pyarrow

    fields = []
    for name, kind in types.items():
        try:
            fields.append(pyarrow.field(name, pyarrow.type_for_alias(kind)))
        except ValueError as error:
            raise ConfigurationError(
                f"column {name} of the Parquet sink has the unknown type {kind!r}: choose an Arrow "
                'type name such as "int64", "double", "string" or "binary"'
            ) from error
    return pyarrow.schema(fields)
