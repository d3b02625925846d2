"""Parquet files as a sink. Needs ``flinknet[arrow]``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet.datastream.connectors.arrow_files import require_pyarrow
from flinknet.datastream.connectors.directory_sink import DirectorySink
from flinknet.datastream.connectors.exact_arrays import InexactError, cast_exactly, exact_array
from flinknet.datastream.connectors.part_names import PARQUET_PARTS
from flinknet.errors import ConfigurationError
from flinknet.functions.context import RuntimeContext
from flinknet.operators.operators import on_records

# pyarrow is optional, so it is imported where it is used.
if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

__all__ = ["ParquetSink"]

ROW_GROUP_ROWS = 65_536
"""Number of rows that a sink gathers before it writes a row group."""


class ParquetSink(DirectorySink):
    """Writes Parquet files below ``path``; ``DirectorySink`` tells when they become visible.

    ``columns`` maps column names to Arrow types, or their names (``{"origin": "string", "count":
    "int64"}``). Records are tuples with one value per column, or dicts. Alternatively all records
    are Arrow record batches, and the sink writes their columns with these names. A value that its
    column's type cannot hold exactly fails the job, with the column and the record. A subtask
    without records writes an empty file.

    ``columns`` may be a sequence of names if the job has no checkpoints and the sink has one
    subtask. The types are then inferred from the first records. Other jobs write several files with
    possibly different types, so they must declare the types.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Mapping[str, str | pyarrow.DataType] | Sequence[str],
    ) -> None:
        if isinstance(columns, str) or not columns:
            raise ConfigurationError("ParquetSink needs at least one column")
        super().__init__(path, PARQUET_PARTS)
        self._columns = list(columns)
        if repeated := [name for name in self._columns if self._columns.count(name) > 1]:
            raise ConfigurationError(
                f"ParquetSink has two columns with the name {repeated[0]!r}: rename one"
            )
        self._types = dict(columns) if isinstance(columns, Mapping) else None
        self._gathered: list[Any] = []
        self._gathered_rows = 0
        self._written_rows = 0
        self._takes_batches: bool | None = None
        self._writer: pyarrow.parquet.ParquetWriter | None = None
        self._writes_one_file = True
        self._operator_name = ""

    async def open(self, runtime_context: RuntimeContext) -> None:
        require_pyarrow(runtime_context.operator_name)
        self._schema = None if self._types is None else _schema(self._types)
        self._operator_name = runtime_context.operator_name
        self._writes_one_file = (
            runtime_context.parallelism == 1 and not runtime_context.checkpointed
        )
        await super().open(runtime_context)

    def write(self, records: list[Any]) -> None:
        are_batches = self._are_batches(records)
        if self._schema is None and not self._writes_one_file:
            self._refuse_without_types(records[0])
        if are_batches:
            for batch in records:
                self._gathered.append(self._conform(batch))
                self._gathered_rows += batch.num_rows
        else:
            self._gathered += records
            self._gathered_rows += len(records)
        if self._gathered_rows >= ROW_GROUP_ROWS:
            self._write_row_group()

    def end_file(self, *, is_last: bool) -> None:
        """Write the gathered rows and close the file.

        If the types are known, the last file is written even without rows.
        """
        is_only = is_last and self._writer is None and self._schema is not None
        if self._gathered or is_only:
            self._write_row_group()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self.file_ended()

    def abandon_file(self) -> None:
        """Close the file that is being written."""
        if self._writer is not None:
            self._writer.close()

    def _are_batches(self, records: list[Any]) -> bool:
        """Return whether the records are Arrow record batches; ValueError for a mixture."""
        import pyarrow

        types = set(map(type, records))
        if pyarrow.Table in types:
            raise ValueError(
                "an Arrow table cannot be a record: emit its batches, table.to_batches()"
            )
        are_batches = pyarrow.RecordBatch in types
        if (are_batches and len(types) > 1) or self._takes_batches is (not are_batches):
            raise ValueError(
                "a Parquet sink takes rows or Arrow record batches, not both: use a sink for each"
            )
        self._takes_batches = are_batches
        return are_batches

    def _conform(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return the columns to write, with the types of the file."""
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
        arrays = []
        for field, array in zip(self._schema, chosen.columns, strict=True):
            try:
                arrays.append(cast_exactly(array, field.type))
            except InexactError as error:
                raise ValueError(
                    f'column "{field.name}", row {error.index + 1} of a record batch: {error}'
                ) from error
        return pyarrow.record_batch(arrays, schema=self._schema)

    def _refuse_without_types(self, record: Any) -> None:
        """Raise ConfigurationError that shows the types inferred from the first record."""
        import pyarrow

        if isinstance(record, pyarrow.RecordBatch):
            kinds = [self._kind_in(record, name) for name in self._columns]
        else:
            columns = _columns_of([record], self._columns)
            kinds = [exact_array(column, None).type for column in columns]
        named = dict(zip(self._columns, map(str, kinds), strict=True))
        raise ConfigurationError(
            f'sink "{self._operator_name}": several subtasks or checkpoints write a Parquet file '
            "each, whose types could differ if they were inferred: declare them, "
            f"ParquetSink(path, {named}) for example"
        )

    def _kind_in(self, batch: pyarrow.RecordBatch, name: str) -> pyarrow.DataType:
        return batch.schema.field(name).type if name in batch.schema.names else "string"

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

        kinds = self._schema.types if self._schema is not None else [None] * len(self._columns)
        arrays = []
        for name, values, kind in zip(
            self._columns, _columns_of(rows, self._columns), kinds, strict=True
        ):
            try:
                arrays.append(exact_array(values, kind))
            except InexactError as error:
                number = self._written_rows + error.index + 1
                declare = "" if self._types is not None else _DECLARE
                raise ValueError(
                    f'column "{name}" of record {number} of this subtask, '
                    f"{on_records([rows[error.index]])}: {error}{declare}"
                ) from error
        self._written_rows += len(rows)
        return pyarrow.table(arrays, names=self._columns)


_DECLARE = (
    "; the type is that of the first records, because none was declared: ParquetSink(path, "
    '{"name": "double"}) declares one'
)


def _columns_of(rows: list[Any], names: list[str]) -> Iterable[Sequence[Any]]:
    """Transpose rows into columns; ValueError or KeyError if a row lacks a column."""
    if not rows:
        return [()] * len(names)
    if isinstance(rows[0], dict):
        return [[row[name] for row in rows] for name in names]
    if len(rows[0]) != len(names):
        raise ValueError(f"a record has {len(rows[0])} values for the {len(names)} columns")
    return zip(*rows, strict=True)


def _schema(types: Mapping[str, str | pyarrow.DataType]) -> pyarrow.Schema:
    import pyarrow

    fields = []
    for name, kind in types.items():
        try:
            known = pyarrow.type_for_alias(kind) if isinstance(kind, str) else kind
            fields.append(pyarrow.field(name, known))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"column {name} of the Parquet sink has the unknown type {kind!r}: choose an Arrow "
                'type name such as "int64", "double", "string" or "binary", or a pyarrow type'
            ) from error
    return pyarrow.schema(fields)
