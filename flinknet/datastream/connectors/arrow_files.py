"""Arrow and Parquet files as sources. Needs ``flinknet[arrow]``.

A source's unit of work is a whole file, or a part of one: a row group of a Parquet file, a record
batch of an Arrow IPC file. Units are distributed round robin in the order of the sorted file names,
so every subtask computes its share on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flinknet.datastream.connectors.arrow_units import ARROW, PARQUET, UnitReader, parts_of
from flinknet.datastream.connectors.compressed_files import suffix_of
from flinknet.datastream.connectors.file_formats import FileSourceBuilder, StreamFormat
from flinknet.datastream.connectors.input_files import (
    Reading,
    UnreadableError,
    batches_of_files,
    input_files,
)
from flinknet.datastream.connectors.locations import Location
from flinknet.errors import ConfigurationError
from flinknet.functions.calls import BATCH_RECORDS
from flinknet.functions.context import RuntimeContext
from flinknet.operators.source import Batches, Source
from flinknet.texts import text_of

# pyarrow is optional, so it is imported where it is used.
if TYPE_CHECKING:
    import pyarrow

__all__ = ["FileSource", "require_pyarrow"]

SOURCE_BATCH_ROWS = 4096
"""Number of rows decoded at a time for records that are tuples or dicts."""

SOURCE_RECORD_BATCH_ROWS = 32_768
"""Maximum number of rows in a record batch; larger, because rows do not become Python objects."""


class FileSource(Source):
    """The rows of Parquet and Arrow IPC files; ``for_record_stream_format`` reads other formats.

    ``path`` is a file, a directory, or a sequence of these; each may be a URL (``locations.py``). A
    directory stands for all files below it that have a known suffix, except paths in which a name
    starts with "_" or ".". The path is resolved when the source is made, so that every subtask sees
    the same files. Every worker must be able to read them under the same path.

    Records are tuples of ``columns`` in that order (None: all, as in the first file), dicts, or
    with ``records="batch"`` Arrow record batches. A record batch has at most
    ``SOURCE_RECORD_BATCH_ROWS`` rows and counts as one record.

    Columns are found by name. A file with other columns or types than the first is rejected.
    Integers and floats of another size, and times in another unit, are the same type if no value is
    lost. A value that Python cannot represent, such as a date after the year 9999, is also
    rejected, except in record batches.

    ``split`` sets the unit that is distributed to the subtasks. By default the units are files if
    there are enough for all subtasks, otherwise parts. The rows of a unit keep their order, and so
    do the units of a subtask.
    """

    replayable = True
    keeps_no_records = True

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
        # A file that is named itself, instead of its directory, may have any suffix.
        for file in self.files:
            if suffix_of(file.name) not in PARQUET + ARROW:
                raise ConfigurationError(
                    f"{file} has an unknown suffix: known suffixes are {', '.join(PARQUET + ARROW)}"
                )
        if columns is not None and not columns:
            raise ConfigurationError("columns is empty: name at least one, or None for all")
        self._columns = None if columns is None else list(columns)
        self._records = records
        self._split = split

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Return a builder for a source of files in this format.

        This is PyFlink's way to make a ``TextFileSource``.
        """
        return FileSourceBuilder(stream_format, paths)

    def batches(self, context: RuntimeContext) -> Batches:
        return batches_of_files(self.files, self.read_share(context))

    def read_share(
        self, context: RuntimeContext, *, stamp: Callable[[], Any] | None = None
    ) -> Reading:
        """Read the subtask's share in batches.

        If ``stamp`` is given, each batch calls it once, and its result is appended to the batch's
        tuples.
        """
        require_pyarrow(context.operator_name)
        whole_files = self._split == "file" or (
            self._split is None and len(self.files) >= context.parallelism
        )
        if whole_files:
            units: list[tuple[Location, int | None]] = [(file, None) for file in self.files]
        else:
            units = [(file, part) for file in self.files for part in range(parts_of(file))]
        is_batch = self._records == "batch"
        reader = UnitReader(
            self.files[0],
            self._columns,
            rows_max=SOURCE_RECORD_BATCH_ROWS if is_batch else SOURCE_BATCH_ROWS,
            unique_names=self._records == "dict",
            same_types=is_batch,
            shares=self._records == "tuple",
        )
        for file, part in units[context.index :: context.parallelism]:
            row = 0
            for batch in reader.read(file, part):
                if not is_batch:
                    yield from self._rows(batch, stamp, _Place(file, part, row))
                elif batch.num_rows:
                    yield [batch]
                row += batch.num_rows

    def _rows(
        self, batch: pyarrow.RecordBatch, stamp: Callable[[], Any] | None, place: _Place
    ) -> Iterator[list[Any]]:
        """Yield a few rows at a time, so that the memory of one chunk is free again by the next."""
        has_fine = any(getattr(kind, "unit", None) == "ns" for kind in batch.schema.types)
        for start in range(0, batch.num_rows, BATCH_RECORDS):
            rows = batch.slice(start, BATCH_RECORDS)
            try:
                records = self._records_of(_in_microseconds(rows) if has_fine else rows, stamp)
            except Exception as error:
                raise place.unreadable(rows, start, error) from error
            yield records

    def _records_of(self, rows: pyarrow.RecordBatch, stamp: Callable[[], Any] | None) -> list[Any]:
        if self._records == "dict":
            dicts: list[Any] = rows.to_pylist()
            return dicts
        columns = list(map(_values, rows.columns))
        if stamp is not None:
            columns.append(repeat(stamp(), rows.num_rows))
        return list(zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class _Place:
    """The position where a batch of a unit begins."""

    file: Location
    part: int | None
    row: int

    def unreadable(
        self, rows: pyarrow.RecordBatch, start: int, error: Exception
    ) -> UnreadableError:
        """Return an error that names the value in these rows that Python cannot represent."""
        within = "" if self.part is None else f" of part {self.part + 1}"
        for number, name in enumerate(rows.schema.names):
            column = rows.column(number)
            for index in range(rows.num_rows):
                try:
                    _in_microseconds(rows.select([number]).slice(index, 1)).to_pylist()
                except Exception as cause:
                    return UnreadableError(
                        f"{self.file}, row {self.row + start + index + 1}{within}, column "
                        f"{name!r}: Python has no value for {_text(column[index])} of the type "
                        f'{column.type}: {text_of(cause, 200)}; read it with records="batch"'
                    )
        return UnreadableError(f"{self.file}: {type(error).__name__}: {text_of(error)}")


def _text(value: pyarrow.Scalar) -> str:
    import pyarrow

    try:
        return str(value.cast(pyarrow.string()))
    except pyarrow.ArrowException:
        return str(getattr(value, "value", value.type))


def require_pyarrow(operator: str) -> None:
    """Raise ConfigurationError, with the operator's name, if pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f'operator "{operator}" reads or writes Arrow files, which needs pyarrow: install '
            "flinknet[arrow]"
        ) from error


def _values(column: pyarrow.Array) -> Iterable[Any]:
    """Return the Python values of a column; a dictionary's values are converted once."""
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


def _in_microseconds(rows: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Return the rows with nanosecond times cast to microseconds.

    Otherwise pyarrow would return nanosecond times as pandas types where pandas is installed.
    Raises pyarrow.ArrowInvalid if a time has a fraction of a microsecond.
    """
    import pyarrow

    fine = {
        number: column
        for number, column in enumerate(rows.columns)
        if getattr(column.type, "unit", None) == "ns"
    }
    for number, column in fine.items():
        if pyarrow.types.is_timestamp(column.type):
            kind = pyarrow.timestamp("us", column.type.tz)
        elif pyarrow.types.is_duration(column.type):
            kind = pyarrow.duration("us")
        else:
            kind = pyarrow.time64("us")
        rows = rows.set_column(number, rows.schema.names[number], column.cast(kind))
    return rows
