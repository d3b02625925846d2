"""Sinks of lines: the content of their files, and that the sources read it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinknet.datastream import (
    CommitContext,
    CsvSink,
    CsvSource,
    Encoder,
    FileSink,
    JsonLinesSink,
    JsonLinesSource,
    OutputFileConfig,
    RollingPolicy,
    TextFileSink,
    TextFileSource,
)
from flinknet.datastream.connectors import encoders
from flinknet.datastream.connectors.text_files import LineSource
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.operators.sink import SinkOperator
from tests.unit.operators.harness import Harness, context


async def written(sink: FileSink, *batches: list[Any], job_id: str = "embedded") -> None:
    async with Harness(SinkOperator(sink), context(job_id=job_id)) as harness:
        for batch in batches:
            await harness.process(*batch)
        await harness.end_of_input()
    committer = sink.create_committer(CommitContext("tested", job_id, 0))
    committer.commit(harness.context.committables)


def read(source: LineSource) -> list[Any]:
    return [record for batch in source.read_share(context()) for record in batch]


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir() if file.name[0] != "_")


def content_of(path: Path) -> bytes:
    (file,) = path.glob("part*")
    return file.read_bytes()


async def test_written_files_are_read_back(tmp_path: Path) -> None:
    rows = [("a", 1), ("b\n", 2)]
    await written(TextFileSink(tmp_path / "text", encoding="latin-1"), ["é"], ["b"])
    assert read(TextFileSource(tmp_path / "text", encoding="latin-1")) == ["é", "b"]
    await written(JsonLinesSink(tmp_path / "json", default=str), rows, [{1}])
    assert read(JsonLinesSource(tmp_path / "json")) == [["a", 1], ["b\n", 2], "{1}"]
    await written(CsvSink(tmp_path / "csv", ["name", "count"]), rows)
    assert read(CsvSource(tmp_path / "csv", types={"count": int})) == rows
    bare = CsvSink(tmp_path / "bare", ["name", "count"], header=False, delimiter=";")
    await written(bare, rows)
    assert read(CsvSource(tmp_path / "bare", columns=["n", "c"], delimiter=";"))[0] == ("a", "1")
    suffixes = {"text": ".txt", "json": ".jsonl", "csv": ".csv"}
    for name, suffix in suffixes.items():
        assert names(tmp_path / name) == [f"part-00000-of-00001-embedded-0{suffix}"]


TEXTS = ["", "a", " a ", "\r", "a\rb", "\n", "\r\n", '"', '""', "'", "b'x'", "a,b", ";", "\t", "#"]
TEXTS += ["\\", "\0", "\x1a", "\x0c", "\x85", "\u2028", "\ufeff", "\ufeffa", "é東🎈", "1", "NULL"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize(("delimiter", "header"), [(",", True), (";", False), ("'", True)])
async def test_every_text_is_read_back_from_csv(
    tmp_path: Path, encoding: str, delimiter: str, header: bool
) -> None:
    """It may be the first or the last value of a row, the only one, or in a batch of its own."""
    pairs = [(text, other) for text in TEXTS for other in ("", "z", text)]
    longest = ("x" * 200_000, "")
    alone = [(text,) for text in TEXTS]
    for rows in ([*pairs, *((two, one) for one, two in pairs), longest], alone):
        columns = ["first", "second"][: len(rows[0])]
        path = tmp_path / f"{len(columns)}"
        await written(
            CsvSink(path, columns, header=header, delimiter=delimiter, encoding=encoding),
            *([row] for row in rows),
        )
        names = None if header else columns
        source = CsvSource(path, columns=names, delimiter=delimiter, encoding=encoding)
        assert read(source) == rows


async def test_a_missing_value_is_not_written_as_an_empty_text(tmp_path: Path) -> None:
    rows = [(None, "", 1), ("", None, 2.5), ("a\r", None, None), (None, None, None)]
    await written(CsvSink(tmp_path, ["a", "b", "c"]), rows)
    assert content_of(tmp_path) == b'a,b,c\n,"",1\n"",,2.5\n"a\r",,\n,,\n'


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
async def test_a_byte_order_mark_stands_once_in_a_file(tmp_path: Path, encoding: str) -> None:
    """This holds for any number of batches."""
    await written(TextFileSink(tmp_path / "text", encoding=encoding), ["é"], ["b"], ["\ufeff"])
    assert content_of(tmp_path / "text") == "é\nb\n\ufeff\n".encode(encoding)
    await written(CsvSink(tmp_path / "csv", ["a"], encoding=encoding), [("é",)], [("b",)])
    assert content_of(tmp_path / "csv") == "a\né\nb\n".encode(encoding)


@pytest.mark.parametrize(
    ("sink", "good", "bad", "message"),
    [
        (CsvSink, ("a",), (b"a",), "ValueError: CSV cannot hold bytes"),
        (CsvSink, ("a",), ("\ud800",), "UnicodeEncodeError"),
        (CsvSink, ("a",), ("a", "b"), "ValueError: a record has 2 values for 1 columns"),
        (JsonLinesSink, 1, "\ud800", "UnicodeEncodeError"),
        (JsonLinesSink, 1, [float("nan")], "ValueError: Out of range float values"),
        (TextFileSink, "a", "\ud800", "UnicodeEncodeError"),
    ],
)
async def test_a_record_that_cannot_be_written_is_named(
    tmp_path: Path, sink: Any, good: Any, bad: Any, message: str
) -> None:
    made = sink(tmp_path, ["name"]) if sink is CsvSink else sink(tmp_path)
    with pytest.raises(JobFailedError) as raised:
        await written(made, [good, bad, good])
    assert f"on a record of type {type(bad).__name__}, " in str(raised.value)
    assert message in str(raised.value)


async def test_a_field_that_is_too_long_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "FIELD_CHARACTERS_MAX", 1_000)
    await written(CsvSink(tmp_path / "some", ["a"]), [("x" * 1_000,), ("y" * 1_000,)])
    with pytest.raises(
        JobFailedError, match="a text of 1,001 characters is longer than the limit of a field"
    ):
        await written(CsvSink(tmp_path / "none", ["a"]), [("x" * 1_001,)])


def test_csv_options_that_cannot_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="two columns with the name 'a'"):
        CsvSink(tmp_path, ["a", "b", "a"])
    with pytest.raises(ConfigurationError, match="choose one character other than a quote"):
        CsvSink(tmp_path, ["a"], delimiter='"')
    with pytest.raises(ConfigurationError, match="unknown encoding: utf-9: choose"):
        CsvSink(tmp_path, ["a"], encoding="utf-9")


async def test_no_records_are_no_file_but_for_a_header(tmp_path: Path) -> None:
    await written(TextFileSink(tmp_path / "text"))
    assert names(tmp_path / "text") == []
    await written(CsvSink(tmp_path / "csv", ["name"]))
    assert read(CsvSource(tmp_path / "csv")) == []


async def test_pyflinks_builder(tmp_path: Path) -> None:
    config = OutputFileConfig.builder().with_part_prefix("words").with_part_suffix(".ext").build()
    assert (config.get_part_prefix(), config.get_part_suffix()) == ("words", ".ext")
    builder = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
    await written(builder.build(), ["a"])
    assert names(tmp_path / "out") == ["part-00000-of-00001-embedded-0"]
    policy = RollingPolicy.default_rolling_policy(part_size=2)
    builder.with_output_file_config(config).with_rolling_policy(policy)
    await written(builder.build(), ["b"], ["c"], job_id="later")
    assert names(tmp_path / "out") == [
        "words-00000-of-00001-later-0-1.ext",
        "words-00000-of-00001-later-0.ext",
    ], "also where a result with other names was"


@pytest.mark.parametrize("kind", [TextFileSink, JsonLinesSink])
def test_a_sink_of_lines_takes_a_url(kind: type[FileSink]) -> None:
    assert kind("memory://out").exclusive_output() == "memory://out"  # type: ignore[call-arg]
