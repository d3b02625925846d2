"""Files of lines as sources: text, JSON lines, CSV.

A source's unit of work is a whole file. Files are dealt out round robin in the order of their
sorted names, so every subtask knows its share without asking anyone, and reads the same records in
the same order each time. A checkpoint has how many of them it has read; who goes on reads the file
from its start, and drops as many.
"""

from __future__ import annotations

import csv
import io
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

from flinknet.datastream.connectors.input_files import (
    Reading,
    batches_of_files,
    input_files,
    open_decompressed,
)
from flinknet.datastream.connectors.locations import Location
from flinknet.errors import ConfigurationError
from flinknet.task.context import RuntimeContext
from flinknet.task.source import Batches, Source

__all__ = ["CsvSource", "JsonLinesSource", "LineSource", "TextFileSource"]

SOURCE_BATCH_LINES = 1024
"""Lines read at a time: some milliseconds of work on the event loop."""


class LineSource(Source):
    """What sources of lines have in common.

    ``path`` is a file, a directory (with everything below it that has one of ``suffixes`` and in
    whose path below it no name starts with "_" or "."), or a sequence of these; each of them may be
    a URL (``locations.py``). It is looked up when the source is made, so that every subtask sees
    the same files, and must be readable under the same path by every worker. Raises
    ConfigurationError if there is nothing. Files called ``.gz``, ``.bz2`` or ``.xz`` are
    decompressed. What cannot be read fails the job, with the file and the line.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    """Which files of a directory are read; all if there is none."""

    replayable = True

    def __init__(self, path: str | Path | Sequence[str | Path], *, encoding: str = "utf-8") -> None:
        kinds = f" of the kind {', '.join(self.suffixes)}" if self.suffixes else ""
        self.files = input_files(path, self.suffixes, f"file{kinds}")
        self._encoding = encoding

    def batches(self, context: RuntimeContext) -> Batches:
        return batches_of_files(self.files, self.read_share(context))

    def read_share(self, context: RuntimeContext) -> Reading:
        """Read what is the subtask's, a batch at a time."""
        for file in self.files[context.index :: context.parallelism]:
            with (
                open_decompressed(file) as content,
                io.TextIOWrapper(content, self._encoding, newline="") as lines,
            ):
                records = self._located(file, lines)
                while batch := list(islice(records, SOURCE_BATCH_LINES)):
                    yield batch

    @abstractmethod
    def records_of(self, file: Location, lines: Iterator[str]) -> Iterator[tuple[int, Any]]:
        """Generate the records of a file, each behind the number of the line that was read last."""

    def _located(self, file: Location, lines: Iterator[str]) -> Iterator[Any]:
        line = 0
        try:
            for number, record in self.records_of(file, lines):
                line = number
                yield record
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{file}, behind line {line}: {error}") from error


class TextFileSource(LineSource):
    """The lines of text files, without their ends."""

    def records_of(self, file: Location, lines: Iterator[str]) -> Iterator[tuple[int, str]]:
        return enumerate((line.rstrip("\r\n") for line in lines), 1)


class JsonLinesSource(LineSource):
    """The values of files with one JSON value in a line; empty lines are left out."""

    suffixes = (".jsonl", ".ndjson", ".json")

    def records_of(self, file: Location, lines: Iterator[str]) -> Iterator[tuple[int, Any]]:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, json.loads(line)


class CsvSource(LineSource):
    """The rows of CSV files, as tuples or as dicts.

    Without ``columns`` the first line of each file names them; with ``columns`` there is no such
    line. ``types`` says what the text of a column is made, ``{"delay": int}``; others stay text.
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
        if len(delimiter) != 1:
            raise ConfigurationError(f"the delimiter is {delimiter!r}: choose one character")
        self._columns = None if columns is None else list(columns)
        self._types = dict(types or {})
        self._records = records
        self._delimiter = delimiter

    def records_of(self, file: Location, lines: Iterator[str]) -> Iterator[tuple[int, Any]]:
        rows = csv.reader(lines, delimiter=self._delimiter, strict=True)
        names = next(rows, []) if self._columns is None else self._columns
        if names and (unknown := sorted(set(self._types) - set(names))):
            raise ValueError(f"there is no column {unknown[0]!r}: there are {', '.join(names)}")
        makes = [self._types.get(name, str) for name in names]
        for row in rows:
            if len(row) != len(names):
                raise ValueError(f"a row has {len(row)} values for {len(names)} columns: {row!r}")
            values = tuple(make(text) for make, text in zip(makes, row, strict=True))
            record = values if self._records == "tuple" else dict(zip(names, values, strict=True))
            yield rows.line_num, record
