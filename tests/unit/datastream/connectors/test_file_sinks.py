"""Sinks of lines: what stands in their files, and that the sources read it back."""

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
from flinknet.datastream.connectors.text_files import LineSource
from flinknet.task.sink import SinkOperator
from tests.unit.task.harness import Harness, context


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


async def test_what_is_written_is_read_back(tmp_path: Path) -> None:
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
