"""Exact comparison of every aggregate of every (origin, dest) pair with Spark's.

All compared values are integers. The mean arrival delay is compared as its sum and its count, so it
is exact, too. Flights without an arrival delay (cancelled or diverted) count as records but not in
the mean. The sum of the record ids distinguishes the copies of a flight: a lost copy and another
that arrives twice do not cancel out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet.demo.workload import Workload, read_workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["AGGREGATE_SCHEMA", "Difference", "Verification", "expected_aggregates", "verify"]

AGGREGATE_SCHEMA = (
    "origin string, dest string, records bigint, distance bigint, "
    "delay_sum bigint, delays bigint, id_sum bigint"
)
"""Schema of the rows from the job's sink: one row per pair, all integers."""

_COMPARED = ("results", "records", "distance", "delay_sum", "delays", "id_sum")
"""Compared values. ``results`` counts the rows of a pair: a pair has one, in one subtask."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One differing value of one pair; None on a side that lacks the pair."""

    origin: str
    dest: str
    aggregate: str
    spark: int | None
    flinknet: int | None


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome for one run."""

    pairs: int
    records: int
    differences: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        return not self.differences


def expected_aggregates(spark: SparkSession, workload: Workload) -> DataFrame:
    """Return Spark's aggregates, one row per pair, cached for the comparison with every run."""
    from pyspark.sql import functions

    return (
        read_workload(spark, workload)
        .groupBy("origin", "dest")
        .agg(
            functions.lit(1).cast("bigint").alias("results"),
            functions.count("*").alias("records"),
            functions.sum("distance").alias("distance"),
            # A pair without any delay has the sum 0 in flinknet, and null in SQL.
            functions.coalesce(functions.sum("arr_delay"), functions.lit(0)).alias("delay_sum"),
            functions.count("arr_delay").alias("delays"),
            functions.sum("id").alias("id_sum"),
        )
        .cache()
    )


def verify(spark: SparkSession, expected: DataFrame, aggregates: Path) -> Verification:
    """Compare the aggregates that a run's sinks wrote with the expected ones."""
    from pyspark.sql import functions

    actual = (
        spark.read.schema(AGGREGATE_SCHEMA)
        .parquet(str(aggregates))
        .groupBy("origin", "dest")
        .agg(
            functions.count("*").alias("results"),
            *(functions.sum(name).alias(name) for name in _COMPARED if name != "results"),
        )
    )
    spark_values = functions.struct(*_COMPARED).alias("spark")
    flinknet_values = functions.struct(*_COMPARED).alias("flinknet")
    rows = (
        expected.select("origin", "dest", spark_values)
        .join(actual.select("origin", "dest", flinknet_values), ["origin", "dest"], "full_outer")
        .orderBy("origin", "dest")
        .collect()
    )
    differences = tuple(difference for row in rows for difference in _differences(row.asDict(True)))
    compared = [row["spark"] for row in rows if row["spark"] is not None]
    return Verification(len(compared), sum(values["records"] for values in compared), differences)


def _differences(row: dict[str, Any]) -> list[Difference]:
    ours, theirs = row["flinknet"] or {}, row["spark"] or {}
    return [
        Difference(row["origin"], row["dest"], name, theirs.get(name), ours.get(name))
        for name in _COMPARED
        if theirs.get(name) != ours.get(name)
    ]
