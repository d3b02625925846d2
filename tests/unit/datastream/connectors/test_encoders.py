"""Encoding of records in files of lines."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import pytest

from flinknet.datastream.connectors.encoders import (
    CsvEncoder,
    Encoder,
    JsonLinesEncoder,
    TextEncoder,
)
from flinknet.errors import ConfigurationError


def test_text() -> None:
    encoder = Encoder.simple_string_encoder()
    assert (encoder.header(), encoder.encode(["é", 1])) == (b"", "é\n1\n".encode())
    assert TextEncoder("latin-1").encode(["é"]) == b"\xe9\n"


def test_json() -> None:
    encoder = JsonLinesEncoder()
    assert encoder.encode([{"é": (1, None)}, "a\nb"]) == '{"é": [1, null]}\n"a\\nb"\n'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        encoder.encode([math.nan])
    with pytest.raises(TypeError, match="date is not JSON serializable"):
        encoder.encode([date(2020, 1, 2)])
    assert JsonLinesEncoder(str).encode([date(2020, 1, 2)]) == b'"2020-01-02"\n'


def test_csv() -> None:
    encoder = CsvEncoder(["city", "delay"])
    assert encoder.header() == b"city,delay\n"
    records = [("New\nYork", 1), {"delay": None, "city": 'a "b", c', "other": 0}]
    assert encoder.encode(records) == b'"New\nYork",1\n"a ""b"", c",\n'
    without = CsvEncoder(["city", "delay"], header=False, delimiter=";", encoding="latin-1")
    assert (without.header(), without.encode([("é", 1)])) == (b"", b"\xe9;1\n")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (("a",), "a record has 1 values for 2 columns"),
        ({"city": "a"}, "a record has no value for the columns delay: it has city"),
    ],
)
def test_records_that_do_not_fit_the_columns(record: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CsvEncoder(["city", "delay"]).encode([record])


def test_columns_that_cannot_be() -> None:
    with pytest.raises(ConfigurationError, match="needs at least one column"):
        CsvEncoder([])
    with pytest.raises(ConfigurationError, match="needs at least one column"):
        CsvEncoder("city")
    with pytest.raises(ConfigurationError, match="the delimiter is '::': choose one character"):
        CsvEncoder(["city"], delimiter="::")
