"""Arrow and Parquet files as sources and sinks. Needs ``flinknet[arrow]``.

A source's unit of work is a whole file, or a part of one: a row group of a Parquet file, a record
batch of an Arrow IPC file. Units are dealt out round robin in the order of the sorted file names,
so every subtask knows its share without asking anyone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from flinknet.datastream.connectors.directory_sink import DirectorySink
from flinknet.datastream.connectors.file_formats import FileSourceBuilder, StreamFormat
from flinknet.datastream.connectors.input_files import Reading, batches_of_files, input_files
from flinknet.datastream.connectors.locations import Location, RemoteLocation
from flinknet.datastream.connectors.part_names import PARQUET_PARTS
from flinknet.errors import ConfigurationError
from flinknet.task.context import RuntimeContext
from flinknet.task.operators import BATCH_RECORDS
from flinknet.task.source import Batches, Source

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

__all__ = ["FileSource", "ParquetSink"]

PARQUET = (".parquet",)
ARROW = (".arrow", ".feather", ".ipc")

SOURCE_BATCH_ROWS = 4096
"""Rows of which the columns are decoded at a time, where rows are wanted as tuples or dicts."""

SOURCE_RECORD_BATCH_ROWS = 32_768
"""Rows of a record batch: as long, because none becomes a Python object."""

DICTIONARY_BYTES_MAX = 16 * 1024
"""In the file, of a column's texts: with so few of them, rows that have the same text share it."""

ROW_GROUP_ROWS = 65_536
"""Rows that a sink gathers before it writes a row group."""


class FileSource(Source):
    """The rows of Parquet and Arrow IPC files; ``for_record_stream_format`` reads other ones.

    ``path`` is a file, a directory (with everything below it that has a known suffix and in whose
    path below it no name starts with "_" or "."), or a sequence of these; each of them may be a URL
    (``locations.py``). It is looked up when the source is made, so that every subtask sees the same
    files, and must be readable under the same path by every worker.

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
        self.files = input_files(path, PARQUET + ARROW, "Parquet or Arrow file")
        for file in self.files:
            if _suffix(file) not in PARQUET + ARROW:
                raise ConfigurationError(
                    f"{file} is of an unknown kind: known suffixes are {', '.join(PARQUET + ARROW)}"
                )
        if columns is not None and not columns:
            raise ConfigurationError("columns is empty: name at least one, or None for all")
        self._columns = None if columns is None else list(columns)
        self._records = records
        self._split = split

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Return what builds a source of such files (PyFlink's way to say ``TextFileSource``)."""
        return FileSourceBuilder(stream_format, paths)

    def batches(self, context: RuntimeContext) -> Batches:
        return batches_of_files(self.files, self.read_share(context))

    def read_share(
        self, context: RuntimeContext, *, stamp: Callable[[], Any] | None = None
    ) -> Reading:
        """Read what is the subtask's, a batch at a time. The tuples of one end in what ``stamp``
        returned for it."""
        _require_pyarrow(context.operator_name)
        whole_files = self._split == "file" or (
            self._split is None and len(self.files) >= context.parallelism
        )
        if whole_files:
            units: list[tuple[Location, int | None]] = [(file, None) for file in self.files]
        else:
            units = [(file, part) for file in self.files for part in range(_parts_of(file))]
        rows_max = SOURCE_RECORD_BATCH_ROWS if self._records == "batch" else SOURCE_BATCH_ROWS
        for file, part in units[context.index :: context.parallelism]:
            for batch in _read(
                file, part, self._columns, rows_max, shares=self._records == "tuple"
            ):
                if self._records != "batch":
                    yield from self._rows(batch, stamp)
                elif batch.num_rows:
                    yield [batch]

    def _rows(
        self, batch: pyarrow.RecordBatch, stamp: Callable[[], Any] | None
    ) -> Iterator[list[Any]]:
        """Yield a few rows at a time: by the next ones, the memory of the last is there again."""
        for start in range(0, batch.num_rows, BATCH_RECORDS):
            rows = batch.slice(start, BATCH_RECORDS)
            if self._records == "dict":
                yield rows.to_pylist()
                continue
            columns = list(map(_values, rows.columns))
            if stamp is not None:
                columns.append(repeat(stamp(), rows.num_rows))
            yield list(zip(*columns, strict=True))


class ParquetSink(DirectorySink):
    """Writes Parquet files below ``path``; when they are seen says ``DirectorySink``.

    ``columns`` maps column names to Arrow types by name (``{"origin": "string", "count":
    "int64"}``), or is a sequence of names whose types are those of the first records. Records are
    tuples with one value per column, or dicts; or all of them are Arrow record batches, of which
    the columns of these names are written, cast to their types as far as no value is lost. A
    subtask without records writes an empty file if the types are known.
    """

    def __init__(self, path: str | Path, columns: Mapping[str, str] | Sequence[str]) -> None:
        if isinstance(columns, str) or not columns:
            raise ConfigurationError("ParquetSink needs at least one column")
        super().__init__(path, PARQUET_PARTS)
        self._columns = list(columns)
        self._types = dict(columns) if isinstance(columns, Mapping) else None
        self._gathered: list[Any] = []
        self._gathered_rows = 0
        self._takes_batches: bool | None = None
        self._writer: pyarrow.parquet.ParquetWriter | None = None

    async def open(self, runtime_context: RuntimeContext) -> None:
        _require_pyarrow(runtime_context.operator_name)
        self._schema = None if self._types is None else _schema(self._types)
        await super().open(runtime_context)

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

    def end_file(self, *, is_last: bool) -> None:
        """Write what is gathered; the last file also if that is nothing, where types are known."""
        is_only = is_last and self._writer is None and self._schema is not None
        if self._gathered or is_only:
            self._write_row_group()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self.file_ended()

    def abandon_file(self) -> None:
        """Close what is written at present."""
        if self._writer is not None:
            self._writer.close()

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

        for name in self._columns:
            if (count := batch.schema.names.count(name)) != 1:
                raise ValueError(
                    f'an Arrow record batch has {count or "no"} columns "{name}": it has '
                    f"{', '.join(batch.schema.names)}"
                )
        chosen = batch.select(self._columns)
        if self._schema is None:
            self._schema = pyarrow.schema(zip(self._columns, chosen.schema.types, strict=True))
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
            self._writer = pyarrow.parquet.ParquetWriter(self.begin_file(), table.schema)
        self._writer.write_table(table)

    def _table_of_rows(self, rows: list[Any]) -> pyarrow.Table:
        import pyarrow

        types = self._schema.types if self._schema is not None else [None] * len(self._columns)
        arrays = [
            pyarrow.array(column, type=kind)
            for column, kind in zip(_columns_of(rows, self._columns), types, strict=True)
        ]
        return pyarrow.table(arrays, names=self._columns)


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


def _suffix(file: Location) -> str:
    return PurePosixPath(file.name).suffix


def _opened(file: Location) -> Any:
    return file.open() if isinstance(file, RemoteLocation) else file


def _parts_of(file: Location) -> int:
    import pyarrow
    import pyarrow.parquet

    if _suffix(file) in PARQUET:
        with pyarrow.parquet.ParquetFile(_opened(file)) as parquet:
            row_groups: int = parquet.num_row_groups
            return row_groups
    with pyarrow.ipc.open_file(_opened(file)) as arrow:
        batches: int = arrow.num_record_batches
        return batches


def _values(column: pyarrow.Array) -> Iterable[Any]:
    """Return Python's values; those of a dictionary are made once."""
    import pyarrow

    if not isinstance(column, pyarrow.DictionaryArray):
        plain: list[Any] = column.to_pylist()
        return plain
    values = column.dictionary.to_pylist()
    indices = column.indices
    if indices.null_count:
        indices = indices.fill_null(len(values))
        values.append(None)
    return map(values.__getitem__, indices.to_pylist())


def _read(
    file: Location, part: int | None, columns: list[str] | None, rows_max: int, *, shares: bool
) -> Iterator[pyarrow.RecordBatch]:
    """Read one unit in batches: a part of the file, or all of it if ``part`` is None. ``shares`` is
    whether columns with few texts may come as dictionaries."""
    import pyarrow
    import pyarrow.parquet

    if _suffix(file) in PARQUET:
        opened = _opened(file)
        metadata = pyarrow.parquet.read_metadata(opened)
        few = _columns_with_few_texts(metadata) if shares else []
        with pyarrow.parquet.ParquetFile(opened, metadata=metadata, read_dictionary=few) as parquet:
            _require_columns(file, columns, parquet.schema_arrow.names)
            groups = None if part is None else [part]
            for batch in parquet.iter_batches(rows_max, row_groups=groups, columns=columns):
                yield batch if columns is None else batch.select(columns)
        return
    with pyarrow.ipc.open_file(_opened(file)) as arrow:
        _require_columns(file, columns, arrow.schema.names)
        for number in range(arrow.num_record_batches) if part is None else [part]:
            batch = arrow.get_batch(number)
            chosen = batch if columns is None else batch.select(columns)
            for start in range(0, chosen.num_rows, rows_max):
                yield chosen.slice(start, rows_max)


def _columns_with_few_texts(metadata: pyarrow.parquet.FileMetaData) -> list[str]:
    """Return the columns of text of which each row group has a small dictionary."""
    few = []
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for number in range(metadata.num_columns):
        column = metadata.schema.column(number)
        if column.logical_type.type == "STRING" and column.path == column.name:
            chunks = [group.column(number) for group in groups]
            if all(map(_has_small_dictionary, chunks)):
                few.append(column.name)
    return few


def _has_small_dictionary(chunk: pyarrow.parquet.ColumnChunkMetaData) -> bool:
    begin = chunk.dictionary_page_offset
    return begin is not None and chunk.data_page_offset - begin <= DICTIONARY_BYTES_MAX


def _require_columns(file: Location, columns: list[str] | None, present: list[str]) -> None:
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
