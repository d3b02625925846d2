"""Sources for files of lines: text, JSON lines, CSV.

A source's unit of work is a whole file. Files are distributed round robin in the order of their
sorted names. Every subtask thus computes its share on its own, and reads the same records in the
same order each time. A checkpoint holds the number of records read. A resumed subtask reads the
file from its start and drops that many records.
"""

from __future__ import annotations

import io
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from math import isinf
from pathlib import Path
from typing import Any, ClassVar

from flinknet.compatibility.subscripted import T_co
from flinknet.datastream.connectors.compressed_files import open_decompressed
from flinknet.datastream.connectors.input_files import (
    Reading,
    UnreadableError,
    batches_of_files,
    input_files,
    naming,
)
from flinknet.datastream.connectors.locations import Location
from flinknet.datastream.connectors.text_dialects import BYTE_ORDER_MARK
from flinknet.functions.context import RuntimeContext
from flinknet.operators.source import Batches, Source
from flinknet.texts import text_of

__all__ = ["JsonLinesSource", "LineSource", "TextFileSource", "take"]

SOURCE_BATCH_LINES = 1024
"""Number of lines read at a time: some milliseconds of work on the event loop."""


class LineSource(Source[T_co]):
    """Base of the sources of lines.

    ``path`` is a file, a directory, or a sequence of these; each may be a URL (``locations.py``). A
    directory stands for all files below it with one of ``suffixes``, except paths in which a name
    starts with "_" or ".". The path is resolved when the source is made, so that every subtask sees
    the same files. Every worker must be able to read them under the same path. Raises
    ConfigurationError if there are no files.

    Files with the suffix ``.gz``, ``.bz2``, ``.xz`` or ``.zst`` are decompressed. A byte-order mark
    at the beginning of a file is not part of its text. A file that cannot be read fails the job,
    with its name and the line.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    """Suffixes of the files to read in a directory; empty for all files."""

    replayable = True
    keeps_no_records = True

    def __init__(self, path: str | Path | Sequence[str | Path], *, encoding: str = "utf-8") -> None:
        kinds = f" of the kind {', '.join(self.suffixes)}" if self.suffixes else ""
        self.files = input_files(path, self.suffixes, f"file{kinds}")
        self._encoding = encoding

    def batches(self, context: RuntimeContext) -> Batches:
        return batches_of_files(self.files, self.read_share(context))

    def read_share(self, context: RuntimeContext) -> Reading:
        """Read the subtask's share in batches."""
        for file in self.files[context.index :: context.parallelism]:
            with self.opened(file) as lines:
                yield from self.batches_of(file, lines)

    @abstractmethod
    def batches_of(self, file: Location, lines: Iterator[str]) -> Reading:
        """Generate the records of a file in batches.

        Raises UnreadableError, with the file and the line, for an invalid record.
        """

    @contextmanager
    def opened(self, file: Location) -> Iterator[Iterator[str]]:
        """Open a file for its lines; errors while reading include the file's name."""
        with (
            naming(file),
            open_decompressed(file) as content,
            # Line breaks stay as they are, because csv needs them inside of quoted values.
            io.TextIOWrapper(content, self._encoding, newline="") as lines,
        ):
            yield self._without_mark(lines)

    def _without_mark(self, lines: Iterator[str]) -> Iterator[str]:
        if "".encode(self._encoding):  # a codec that writes a mark also removes it
            return lines
        first = (line.removeprefix(BYTE_ORDER_MARK) for line in islice(lines, 1))
        return chain(first, lines)


def take(file: Location, lines: Iterator[Any], behind: int) -> list[Any]:
    """Return the next lines of a file, up to ``SOURCE_BATCH_LINES``.

    Raises UnreadableError for a damaged file, with the number of the last line read.
    """
    batch: list[Any] = []
    try:
        batch.extend(islice(lines, SOURCE_BATCH_LINES))
    except Exception as error:
        raise UnreadableError(
            f"{file}, behind line {behind + len(batch)}: {type(error).__name__}: {text_of(error)}"
        ) from error
    return batch


class TextFileSource(LineSource[str]):
    """The lines of text files, without line endings."""

    def batches_of(self, file: Location, lines: Iterator[str]) -> Reading:
        number = 0
        while batch := take(file, lines, number):
            number += len(batch)
            yield [line.rstrip("\r\n") for line in batch]


class JsonLinesSource(LineSource[Any]):
    """The values of files with one JSON value per line; empty lines are ignored.

    An object with two members of one name, and a number that no float can hold, are rejected.
    """

    suffixes = (".jsonl", ".ndjson", ".json")

    def batches_of(self, file: Location, lines: Iterator[str]) -> Reading:
        number = 0
        while batch := take(file, lines, number):
            records = []
            for line in batch:
                number += 1
                if text := line.strip(" \t\r\n"):
                    records.append(_json_value(file, number, text))
            if records:
                yield records


def _json_value(file: Location, number: int, text: str) -> Any:
    try:
        value, end = _JSON.raw_decode(text)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
    except Exception as error:
        problem = "it is nested too deeply" if isinstance(error, RecursionError) else text_of(error)
        raise UnreadableError(
            f"{file}, line {number}: not a JSON value that can be read: {problem}: {text[:80]!r}"
        ) from error
    return value


def _only_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"an object has two members {name!r}, and one of them would be lost")
    return members


def _finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"the number {text} does not fit a float")
    return value


_JSON = json.JSONDecoder(object_pairs_hook=_only_members, parse_float=_finite)
