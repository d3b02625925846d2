"""The prepared workload: complete, split for the sources, and reused only if it is the right
one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow.parquet
import pytest

from flinknet.demo.workload import (
    FLIGHTS,
    Workload,
    WorkloadParameters,
    claim_directory,
    load_workload,
    read_workload,
)
from flinknet.errors import ConfigurationError
from tests.unit.demo.conftest import SMALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]


def test_the_package_has_the_flights_that_the_demo_counts_on(flights: pd.DataFrame) -> None:
    assert len(flights) == FLIGHTS


def test_every_copy_of_every_flight_is_there_once(
    spark: SparkSession, workload: Workload, flights: pd.DataFrame
) -> None:
    rows = pd.DataFrame(read_workload(spark, workload).toPandas())
    rows = rows.sort_values("id", ignore_index=True)
    assert rows["id"].tolist() == list(range(SMALL.records))
    year = flights.head(SMALL.limit)
    for copy in range(SMALL.scale):
        part = rows[rows["copy"] == copy]
        assert part["origin"].tolist() == year["origin"].tolist()
        assert part["dest"].tolist() == year["dest"].tolist()
        assert part["distance"].tolist() == year["distance"].tolist()
        assert part["arr_delay"].isna().tolist() == year["arr_delay"].isna().tolist()
        assert part["arr_delay"].dropna().tolist() == year["arr_delay"].dropna().tolist()
    assert rows["arr_delay"].isna().any()


def test_a_source_has_its_records_in_order(workload: Workload) -> None:
    files = workload.source_files()
    assert len(files) == SMALL.sources
    for source, file in enumerate(files):
        with pyarrow.parquet.ParquetFile(file) as parquet:
            ids = parquet.read(["id"])["id"].to_pylist()
        assert ids == [
            copy * SMALL.limit + row
            for copy in range(SMALL.scale)
            for row in range(source, SMALL.limit, SMALL.sources)
        ]


def test_a_workload_is_reused_if_the_parameters_are_the_same(workload: Workload) -> None:
    output = workload.directory.parent
    assert load_workload(output, SMALL) == workload
    assert load_workload(output, WorkloadParameters(scale=2, sources=2, limit=4_000)) is None
    assert load_workload(output, WorkloadParameters(scale=3, sources=3, limit=4_000)) is None
    assert load_workload(output, WorkloadParameters(scale=3, sources=2, limit=3_999)) is None


@pytest.mark.parametrize("damage", ["truncate", "remove", "add"])
def test_a_damaged_workload_is_not_reused(workload: Workload, tmp_path: Path, damage: str) -> None:
    output = tmp_path / "copy"
    shutil.copytree(workload.directory.parent, output)
    assert load_workload(output, SMALL) is not None
    file = output / "workload" / next(iter(workload.files))
    if damage == "truncate":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "remove":
        file.unlink()
    else:
        shutil.copy(file, file.with_name("part-other.parquet"))
    assert load_workload(output, SMALL) is None


def test_nothing_is_reused_from_an_empty_or_foreign_directory(tmp_path: Path) -> None:
    assert load_workload(tmp_path, SMALL) is None
    claim_directory(tmp_path)
    assert load_workload(tmp_path, SMALL) is None
    (tmp_path / "manifest.json").write_text("{")
    assert load_workload(tmp_path, SMALL) is None


def test_a_directory_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigurationError, match="choose another --output"):
        claim_directory(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_output_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be used as --output"):
        claim_directory(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"scale": 0, "sources": 1}, "scale is 0: choose 1 to"),
        ({"scale": 10_000, "sources": 1}, "scale is 10000: choose 1 to"),
        ({"scale": 1, "sources": 0}, "sources is 0: choose 1 to"),
        ({"scale": 2, "sources": 9, "limit": 8}, "9 sources cannot share 8 flights"),
        ({"scale": 1, "sources": 1, "limit": 0}, "limit is 0: choose 1 to"),
        ({"scale": 1, "sources": 1, "limit": FLIGHTS + 1}, "choose 1 to 336776 flights"),
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        WorkloadParameters(**parameters)
