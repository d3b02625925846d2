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
from flinknet.datastream.connectors.input_files import UnreadableError
from flinknet.datastream.connectors.text_files import SOURCE_BATCH_LINES, LineSource
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.operators.source import read
from tests.unit.operators.harness import context
from tests.unit.runtime.running import run_job


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


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        file.write_bytes('"é"\n2\n'.encode(encoding))
        assert all_of(JsonLinesSource(file, encoding=encoding)) == ["é", 2]
        assert all_of(TextFileSource(file, encoding=encoding)) == ['"é"', "2"]
    file.write_bytes('"é"\n2\n'.encode("utf-8-sig"))
    assert all_of(JsonLinesSource(file)) == ["é", 2]
    file.write_bytes("\ufeffé\n\ufeff\n".encode("utf-16-le"))
    assert all_of(TextFileSource(file, encoding="utf-16-le")) == ["é", "\ufeff"], "only the first"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"a": {"id": 1, "id": 2}}',
            "an object has two members 'id', and one of them would be lost",
        ),
        ("[1e400]", "the number 1e400 does not fit a float"),
        ("[" * 100_000, "it is nested too deeply"),
        ("1 2", "Extra data"),
    ],
    ids=["members", "number", "depth", "rest"],
)
def test_json_that_would_be_read_as_something_else(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "file.jsonl"
    file.write_text(f"1\n\n{line}\n")
    with pytest.raises(UnreadableError) as raised:
        all_of(JsonLinesSource(file))
    assert str(raised.value).startswith(f"{file}, line 3: ")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("source", "content", "message"),
    [
        (TextFileSource, b"\xff", "behind line 0: UnicodeDecodeError: 'utf-8' codec can't"),
        (
            JsonLinesSource,
            b"1\n{",
            "line 2: not a JSON value that can be read: Expecting property",
        ),
        (CsvSource, b"a,b\n1,2\n3\n", "line 3: a row has 1 values for 2 columns: ['3']"),
        (CsvSource, b'a,b\n"1', "behind line 1: Error: unexpected end of data"),
    ],
)
async def test_an_unreadable_line_fails_the_job_with_its_position(
    tmp_path: Path, source: type[LineSource], content: bytes, message: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    environment = StreamExecutionEnvironment()
    environment.from_source(source(file)).sink_to(CollectSink())
    with pytest.raises(JobFailedError) as raised:
        (await run_job(environment)).collected  # noqa: B018
    assert f"{file}, {message}" in str(raised.value)


async def test_a_restored_source_reads_behind_its_position(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    count = 2 * SOURCE_BATCH_LINES + 5
    file.write_text("".join(f"{number}\n" for number in range(count)))
    source = TextFileSource(file)
    rest = [record async for batch in read(source, context(), count - 2) for record in batch]
    assert rest == [str(count - 2), str(count - 1)]


def test_invalid_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere does not exist: choose another path"):
        TextFileSource(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match=r"holds no file of the kind \.csv"):
        CsvSource(tmp_path)
    with pytest.raises(ConfigurationError, match="holds no file: choose another path"):
        TextFileSource(tmp_path)
