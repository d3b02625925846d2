"""Files of lines as sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinknet.datastream import (
    CollectSink,
    CsvSource,
    JsonLinesSource,
    StreamExecutionEnvironment,
    TextFileSource,
)
from flinknet.datastream.connectors.text_files import SOURCE_BATCH_LINES, LineSource
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.task.source import read
from tests.unit.task.harness import context
from tests.unit.task.running import run_job


def all_of(source: LineSource, index: int = 0, parallelism: int = 1) -> list[Any]:
    place = context(index=index, parallelism=parallelism)
    return [record for batch in source.read_share(place) for record in batch]


def test_lines_come_without_their_ends(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes("one\r\n\nthrée\n".encode() + b"last")
    assert all_of(TextFileSource(file)) == ["one", "", "thrée", "last"]
    file.write_bytes("é".encode("latin-1"))
    assert all_of(TextFileSource(str(file), encoding="latin-1")) == ["é"]


def test_files_of_a_directory_are_dealt_out(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "below/c.txt", "_hidden.txt", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert all_of(TextFileSource(tmp_path), 0, 2) == ["a.txt", "below/c.txt"]
    assert all_of(TextFileSource(tmp_path), 1, 2) == ["b.txt"]
    assert all_of(TextFileSource([tmp_path / "b.txt", tmp_path / "a.txt"])) == ["b.txt", "a.txt"]


def test_json_lines(tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").write_text('{"a": [1, null]}\n\n"text"\n')
    (tmp_path / "other.txt").write_text("no JSON")
    assert all_of(JsonLinesSource(tmp_path)) == [{"a": [1, None]}, "text"]


def test_csv_with_names_in_the_file_and_without(tmp_path: Path) -> None:
    file = tmp_path / "flights.csv"
    file.write_text('city,delay\n"New\nYork",3\nBoston,-1\n')
    assert all_of(CsvSource(file, types={"delay": int})) == [("New\nYork", 3), ("Boston", -1)]
    assert all_of(CsvSource(tmp_path, records="dict"))[1] == {"city": "Boston", "delay": "-1"}
    file.write_text("Boston;-1\n")
    assert all_of(CsvSource(file, columns=["city", "delay"], delimiter=";")) == [("Boston", "-1")]
    file.write_text("")
    assert all_of(CsvSource(file, types={"delay": int})) == []


@pytest.mark.parametrize(
    ("source", "content", "message"),
    [
        (TextFileSource, b"\xff", "behind line 0: 'utf-8' codec can't decode"),
        (JsonLinesSource, b"1\n{", "behind line 1: Expecting property name"),
        (CsvSource, b"a,b\n1,2\n3\n", "behind line 2: a row has 1 values for 2 columns: ['3']"),
        (CsvSource, b'a,b\n"1', "behind line 0: unexpected end of data"),
    ],
)
async def test_what_cannot_be_read_fails_the_job_with_its_place(
    tmp_path: Path, source: type[LineSource], content: bytes, message: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    environment = StreamExecutionEnvironment()
    environment.from_source(source(file)).sink_to(CollectSink())
    with pytest.raises(JobFailedError) as raised:
        (await run_job(environment)).collected  # noqa: B018
    assert f"{file}, {message}" in str(raised.value)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="there is no column 'c': there are a, b"):
        all_of(CsvSource(file, types={"c": int}))


async def test_who_goes_on_reads_what_is_behind_the_position(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    count = 2 * SOURCE_BATCH_LINES + 5
    file.write_text("".join(f"{number}\n" for number in range(count)))
    source = TextFileSource(file)
    rest = [record async for batch in read(source, context(), count - 2) for record in batch]
    assert rest == [str(count - 2), str(count - 1)]


def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere does not exist: choose another path"):
        TextFileSource(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match=r"holds no file of the kind \.csv"):
        CsvSource(tmp_path)
    with pytest.raises(ConfigurationError, match="holds no file: choose another path"):
        TextFileSource(tmp_path)
    (tmp_path / "a.csv").write_text("a")
    with pytest.raises(ConfigurationError, match='records is .*: choose "tuple" or "dict"'):
        CsvSource(tmp_path, records="rows")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="the delimiter is '': choose one character"):
        CsvSource(tmp_path, delimiter="")
