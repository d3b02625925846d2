"""Jobs with workers in tasks of Spark, on real executors.

The result is exact in spite of kills, and no process is left.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flinknet.spark
from flinknet.cluster import run_job
from flinknet.config import ClusterConfig, FlinknetConfig, SparkConfig
from flinknet.datastream import GeneratorSource
from flinknet.demo.flight_totals import AGGREGATES
from flinknet.demo.flights_job import FlightsJob
from flinknet.demo.verification import expected_aggregates, verify
from flinknet.demo.workload import WorkloadParameters, claim_directory, prepare_workload
from tests.chaos.audited_flights import AuditedFlights, aggregates_of, flight
from tests.chaos.spark_kills import VICTIMS, SparkKills
from tests.spark_sessions import own_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("spark launcher"),
]

MASTER = "local-cluster[2,1,1024]"
RECORDS = 40_000
PATIENT = FlinknetConfig(
    cluster=ClusterConfig(start_timeout_ms=120_000.0),
    spark=SparkConfig(tasks_timeout_ms=110_000.0),
)
"""Generous timeouts, because executors start slowly beside other tests."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with own_session(tmp_path_factory.mktemp("spark") / "spark.log", MASTER) as session:
        flinknet.spark.use(session)
        yield session
        flinknet.spark.use(None)


def test_the_demos_job_runs_in_executors_and_spark_confirms_its_answer(
    spark: SparkSession, tmp_path: Path
) -> None:
    claim_directory(tmp_path / "flights")
    workload = prepare_workload(spark, tmp_path / "flights", WorkloadParameters(2, 2, 5_000))
    job = FlightsJob(workload.source_files(), 4, tmp_path / "results")
    written: list[tuple[str, str]] = []
    result = run_job(job.graph(), PATIENT, on_output=lambda *line: written.append(line))
    assert {row["worker_id"] for row in result.vertices} == {"worker-0", "worker-1"}
    expected = expected_aggregates(spark, workload)
    verification = verify(spark, expected, tmp_path / "results" / AGGREGATES)
    assert verification.passed, verification.differences[:5]
    assert verification.records == workload.parameters.records
    assert [line for process, line in written if process.startswith("worker")] == []


async def test_the_answer_is_exact_after_any_kill(spark: SparkSession, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    job = AuditedFlights(GeneratorSource(flight, RECORDS), RECORDS, tmp_path, 20)
    kills = SparkKills(spark, job, random.Random(seed))
    rows = await kills.run(VICTIMS)
    assert job.found() == {}
    assert rows == aggregates_of(map(flight, range(RECORDS)))
    assert len(job.restored()) >= 1
    assert spark.range(10).count() == 10
