"""Encoders from records to the bytes of a file of lines: text, JSON, CSV."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

from flinknet.datastream.connectors.text_dialects import (
    BYTE_ORDER_MARK,
    FIELD_CHARACTERS_MAX,
    require_delimiter,
)
from flinknet.errors import ConfigurationError

__all__ = ["CsvEncoder", "Encoder", "JsonLinesEncoder", "TextEncoder"]


class Encoder(ABC):
    """Encodes batches of records (PyFlink's Encoder)."""

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return an encoder that writes ``str(record)`` as a line."""
        return TextEncoder(charset_name)

    def header(self) -> bytes:
        """Return the bytes at the beginning of each file."""
        return b""

    @abstractmethod
    def encode(self, records: list[Any]) -> bytes:
        """Return the bytes of the records; ValueError or TypeError if one cannot be encoded."""


class _Characters:
    """A character encoding that writes its byte-order mark, if any, once per file."""

    def __init__(self, encoding: str) -> None:
        try:
            # Codecs such as utf-16 write a byte-order mark with each text.
            self.mark = "".encode(encoding)
        except LookupError as error:
            raise ConfigurationError(f"{error}: choose an encoding that Python has") from error
        self._encoding = encoding

    def encode(self, text: str) -> bytes:
        """Return the bytes of a text, without the byte-order mark."""
        return text.encode(self._encoding)[len(self.mark) :]


class TextEncoder(Encoder):
    """Writes a line for each record, by ``str``; line breaks in it make several lines."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._characters = _Characters(encoding)

    def header(self) -> bytes:
        """See ``Encoder.header``; returns the byte-order mark, if the encoding has one."""
        return self._characters.mark

    def encode(self, records: list[Any]) -> bytes:
        """See ``Encoder.encode``."""
        return self._characters.encode("".join(f"{record}\n" for record in records))


class JsonLinesEncoder(Encoder):
    """Writes a line of JSON for each record.

    ``default`` converts objects without a JSON form, as in ``json.dumps``. NaN and infinity raise
    ValueError.
    """

    def __init__(self, default: Callable[[Any], Any] | None = None) -> None:
        self._encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=default)

    def encode(self, records: list[Any]) -> bytes:
        """See ``Encoder.encode``."""
        encode = self._encoder.encode
        return "".join(f"{encode(record)}\n" for record in records).encode()


class _Nothing:
    """An empty field that csv takes for a number, so that it is not quoted among quoted texts."""

    def __str__(self) -> str:
        return ""

    def __float__(self) -> float:
        raise TypeError("there is no number")


_NOTHING = _Nothing()


def _unambiguous(value: Any) -> Any:
    """Return None, a number, or the text that is written for the value."""
    if value is None or type(value) in (int, float, bool):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        raise ValueError(
            "CSV cannot hold bytes: decode them, or write them as text, for example in base64"
        )
    text = str(value)
    if len(text) > FIELD_CHARACTERS_MAX:
        raise ValueError(
            f"a text of {len(text):,} characters is longer than the limit of a field, "
            f"{FIELD_CHARACTERS_MAX:,}: write JSON lines or Parquet"
        )
    return text


def _needs_quotes(text: str) -> bool:
    return not text or "\r" in text or text.startswith(BYTE_ORDER_MARK)


class CsvEncoder(Encoder):
    """Writes a CSV row for each record: a tuple with one value per column, or a dict.

    With ``header``, each file begins with the names of the columns. Values are written by ``str``.
    None is written as an empty field and an empty string as ``""``, so that readers can distinguish
    them. A text is quoted if it would otherwise be read back differently. Raises ValueError for
    bytes, which have no text, and for a text that is too long to be read.
    """

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
        if repeated := [name for name in columns if list(columns).count(name) > 1]:
            raise ConfigurationError(
                f"a CSV file has two columns with the name {repeated[0]!r}: rename one"
            )
        require_delimiter(delimiter)
        self._columns = list(columns)
        self._has_header = header
        self._delimiter = delimiter
        self._characters = _Characters(encoding)

    def header(self) -> bytes:
        """See ``Encoder.header``; includes the byte-order mark, if the encoding has one."""
        names = self._rows([self._columns]) if self._has_header else ""
        return self._characters.mark + self._characters.encode(names)

    def encode(self, records: list[Any]) -> bytes:
        """See ``Encoder.encode``."""
        return self._characters.encode(self._rows([self._values_of(one) for one in records]))

    def _rows(self, rows: list[Sequence[Any]]) -> str:
        text = self._written(rows, csv.QUOTE_MINIMAL)
        return "".join(map(self._carefully, rows)) if self._is_doubtful(text) else text

    def _is_doubtful(self, text: str) -> bool:
        """Return whether the rows may contain a value that would be read back differently.

        Such values are an empty field (None or ""), a carriage return (csv quotes it since Python
        3.11.9), a byte-order mark, and the ``str`` of bytes. Searching the whole text is faster
        than checking each value.
        """
        if "\r" in text or BYTE_ORDER_MARK in text or len(text) > FIELD_CHARACTERS_MAX:
            return True
        if ("'" in text and "b'" in text) or ('"' in text and 'b"' in text):
            return True
        delimiter = self._delimiter
        # With line breaks as delimiters, an empty field is between two delimiters in a row.
        return 2 * delimiter in (delimiter + text).replace("\n", delimiter)

    def _carefully(self, row: Sequence[Any]) -> str:
        values = list(map(_unambiguous, row))
        if any(isinstance(value, str) and _needs_quotes(value) for value in values):
            values = [_NOTHING if value is None else value for value in values]
            return self._written([values], csv.QUOTE_NONNUMERIC)
        return self._written([values], csv.QUOTE_MINIMAL)

    def _written(self, rows: list[Sequence[Any]], quoting: Literal[0, 2]) -> str:
        text = io.StringIO()
        delimiter = self._delimiter
        csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=quoting).writerows(rows)
        return text.getvalue()

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
