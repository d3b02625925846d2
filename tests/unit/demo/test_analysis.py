"""Spark's figures, compared with the same figures computed from the single records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from flinknet.demo.analysis import Latency, RunFacts, RunFigures, analyse
from flinknet.demo.measurement import ArrivalRow, LatencyRow, Measurement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

SOURCES, SUBTASKS, RECORDS = 3, 2, 40_000
FACTS = RunFacts(("w0", "w1", "w0"), ("w0", "w1"), bytes_exchanged=1_234_567)
BUCKET_WIDTH = 1 / 256


@dataclass
class Recorded:
    """Every single record of a run, from which its histograms are made."""

    arrival_ns: np.ndarray
    latency_ns: np.ndarray
    source: np.ndarray
    subtask: np.ndarray


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    random = np.random.default_rng(3)
    return Recorded(
        arrival_ns=10**12 + np.cumsum(random.integers(1, 50_000, RECORDS)),
        latency_ns=random.lognormal(14, 1.5, RECORDS).astype(np.int64),
        source=random.integers(0, SOURCES, RECORDS),
        subtask=random.choice(SUBTASKS, RECORDS, p=[0.8, 0.2]),
    )


@pytest.fixture(scope="module")
def figures(
    spark: SparkSession, recorded: Recorded, tmp_path_factory: pytest.TempPathFactory
) -> RunFigures:
    run = tmp_path_factory.mktemp("run")
    for subtask in range(SUBTASKS):
        measurement = Measurement(subtask, SOURCES)
        taken = recorded.subtask == subtask
        arrival = recorded.arrival_ns[taken]
        columns = arrival, recorded.source[taken], arrival - recorded.latency_ns[taken]
        for arrived, source, intended in np.column_stack(columns).tolist():
            measurement.add(arrived, source, [intended])
        write_rows(run / "latency", subtask, list(measurement.latency_rows()))
        write_rows(run / "arrivals", subtask, list(measurement.arrival_rows()))
    return analyse(spark, run, FACTS)


def write_rows(directory: Path, subtask: int, rows: list[LatencyRow] | list[ArrivalRow]) -> None:
    directory.mkdir(exist_ok=True)
    small = {"subtask", "source"}
    columns = {
        name: pa.array(values, pa.int32() if name in small else pa.int64())
        for name, values in zip(rows[0]._fields, zip(*rows, strict=True), strict=True)
    }
    pyarrow.parquet.write_table(pa.table(columns), directory / f"part-{subtask}.parquet")


def check_latency(latency: Latency, exact_ns: np.ndarray) -> None:
    """A percentile is the smallest bucket limit that covers enough records; the maximum is
    exact."""
    ordered = np.sort(exact_ns)
    for percentile, permille in (
        (latency.p50_us, 500),
        (latency.p99_us, 990),
        (latency.p999_us, 999),
    ):
        exact_us = ordered[-(-len(ordered) * permille // 1000) - 1] / 1_000
        assert exact_us <= percentile <= exact_us * (1 + BUCKET_WIDTH)
    assert latency.max_us == ordered[-1] / 1_000


def test_totals(figures: RunFigures, recorded: Recorded) -> None:
    seconds = (recorded.arrival_ns[-1] - recorded.arrival_ns[0]) / 1e9
    assert figures.records == RECORDS
    assert figures.seconds == pytest.approx(seconds)
    assert figures.records_per_s == pytest.approx(RECORDS / seconds)
    assert figures.mb_per_s == pytest.approx(FACTS.bytes_exchanged / seconds / 1e6)
    check_latency(figures.latency_us, recorded.latency_ns)


def test_keyed_subtasks(figures: RunFigures, recorded: Recorded) -> None:
    assert [(row.subtask, row.worker) for row in figures.subtasks] == [(0, "w0"), (1, "w1")]
    for row in figures.subtasks:
        taken = recorded.subtask == row.subtask
        assert row.records == taken.sum()
        assert row.share == pytest.approx(taken.mean())
        check_latency(row.latency_us, recorded.latency_ns[taken])


def test_channels(figures: RunFigures, recorded: Recorded) -> None:
    assert [(row.subtask, row.source) for row in figures.channels] == [
        (subtask, source) for subtask in range(SUBTASKS) for source in range(SOURCES)
    ]
    for row in figures.channels:
        taken = (recorded.subtask == row.subtask) & (recorded.source == row.source)
        assert row.records == taken.sum()
        assert row.share == pytest.approx(taken.mean())
        assert row.local == (FACTS.source_workers[row.source] == FACTS.keyed_workers[row.subtask])
        check_latency(row.latency_us, recorded.latency_ns[taken])


def test_throughput_over_time_adds_up(figures: RunFigures, recorded: Recorded) -> None:
    assert len(figures.throughput) == SUBTASKS
    for subtask, points in enumerate(figures.throughput):
        assert sum(records for _, _, records in points) == (recorded.subtask == subtask).sum()
        assert all(0 < lasted <= 0.1 + 1e-9 for _, lasted, _ in points)
        begins = [since for since, _, _ in points]
        assert begins == sorted(begins)
    assert min(points[0][0] for points in figures.throughput) == 0.0
    last = max(points[-1][0] + points[-1][1] for points in figures.throughput)
    assert last == pytest.approx(figures.seconds)


def test_distribution_has_every_record_in_order_of_latency(figures: RunFigures) -> None:
    latencies = [latency for latency, _ in figures.distribution]
    assert latencies == sorted(latencies)
    assert sum(records for _, records in figures.distribution) == RECORDS
