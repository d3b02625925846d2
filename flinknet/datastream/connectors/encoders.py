"""How records become the bytes of a file of lines: text, JSON, CSV."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from flinknet.errors import ConfigurationError

__all__ = ["CsvEncoder", "Encoder", "JsonLinesEncoder", "TextEncoder"]


class Encoder(ABC):
    """Encodes batches of records (PyFlink's Encoder)."""

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return the one that writes ``str(record)`` of each record, as a line."""
        return TextEncoder(charset_name)

    def header(self) -> bytes:
        """Return what each file begins with."""
        return b""

    @abstractmethod
    def encode(self, records: list[Any]) -> bytes:
        """Return the bytes of these records; ValueError or TypeError if one has none."""


class TextEncoder(Encoder):
    """A line for each record, as ``str`` says it: one with a line break in it becomes several."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def encode(self, records: list[Any]) -> bytes:
        """As ``Encoder.encode``."""
        return "".join(f"{record}\n" for record in records).encode(self._encoding)


class JsonLinesEncoder(Encoder):
    """A JSON value in a line for each record. ``default`` returns something that JSON has for what
    it does not have, as for ``json.dumps``; NaN and infinity are a ValueError."""

    def __init__(self, default: Callable[[Any], Any] | None = None) -> None:
        self._encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=default)

    def encode(self, records: list[Any]) -> bytes:
        """As ``Encoder.encode``."""
        encode = self._encoder.encode
        return "".join(f"{encode(record)}\n" for record in records).encode()


class CsvEncoder(Encoder):
    """A row for each record, a tuple with one value per column or a dict with all of them; None
    is empty. With ``header`` each file begins with the names of the columns."""

    def __init__(
        self,
        columns: Sequence[str],
        *,
        header: bool = True,
        delimiter: str = ",",
        encoding: str = "utf-8",
    ) -> None:
        if isinstance(columns, str) or not columns:
            raise ConfigurationError("a CSV file needs at least one column: name them in a list")
        if len(delimiter) != 1:
            raise ConfigurationError(f"the delimiter is {delimiter!r}: choose one character")
        self._columns = list(columns)
        self._has_header = header
        self._delimiter = delimiter
        self._encoding = encoding

    def header(self) -> bytes:
        """As ``Encoder.header``."""
        return self._rows([self._columns]) if self._has_header else b""

    def encode(self, records: list[Any]) -> bytes:
        """As ``Encoder.encode``."""
        return self._rows([self._values_of(record) for record in records])

    def _rows(self, rows: list[Sequence[Any]]) -> bytes:
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter, lineterminator="\n").writerows(rows)
        return text.getvalue().encode(self._encoding)

    def _values_of(self, record: Any) -> Sequence[Any]:
        if isinstance(record, dict):
            missing = [name for name in self._columns if name not in record]
            if missing:
                raise ValueError(
                    f"a record has no value for the columns {', '.join(missing)}: it has "
                    f"{', '.join(map(str, record))}"
                )
            return [record[name] for name in self._columns]
        values = tuple(record)
        if len(values) != len(self._columns):
            raise ValueError(f"a record has {len(values)} values for {len(self._columns)} columns")
        return values
