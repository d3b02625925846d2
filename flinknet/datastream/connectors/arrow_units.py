"""Reading of files of Arrow columns, or parts of them, with consistent columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flinknet.datastream.connectors.compressed_files import suffix_of
from flinknet.datastream.connectors.exact_arrays import InexactError, are_alike, cast_exactly
from flinknet.datastream.connectors.input_files import UnreadableError, naming
from flinknet.datastream.connectors.locations import Location, RemoteLocation
from flinknet.errors import ConfigurationError

# pyarrow is optional, so it is imported where it is used.
if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

__all__ = ["ARROW", "PARQUET", "UnitReader", "parts_of"]

PARQUET = (".parquet",)
ARROW = (".arrow", ".feather", ".ipc")

DICTIONARY_BYTES_MAX = 16 * 1024
"""Maximum size in the file of a string column's dictionary, for rows to share their strings."""

_PROBE_BYTES = 64 * 1024
"""Read size for the check of a column's metadata.

Pages are usually no larger, and a remote file is not read twice.
"""


def parts_of(file: Location) -> int:
    """Return the number of a file's parts: row groups, or record batches."""
    import pyarrow
    import pyarrow.parquet

    with naming(file):
        if suffix_of(file.name) in PARQUET:
            with pyarrow.parquet.ParquetFile(_opened(file)) as parquet:
                row_groups: int = parquet.num_row_groups
                return row_groups
        with pyarrow.ipc.open_file(_opened(file)) as arrow:
            batches: int = arrow.num_record_batches
            return batches


class UnitReader:
    """Reads files, or parts of them, in batches with the columns of the first file."""

    def __init__(
        self,
        first: Location,
        columns: list[str] | None,
        *,
        rows_max: int,
        unique_names: bool,
        same_types: bool,
        shares: bool,
    ) -> None:
        """Create a reader.

        ``columns`` are the columns to read; None means all. ``unique_names`` rejects files with
        equal column names. ``same_types`` casts batches to the types of the first file. ``shares``
        allows string columns with few distinct values to be read as dictionaries.
        """
        self._first = first
        self._columns = columns
        self._rows_max = rows_max
        self._unique_names = unique_names
        self._same_types = same_types
        self._shares = shares
        self._expected: pyarrow.Schema | None = None

    def read(self, file: Location, part: int | None) -> Iterator[pyarrow.RecordBatch]:
        """Read one unit: a part of the file, or the whole file if ``part`` is None."""
        with naming(file):
            if self._expected is None:
                self._expected = self._schema_of(self._first)
            is_parquet = suffix_of(file.name) in PARQUET
            batches = self._of_parquet(file, part) if is_parquet else self._of_arrow(file, part)
            row = 0
            for batch in batches:
                yield self._conform(file, batch, row)
                row += batch.num_rows

    def _schema_of(self, file: Location) -> pyarrow.Schema:
        """Return the first file's schema, limited to the columns to read."""
        import pyarrow
        import pyarrow.parquet

        with naming(file):
            if suffix_of(file.name) in PARQUET:
                with pyarrow.parquet.ParquetFile(_opened(file)) as parquet:
                    return self._chosen(file, parquet.schema_arrow)
            with pyarrow.ipc.open_file(_opened(file)) as arrow:
                return self._chosen(file, arrow.schema)

    def _of_parquet(self, file: Location, part: int | None) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow.parquet

        opened = _opened(file)
        metadata = pyarrow.parquet.read_metadata(opened)
        groups = list(range(metadata.num_row_groups)) if part is None else [part]
        few = _columns_with_few_texts(opened, metadata, groups) if self._shares else []
        with pyarrow.parquet.ParquetFile(
            opened, metadata=metadata, read_dictionary=few, page_checksum_verification=True
        ) as parquet:
            names = self._names_in(file, parquet.schema_arrow)
            rows = 0
            for batch in parquet.iter_batches(self._rows_max, row_groups=groups, columns=names):
                rows += batch.num_rows
                # pyarrow returns the columns in the order of the file.
                yield batch if names is None else batch.select(names)
            declared = metadata.num_rows if part is None else metadata.row_group(part).num_rows
            # A damaged file may end without an error.
            if rows != declared:
                raise UnreadableError(
                    f"{file} is damaged: its metadata has {declared} "
                    f"rows{'' if part is None else f' in row group {part}'}, but {rows} can be read"
                )

    def _of_arrow(self, file: Location, part: int | None) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        with pyarrow.ipc.open_file(_opened(file)) as arrow:
            names = self._names_in(file, arrow.schema)
            for number in range(arrow.num_record_batches) if part is None else [part]:
                batch = arrow.get_batch(number)
                # IPC files have no checksums, and pyarrow trusts their offsets.
                batch.validate(full=True)
                chosen = batch if names is None else batch.select(names)
                for start in range(0, chosen.num_rows, self._rows_max):
                    yield chosen.slice(start, self._rows_max)

    def _names_in(self, file: Location, schema: pyarrow.Schema) -> list[str] | None:
        """Return the names of the columns to read; None for all, in the order of the file.

        UnreadableError names both files if this one lacks columns of the first.
        """
        expected = self._expected
        assert expected is not None, "the first file has been read"
        chosen = self._chosen(file, schema)
        is_same = chosen.names == expected.names
        repeated = len(set(chosen.names)) != len(chosen.names)
        if not is_same and (repeated or sorted(chosen.names) != sorted(expected.names)):
            raise UnreadableError(
                f"{file} has the columns {', '.join(chosen.names)}, but {self._first} has "
                f"{', '.join(expected.names)}: {_REMEDY}"
            )
        for place, field in enumerate(expected):
            other = chosen.field(place if is_same else field.name)
            if not are_alike(other.type, field.type):
                raise UnreadableError(
                    f"column {field.name!r} of {file} has the type {other.type}, but in "
                    f"{self._first} it has the type {field.type}: {_REMEDY}"
                )
        return None if self._columns is None and is_same else expected.names

    def _chosen(self, file: Location, schema: pyarrow.Schema) -> pyarrow.Schema:
        """Return the schema of the columns to read."""
        import pyarrow

        present = schema.names
        chosen = present if self._columns is None else self._columns
        if missing := sorted(set(chosen) - set(present)):
            raise ConfigurationError(
                f"{file} has no column {', '.join(missing)}: it has {', '.join(present)}"
            )
        repeated = [name for name in chosen if present.count(name) > 1]
        if repeated and (self._unique_names or self._columns is not None):
            raise UnreadableError(
                f"{file} has two columns with the name {repeated[0]!r}: rename one, or read all "
                "columns as tuples"
            )
        if self._columns is None:
            return schema
        return pyarrow.schema([schema.field(name) for name in chosen])

    def _conform(self, file: Location, batch: pyarrow.RecordBatch, row: int) -> pyarrow.RecordBatch:
        """Return the batch with the types of the first file."""
        import pyarrow

        expected = self._expected
        assert expected is not None, "the first file has been read"
        if not self._same_types or batch.schema.types == expected.types:
            return batch
        arrays = []
        for field, array in zip(expected, batch.columns, strict=True):
            try:
                arrays.append(cast_exactly(array, field.type))
            except InexactError as error:
                raise UnreadableError(
                    f"{file}, row {row + error.index + 1}, column {field.name!r}: {error} (that "
                    f"is its type in {self._first})"
                ) from error
        return pyarrow.record_batch(arrays, schema=expected)


_REMEDY = "read files with different columns by different sources, or name their common columns"


def _opened(file: Location) -> Any:
    return file.open() if isinstance(file, RemoteLocation) else file


def _columns_with_few_texts(
    opened: Any, metadata: pyarrow.parquet.FileMetaData, groups: list[int]
) -> list[str]:
    """Return the string columns that have a small dictionary in each of the row groups."""
    import pyarrow.parquet

    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    texts = {
        number: column.name
        for number, column in enumerate(columns)
        if column.logical_type.type == "STRING" and column.path == column.name
    }
    if not texts:
        return []
    # pyarrow aborts the process when asked for the metadata of a damaged or encrypted column. Its
    # reader raises an exception for such a column, so one row of each column is read first.
    with pyarrow.parquet.ParquetFile(
        opened, metadata=metadata, buffer_size=_PROBE_BYTES
    ) as parquet:
        for group in groups:
            next(parquet.iter_batches(1, row_groups=[group], columns=list(texts.values())), None)
    chosen = [metadata.row_group(group) for group in groups]
    return [
        name
        for number, name in texts.items()
        if all(_has_small_dictionary(group.column(number)) for group in chosen)
    ]


def _has_small_dictionary(chunk: pyarrow.parquet.ColumnChunkMetaData) -> bool:
    begin = chunk.dictionary_page_offset
    return begin is not None and chunk.data_page_offset - begin <= DICTIONARY_BYTES_MAX
