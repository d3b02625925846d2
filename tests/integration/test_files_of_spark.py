"""Sources read Spark's files as Spark does, and Spark reads the files of sinks."""

from __future__ import annotations

import asyncio
import datetime
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from flinknet.datastream import (
    CommitContext,
    CsvSink,
    CsvSource,
    FileSource,
    JsonLinesSink,
    JsonLinesSource,
    ParquetSink,
)
from flinknet.operators.sink import SinkOperator, TwoPhaseSink
from tests.unit.operators.harness import Harness, context

ROOT = Path(__file__).parents[2]

TEXTS = ["a", "a,b", 'a "b"', "a\nb", "a\r\nb", "é東", "'", " a ", "\\"]

ROWS: list[tuple[Any, ...]] = [
    (
        text, place - 3, place / 7, place % 2 == 0, datetime.date(2024, 2, place + 1),
        datetime.datetime(1969, 7, 20, 20, 17, place, 123_456), Decimal(place).scaleb(-2),
    )
    for place, text in enumerate(TEXTS)
]  # fmt: skip

KINDS = {
    "text": "string",
    "whole": "int64",
    "number": "double",
    "truth": "bool",
    "day": "date32",
    "moment": "timestamp[us]",
    "price": pyarrow.decimal128(18, 2),
}

PROGRAM = """
import sys
from pathlib import Path
from flinknet.demo.spark_session import spark_session

here = Path(sys.argv[1])
quotes = {"header": True, "quote": '"', "escape": '"', "multiLine": True}
with spark_session(here / "spark.log") as spark:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    written = spark.read.parquet(f"{here}/parquet")
    print([tuple(row) for row in written.collect()])
    csv = spark.read.csv(f"{here}/csv", schema="text STRING, whole BIGINT", **quotes)
    print([tuple(row) for row in csv.collect()])
    json = spark.read.json(f"{here}/json", schema="text STRING, whole BIGINT")
    print([tuple(row) for row in json.collect()])
    written.write.parquet(f"{here}/of_spark/parquet")
    written.select("text", "whole").write.csv(
        f"{here}/of_spark/csv", header=True, escape='"', compression="gzip",
        ignoreLeadingWhiteSpace=False, ignoreTrailingWhiteSpace=False,
    )
    written.select("text", "whole").write.json(f"{here}/of_spark/json", compression="bzip2")
"""


def write(sink: TwoPhaseSink, records: list[Any]) -> None:
    async def run() -> None:
        async with Harness(SinkOperator(sink), context(job_id="job")) as harness:
            await harness.process(*records)
            await harness.end_of_input()
        committer = sink.create_committer(CommitContext("tested", "job", 0))
        committer.commit(harness.context.committables)

    asyncio.run(run())


def records_of(source: Any) -> list[Any]:
    return [record for batch in source.read_share(context()) for record in batch]


@pytest.mark.spark
@pytest.mark.timeout(180)
@pytest.mark.xdist_group("spark")
def test_spark_and_connectors_read_each_others_files(tmp_path: Path) -> None:
    pairs = [row[:2] for row in ROWS]
    write(ParquetSink(tmp_path / "parquet", KINDS), ROWS)
    write(CsvSink(tmp_path / "csv", ["text", "whole"]), pairs)
    dicts = [dict(zip(("text", "whole"), pair, strict=True)) for pair in pairs]
    write(JsonLinesSink(tmp_path / "json"), dicts)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [repr(ROWS), repr(pairs), repr(pairs)]

    of_spark = tmp_path / "of_spark"
    read = records_of(FileSource(of_spark / "parquet"))
    utc = datetime.UTC  # Spark writes instants, and Parquet marks them as such
    expected = [(*row[:5], row[5].replace(tzinfo=utc), row[6]) for row in ROWS]
    assert read in (ROWS, expected)
    assert records_of(CsvSource(of_spark / "csv", types={"whole": int})) == pairs
    assert records_of(JsonLinesSource(of_spark / "json")) == dicts
