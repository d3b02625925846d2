"""The demo job's own operators, fed record by record."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from flinknet.datastream.connectors.arrow_files import FileSource
from flinknet.demo import measurement
from flinknet.demo.flights_job import (
    AGGREGATES,
    ARRIVALS,
    LATENCY,
    FlightsJob,
    FlightTotals,
    ReadTimeSource,
    route,
)
from flinknet.task.context import ProcessContext, RuntimeContext
from flinknet.task.processing_time import ProcessingTimeService

FLIGHTS = [
    (0, "EWR", "IAH", 1_400, 11),
    (1, "LGA", "IAH", 1_416, -20),
    (2, "EWR", "IAH", 1_400, None),
    (3, "EWR", "LGA", 17, None),
    (4, "EWR", "IAH", 1_400, -3),
]


def context(index: int = 0) -> RuntimeContext:
    return RuntimeContext(
        operator_name="flight totals",
        task_name="flight totals",
        index=index,
        parallelism=2,
        max_parallelism=128,
        processing_time=ProcessingTimeService(lambda action: None),
    )


def taken(records: list[tuple[Any, ...]], channels: int = 2) -> dict[str, list[tuple[Any, ...]]]:
    """What keyed subtask 1 says after these records, by tag; records alternate between channels."""
    totals = FlightTotals(channels)
    totals.open(context(index=1))
    view = ProcessContext()
    for number, record in enumerate(records):
        view.channel, view.current_key = number % channels, route(record)
        totals.process_element((*record, time.monotonic_ns()), view)
    rows: dict[str, list[tuple[Any, ...]]] = {AGGREGATES: [], LATENCY: [], ARRIVALS: []}
    for tag, *row in totals.finish():
        rows[tag].append(tuple(row))
    return rows


def test_a_flight_without_arrival_delay_counts_but_not_in_the_mean() -> None:
    assert sorted(taken(list(FLIGHTS))[AGGREGATES]) == [
        ("EWR", "IAH", 3, 4_200, 8, 2, 6),
        ("EWR", "LGA", 1, 17, 0, 0, 3),
        ("LGA", "IAH", 1, 1_416, -20, 1, 1),
    ]


def test_every_record_is_measured_on_its_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinknet.demo.flights_job.BATCH_RECORDS", 7)  # count in between
    rows = taken([FLIGHTS[number % 5] for number in range(100)], channels=3)
    by_channel: Counter[int] = Counter()
    for subtask, source, _, records in rows[LATENCY]:
        assert subtask == 1
        by_channel[source] += records
    assert by_channel == {0: 34, 1: 33, 2: 33}
    assert sum(row[3] for row in rows[ARRIVALS]) == 100


def test_a_subtask_without_records_says_nothing() -> None:
    assert taken([]) == {AGGREGATES: [], LATENCY: [], ARRIVALS: []}


def test_the_read_time_is_the_intended_send_time(tmp_path: Path) -> None:
    columns = ["id", "origin", "dest", "distance", "arr_delay"]
    for part in range(2):
        rows = [dict(zip(columns, flight, strict=True)) for flight in FLIGHTS[part::2]]
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / f"part-{part}.parquet")
    source = ReadTimeSource(FileSource(tmp_path, columns=columns, split="file"))
    before_ns = time.monotonic_ns()
    records = [record for batch in source.batches(context(index=1)) for record in batch]
    assert [record[:-1] for record in records] == FLIGHTS[1::2]
    assert all(before_ns <= record[-1] <= time.monotonic_ns() for record in records)


@pytest.mark.parametrize("records_per_s", [None, 1_000.0])
def test_the_job_has_a_source_per_file_and_one_hash_exchange(
    tmp_path: Path, records_per_s: float | None
) -> None:
    files = []
    for source in range(3):
        files.append(str(tmp_path / f"{source}.parquet"))
        pyarrow.parquet.write_table(pa.table({"id": pa.array([], pa.int64())}), files[-1])
    graph = FlightsJob(tuple(files), 4, tmp_path / "results", records_per_s).graph()
    assert [vertex.parallelism for vertex in graph.vertices] == [3, 4]
    assert [(edge.source, edge.target, edge.name) for edge in graph.edges] == [(0, 1, "HASH")]
    assert graph.slots_required() == 4


def test_the_measurement_is_counted_before_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of a keyed subtask is bounded by a batch, however many records it takes."""
    totals = FlightTotals(1)
    totals.open(context())
    view = ProcessContext()
    longest = 0
    for record_id in range(measurement.BATCH_RECORDS + 10):
        record = (record_id, "EWR", "IAH", 1_400, None)
        view.current_key = route(record)
        totals.process_element((*record, 0), view)
        longest = max(longest, len(totals._taken))
    assert longest < measurement.BATCH_RECORDS * measurement.FIELDS
