"""CSV files as a source.

Rows are read and converted in batches, column by column. The line number of a value is computed
only if its conversion fails. The line where a batch begins is known, and a row takes one line plus
the line breaks in its values.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import isfinite, isinf
from pathlib import Path
from typing import Any, Literal

from flinknet.datastream.connectors.input_files import Reading, UnreadableError
from flinknet.datastream.connectors.locations import Location
from flinknet.datastream.connectors.text_dialects import FIELD_CHARACTERS_MAX, require_delimiter
from flinknet.datastream.connectors.text_files import LineSource, take
from flinknet.errors import ConfigurationError
from flinknet.functions.context import RuntimeContext
from flinknet.texts import text_of

__all__ = ["CsvSource"]

NUMBERS = (int, float, Decimal)


class CsvSource(LineSource[Any]):
    """The rows of CSV files, as tuples or as dicts.

    Without ``columns``, the first line of each file names its columns. Files may order them
    differently, and records use the order of the first file. A file with other names is rejected.
    With ``columns``, files have no such line.

    ``types`` maps columns to functions that convert their strings, as in ``{"delay": int}``; other
    columns stay strings. A value without an exact conversion is rejected, with its file, line and
    column. ``int``, ``float`` and ``Decimal`` accept only the digits that other readers accept, and
    ``bool`` accepts true, false, 1 and 0. Empty lines between rows are ignored.
    """

    suffixes = (".csv",)

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        columns: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
        records: Literal["tuple", "dict"] = "tuple",
        delimiter: str = ",",
        encoding: str = "utf-8",
    ) -> None:
        super().__init__(path, encoding=encoding)
        if records not in ("tuple", "dict"):
            raise ConfigurationError(f'records is {records!r}: choose "tuple" or "dict"')
        require_delimiter(delimiter)
        self._columns = None if columns is None else list(columns)
        self._types = dict(types or {})
        self._records = records
        self._delimiter = delimiter
        self._reference: tuple[Location, list[str]] | None = None
        """The first file with a header, and its columns; None until it was read."""
        if self._columns is not None and (problem := self._problem_with(self._columns)):
            raise ConfigurationError(f"columns of a CSV source: {problem}")

    def read_share(self, context: RuntimeContext) -> Reading:
        # The limit belongs to the whole process: raise it, but never lower it.
        csv.field_size_limit(max(csv.field_size_limit(), FIELD_CHARACTERS_MAX))
        return super().read_share(context)

    def batches_of(self, file: Location, lines: Iterator[str]) -> Reading:
        rows = csv.reader(lines, delimiter=self._delimiter, strict=True)
        names = self._columns if self._columns is not None else self._header_of(file, rows)
        if not names:
            return
        order = self._order_of(file, names)
        ordered = names if order is None else [names[place] for place in order]
        while True:
            behind = rows.line_num
            batch = take(file, rows, behind)
            if not batch:
                return
            read = _Rows(file, names, behind, batch)
            if values := read.rows():
                yield self._records_of(read, values, order, ordered)

    def _records_of(
        self, read: _Rows, rows: list[list[str]], order: list[int] | None, ordered: list[str]
    ) -> list[Any]:
        if self._types or order is not None:
            columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
            for place, name in enumerate(read.names):
                if (make := self._types.get(name)) is not None:
                    columns[place] = read.converted(name, columns[place], make)
            if order is not None:
                columns = [columns[place] for place in order]
            values: Any = zip(*columns, strict=True)
        else:
            values = map(tuple, rows)
        if self._records == "tuple":
            return list(values)
        return [dict(zip(ordered, row, strict=True)) for row in values]

    def _header_of(self, file: Location, rows: Iterator[list[str]]) -> list[str]:
        """Return the column names in the file's header, or an empty list if the file is empty."""
        try:
            names = next((row for row in rows if row), [])
        except (csv.Error, ValueError) as error:
            raise UnreadableError(f"{file}, line 1: {text_of(error)}") from error
        if names and (problem := self._problem_with(names)):
            raise UnreadableError(f"{file}, line 1: {problem}")
        return names

    def _problem_with(self, names: list[str]) -> str | None:
        if unknown := sorted(set(self._types) - set(names)):
            return f"there is no column {unknown[0]!r}: the columns are {', '.join(names)}"
        for name in sorted({name for name in names if names.count(name) > 1}):
            if self._records == "dict":
                return (
                    f"two columns have the name {name!r}, but a dict can hold only one: rename "
                    "one, or read tuples"
                )
            if name in self._types:
                return (
                    f"two columns have the name {name!r}, for which types has one entry: rename one"
                )
        return None

    def _order_of(self, file: Location, names: list[str]) -> list[int] | None:
        """Return where the first file's columns are in this file; None for the same order."""
        if self._columns is not None:
            return None
        if self._reference is None:
            self._reference = self._first_header()
        first, expected = self._reference
        if names == expected:
            return None
        if sorted(names) != sorted(expected) or len(set(names)) != len(names):
            raise UnreadableError(
                f"{file} has the columns {', '.join(names)}, but {first} has "
                f"{', '.join(expected)}: read files with different columns by different sources, "
                "and call union on their streams"
            )
        return [names.index(name) for name in expected]

    def _first_header(self) -> tuple[Location, list[str]]:
        for file in self.files:
            with self.opened(file) as lines:
                rows = csv.reader(lines, delimiter=self._delimiter, strict=True)
                if names := self._header_of(file, rows):
                    return file, names
        raise AssertionError("a header was expected")


class _Rows:
    """A batch of rows of a file, and the line where it begins."""

    def __init__(
        self, file: Location, names: list[str], behind: int, batch: list[list[str]]
    ) -> None:
        self._file = file
        self.names = names
        self._behind = behind
        self._batch = batch

    def rows(self) -> list[list[str]]:
        """Return the rows without empty lines; UnreadableError for a wrong number of values."""
        width = len(self.names)
        widths = set(map(len, self._batch))
        if widths == {width}:
            return self._batch
        if 0 in widths and width == 1:
            index = next(index for index, row in enumerate(self._batch) if not row)
            raise UnreadableError(
                f'{self._place(index)}: an empty line in a file of one column: write "" for an '
                "empty value, or remove the line"
            )
        if wrong := widths - {0, width}:
            index = next(index for index, row in enumerate(self._batch) if len(row) in wrong)
            row = self._batch[index]
            raise UnreadableError(
                f"{self._place(index)}: a row has {len(row)} values for {width} columns: "
                f"{text_of(row, 200)}"
            )
        return [row for row in self._batch if row]

    def converted(
        self, name: str, texts: Sequence[str], make: Callable[[str], Any]
    ) -> Sequence[Any]:
        """Convert the strings of a column; UnreadableError names a value that fails."""
        try:
            return _values_of(texts, make)
        except Exception as cause:
            # Only a column that failed is converted again value by value, to find the value.
            for index, text in enumerate(texts):
                try:
                    _values_of([text], make)
                except Exception as error:
                    self._refuse(name, index, text, make, error)
            raise UnreadableError(f"{self._file}, column {name!r}: {text_of(cause)}") from cause

    def _refuse(self, name: str, index: int, text: str, make: Any, error: Exception) -> None:
        # ``index`` does not count the empty lines, which ``rows`` has dropped.
        filled = [number for number, row in enumerate(self._batch) if row]
        kind = getattr(make, "__name__", type(make).__name__)
        raise UnreadableError(
            f"{self._place(filled[index])}, column {name!r}: {text_of(repr(text), 200)} is no "
            f"{kind}: {type(error).__name__}: {text_of(error, 200)}; correct the file, or give "
            "types a function that accepts such texts"
        ) from error

    def _place(self, index: int) -> str:
        return f"{self._file}, line {self._behind + sum(map(_lines, self._batch[:index])) + 1}"


def _lines(row: list[str]) -> int:
    """Return the number of lines that a row takes in its file."""
    return 1 + sum(value.count("\n") + value.count("\r") - value.count("\r\n") for value in row)


def _values_of(texts: Sequence[str], make: Callable[[str], Any]) -> list[Any]:
    if make is bool:
        return [_truth(text) for text in texts]
    values = list(map(make, texts))
    if make in NUMBERS:
        # Python also accepts underscores and digits of other scripts.
        together = "".join(texts)
        if "_" in together or not together.isascii():
            raise ValueError("a number is written in ASCII digits, without underscores")
        # One sum is faster than a check of each value.
        if make is float and not isfinite(sum(values)):
            _require_finite(texts, values)
    return values


def _truth(text: str) -> bool:
    match text.strip().lower():
        case "true" | "1":
            return True
        case "false" | "0":
            return False
    raise ValueError("it is not true, false, 1 or 0")


def _require_finite(texts: Sequence[str], values: list[float]) -> None:
    """Reject a number too large for a float; a text such as "inf" may be infinite."""
    for text, value in zip(texts, values, strict=True):
        if isinf(value) and any(map(str.isdigit, text)):
            raise ValueError(f"the number {text} does not fit a float")
