"""The demo's job, and its sources."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from flinknet.datastream.connectors.arrow_files import FileSource
from flinknet.demo.flights_job import FIELDS, FlightsJob, ReadTimeColumns, ReadTimeSource
from tests.unit.demo.flights import FLIGHTS, context


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Write the flights to two files."""
    for part in range(2):
        rows = [dict(zip(FIELDS, flight, strict=True)) for flight in FLIGHTS[part::2]]
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / f"part-{part}.parquet")
    return tmp_path


def test_the_read_time_is_the_intended_send_time(directory: Path) -> None:
    source = ReadTimeSource(FileSource(directory, columns=FIELDS, split="file"))
    before_ns = time.monotonic_ns()
    records = [record for batch in source.batches(context(index=1)) for record in batch]
    assert [record[:-1] for record in records] == FLIGHTS[1::2]
    assert all(before_ns <= record[-1] <= time.monotonic_ns() for record in records)


def test_columns_have_the_read_time(directory: Path) -> None:
    files = FileSource(directory, columns=FIELDS, split="file", records="batch")
    before_ns = time.monotonic_ns()
    batches = [
        batch for list_ in ReadTimeColumns(files).batches(context(index=1)) for batch in list_
    ]
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert [row[:-1] for row in rows] == FLIGHTS[1::2]
    assert all(before_ns <= row[-1] <= time.monotonic_ns() for row in rows)
    assert batches[0].schema.names == [*FIELDS, "intended_ns"]


@pytest.mark.parametrize(
    ("records_per_s", "in_columns", "exchange"),
    [(None, False, "HASH"), (1_000.0, False, "HASH"), (None, True, "COLUMN HASH")],
)
def test_the_job_has_a_source_per_file_and_one_hash_exchange(
    tmp_path: Path, records_per_s: float | None, in_columns: bool, exchange: str
) -> None:
    files = []
    for source in range(3):
        files.append(str(tmp_path / f"{source}.parquet"))
        pyarrow.parquet.write_table(pa.table({"id": pa.array([], pa.int64())}), files[-1])
    job = FlightsJob(tuple(files), 4, tmp_path / "results", records_per_s, in_columns=in_columns)
    graph = job.graph()
    assert [vertex.parallelism for vertex in graph.vertices] == [3, 4]
    assert [(edge.source, edge.target, edge.name) for edge in graph.edges] == [(0, 1, exchange)]
    assert graph.slots_required() == 4
