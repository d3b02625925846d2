"""A job on Spark's executors through twenty kills of executors, Python workers and workers.

No record may be lost, duplicated, reordered or changed, and no process may be left. ``make chaos
ARGS="-k spark_kills --seed 7"`` repeats the kills of a run, which prints its seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flinknet.spark
from flinknet.datastream import GeneratorSource
from tests.chaos.audited_flights import AuditedFlights, aggregates_of, flight
from tests.chaos.spark_kills import VICTIMS, SparkKills
from tests.spark_sessions import own_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(3600)]

RECORDS = 120_000
KILLS = 20


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkSession]:
    with own_session(tmp_path / "spark.log", "local-cluster[2,1,1024]") as session:
        flinknet.spark.use(session)
        yield session
        flinknet.spark.use(None)


async def test_the_answer_is_exact_after_twenty_kills(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--seed")
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    chance = random.Random(seed)
    victims = chance.choices(VICTIMS, k=min(KILLS, request.config.getoption("--trials")))
    print(f"\nkills on Spark: seed {seed}")
    # The job must not end before its last kill; a kill may take half a minute.
    job = AuditedFlights(GeneratorSource(flight, RECORDS), RECORDS, tmp_path, 20 * KILLS)
    kills = SparkKills(spark, job, chance)
    rows = await kills.run(victims)
    print(f"{len(victims)} kills, the longest restart took {max(kills.restarts_s):.1f} s")
    assert job.found() == {}
    assert rows == aggregates_of(map(flight, range(RECORDS)))
