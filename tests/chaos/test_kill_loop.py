"""3 million real flights and more through a hundred faults, verified by Spark.

Workers are killed or stopped, the coordinator is killed, or the parallelism changes. No record may
be lost, duplicated, reordered or changed, and the result must equal Spark's. ``make chaos ARGS="-k
kill_loop --seed 7"`` repeats the faults of a run, which prints its seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.parquet
import pytest

from flinknet.datastream import FileSource
from flinknet.demo.spark_session import spark_session
from flinknet.demo.verification import expected_aggregates, verify
from flinknet.demo.workload import Workload, WorkloadParameters, claim_directory, prepare_workload
from tests.chaos.audited_flights import COLUMNS, FAULTS, SOURCES, AuditedFlights
from tests.chaos.kill_loop import SETTINGS, KillLoop, Setting, print_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(3600)]

SCALE = 9
"""Years of flights: 3,030,984 records."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


@pytest.fixture(scope="module")
def workload(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    output = tmp_path_factory.mktemp("flights")
    claim_directory(output)
    return prepare_workload(spark, output, WorkloadParameters(SCALE, SOURCES))


@pytest.fixture(scope="module")
def expected(spark: SparkSession, workload: Workload) -> DataFrame:
    return expected_aggregates(spark, workload)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
async def test_after_a_hundred_faults_the_answer_is_sparks(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    spark: SparkSession,
    workload: Workload,
    expected: DataFrame,
    setting: Setting,
) -> None:
    seed = request.config.getoption("--seed")
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    print(f"\nkill loop, {setting}: seed {seed}")
    columns = ["id", "origin", "dest", "distance", "arr_delay"]
    source = FileSource(workload.source_files(), columns=columns, split="file")
    records, faults = workload.parameters.records, request.config.getoption("--trials")
    job = AuditedFlights(source, records, tmp_path, faults)
    outcome = await KillLoop(setting, job, random.Random(seed)).run()
    print_table([outcome])
    assert job.found() == {}
    table = pyarrow.table(dict(zip(COLUMNS, zip(*outcome.rows, strict=True), strict=True)))
    for fault in FAULTS:
        assert not any(table[fault].to_pylist()), fault
    pyarrow.parquet.write_table(table, tmp_path / "aggregates.parquet")
    verification = verify(spark, expected, tmp_path / "aggregates.parquet")
    assert verification.passed, verification.differences[:5]
    assert verification.records == records
    assert len(job.restored()) >= faults // 4
