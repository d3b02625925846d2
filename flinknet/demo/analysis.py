"""Figures of a run, computed by Spark: throughput, latency and load per channel.

A channel leads from one source subtask to one keyed subtask. The exchange grants credit at this
level. It is also the only level that shows both the skew between keyed subtasks and the cost of a
socket: a channel within one worker is local, the others cross a connection.

Percentiles are computed from merged histograms. A percentile p is the smallest bucket limit below
which at least p of the records lie. It is therefore never too small, and at most 0.4 % too large.
The maximum is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ChannelFigures", "Latency", "RunFacts", "RunFigures", "SubtaskFigures", "analyse"]

LATENCY_SCHEMA = "subtask int, source int, upper_ns bigint, records bigint"
ARRIVAL_SCHEMA = "subtask int, begin_ns bigint, end_ns bigint, records bigint"

_PERMILLE = {"p50_us": 500, "p99_us": 990, "p999_us": 999}
"""Percentiles in permille; as integers, so that a rank is never rounded."""
_NS_PER_US = 1_000
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency from the intended send time to the keyed operator, in microseconds."""

    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float


@dataclass(frozen=True, slots=True)
class ChannelFigures:
    """One channel from ``source`` to keyed ``subtask``; local if both are in one worker."""

    source: int
    subtask: int
    local: bool
    records: int
    share: float
    latency_us: Latency


@dataclass(frozen=True, slots=True)
class SubtaskFigures:
    """One keyed subtask, with all its channels."""

    subtask: int
    worker: str
    records: int
    share: float
    latency_us: Latency


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about a run that only the cluster knows, not the files of the run."""

    source_workers: tuple[str, ...]
    keyed_workers: tuple[str, ...]
    bytes_exchanged: int


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The figures of one run.

    ``throughput`` holds per keyed subtask and interval (seconds since the first record, seconds,
    records). ``distribution`` holds per bucket (latency in microseconds, records).
    """

    records: int
    seconds: float
    records_per_s: float
    mb_per_s: float
    latency_us: Latency
    subtasks: tuple[SubtaskFigures, ...]
    channels: tuple[ChannelFigures, ...]
    throughput: tuple[tuple[tuple[float, float, int], ...], ...]
    distribution: tuple[tuple[float, int], ...]


def analyse(spark: SparkSession, run: Path, facts: RunFacts) -> RunFigures:
    """Compute a run's figures from its ``latency`` and ``arrivals`` files."""
    from pyspark.sql import functions

    latency = spark.read.schema(LATENCY_SCHEMA).parquet(str(run / "latency")).cache()
    arrivals = spark.read.schema(ARRIVAL_SCHEMA).parquet(str(run / "arrivals")).cache()
    span = arrivals.agg(
        functions.min("begin_ns").alias("begin_ns"),
        functions.max("end_ns").alias("end_ns"),
        functions.sum("records").alias("records"),
    ).first()
    assert span is not None  # an aggregation without keys has one row
    begin_ns, records = int(span["begin_ns"]), int(span["records"])
    seconds = max(int(span["end_ns"]) - begin_ns, 1) / _NS_PER_S
    total = _latencies(latency, [])[()]
    figures = RunFigures(
        records=records,
        seconds=seconds,
        records_per_s=records / seconds,
        mb_per_s=facts.bytes_exchanged / seconds / 1e6,
        latency_us=total.latency,
        subtasks=_subtasks(latency, records, facts),
        channels=_channels(latency, records, facts),
        throughput=_throughput(arrivals, begin_ns, len(facts.keyed_workers)),
        distribution=_distribution(latency),
    )
    latency.unpersist()
    arrivals.unpersist()
    return figures


@dataclass(frozen=True, slots=True)
class _Merged:
    records: int
    latency: Latency


def _latencies(latency: DataFrame, keys: list[str]) -> dict[tuple[int, ...], _Merged]:
    """Merge the histograms with equal ``keys``, and compute their percentiles."""
    from pyspark.sql import Window, functions

    group = Window.partitionBy(*keys) if keys else Window.partitionBy(functions.lit(0))
    up_to = group.orderBy("upper_ns").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    merged = (
        latency.groupBy(*keys, "upper_ns")
        .agg(functions.sum("records").alias("records"))
        .withColumn("total", functions.sum("records").over(group))
        .withColumn("reached", functions.sum("records").over(up_to))
    )
    rows = merged.groupBy(*keys).agg(
        functions.sum("records").alias("records"),
        functions.max("upper_ns").alias("max_us"),
        *(
            functions.min(
                functions.when(
                    functions.col("reached") * 1000 >= functions.col("total") * permille,
                    functions.col("upper_ns"),
                )
            ).alias(name)
            for name, permille in _PERMILLE.items()
        ),
    )
    return {
        tuple(row[key] for key in keys): _Merged(
            row["records"],
            Latency(**{name: row[name] / _NS_PER_US for name in (*_PERMILLE, "max_us")}),
        )
        for row in rows.collect()
    }


def _subtasks(latency: DataFrame, records: int, facts: RunFacts) -> tuple[SubtaskFigures, ...]:
    return tuple(
        SubtaskFigures(
            subtask,
            facts.keyed_workers[subtask],
            merged.records,
            merged.records / records,
            merged.latency,
        )
        for (subtask,), merged in sorted(_latencies(latency, ["subtask"]).items())
    )


def _channels(latency: DataFrame, records: int, facts: RunFacts) -> tuple[ChannelFigures, ...]:
    return tuple(
        ChannelFigures(
            source,
            subtask,
            facts.source_workers[source] == facts.keyed_workers[subtask],
            merged.records,
            merged.records / records,
            merged.latency,
        )
        for (subtask, source), merged in sorted(_latencies(latency, ["subtask", "source"]).items())
    )


def _throughput(
    arrivals: DataFrame, begin_ns: int, subtasks: int
) -> tuple[tuple[tuple[float, float, int], ...], ...]:
    series: list[list[tuple[float, float, int]]] = [[] for _ in range(subtasks)]
    for row in arrivals.orderBy("subtask", "begin_ns").collect():
        since, lasted = row["begin_ns"] - begin_ns, row["end_ns"] - row["begin_ns"]
        series[row["subtask"]].append((since / _NS_PER_S, lasted / _NS_PER_S, row["records"]))
    return tuple(tuple(points) for points in series)


def _distribution(latency: DataFrame) -> tuple[tuple[float, int], ...]:
    from pyspark.sql import functions

    rows = (
        latency.groupBy("upper_ns")
        .agg(functions.sum("records").alias("records"))
        .orderBy("upper_ns")
    )
    return tuple((row["upper_ns"] / _NS_PER_US, row["records"]) for row in rows.collect())
