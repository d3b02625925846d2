"""The demo's job: flights keyed by (origin, dest), counted and summed, with measured latencies.

::

    FileSource -> intended send time        one subtask per source
        | hash by (origin, dest)
    FlightTotals                            one keyed subtask per slot
        |- aggregates/  one row per pair
        |- latency/     one row per channel and latency bucket
        |- arrivals/    one row per 100 ms

A record is a tuple ``(id, origin, dest, distance, arr_delay, intended_ns)`` of about 30 bytes.
``arr_delay`` is None for a flight that never arrived. ``intended_ns`` is on the monotonic clock of
the host. Its value in the saturation run is the time at which the source read the record. The
open-loop run uses the scheduled time, even if the record is sent late.

In columns, a record is an Arrow record batch of such rows. The exchange splits it by the pairs of
its rows (``ColumnTotals``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flinknet import machine
from flinknet.datastream.connectors.arrow_files import FileSource
from flinknet.datastream.connectors.parquet_sink import ParquetSink
from flinknet.datastream.environment import StreamExecutionEnvironment
from flinknet.datastream.restart_strategies import RestartStrategies
from flinknet.datastream.sources import RateLimitedSource, append_time
from flinknet.demo.flight_totals import (
    AGGREGATES,
    ARRIVALS,
    INTENDED,
    LATENCY,
    PAIR,
    ColumnTotals,
    FlightTotals,
)
from flinknet.functions.context import RuntimeContext
from flinknet.graph.graph import JobGraph
from flinknet.operators.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from flinknet.datastream.streams import DataStream

__all__ = ["FlightsJob", "ReadTimeColumns", "ReadTimeSource"]

CHECKPOINTS = "checkpoints"
"""Directory of checkpoints, beside the results of a run."""

RESTARTS_MAX = 3
"""Maximum number of restarts.

It is more than a killed worker needs, and it ends a job that fails each time.
"""

FIELDS = ("id", "origin", "dest", "distance", "arr_delay")
"""Columns of the workload that a source reads."""

PAIR_OF_FLIGHT = itemgetter(1, 2)
"""Key selector of a record that is a tuple."""

COLUMNS = {
    AGGREGATES: {
        "origin": "string",
        "dest": "string",
        "records": "int64",
        "distance": "int64",
        "delay_sum": "int64",
        "delays": "int64",
        "id_sum": "int64",
    },
    LATENCY: {"subtask": "int32", "source": "int32", "upper_ns": "int64", "records": "int64"},
    ARRIVALS: {"subtask": "int32", "begin_ns": "int64", "end_ns": "int64", "records": "int64"},
}


@dataclass(frozen=True, slots=True)
class FlightsJob:
    """One run of the job; ``records_per_s`` is the scheduled rate, None means full speed."""

    files: tuple[str, ...]
    """One file per source."""
    parallelism: int
    """Number of keyed subtasks."""
    results: Path
    records_per_s: float | None = None
    checkpoint_interval_ms: float = 1_000.0
    in_columns: bool = False
    """Whether records are Arrow record batches; only without a schedule."""

    @property
    def checkpoints(self) -> Path:
        """The directory of its checkpoints."""
        return self.results / CHECKPOINTS

    def graph(self) -> JobGraph:
        """Build the job graph."""
        environment = StreamExecutionEnvironment.get_execution_environment()
        environment.set_parallelism(self.parallelism)
        environment.enable_checkpointing(self.checkpoint_interval_ms)
        environment.get_checkpoint_config().set_checkpoint_storage_dir(str(self.checkpoints))
        environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(RESTARTS_MAX, 0.0))
        rows = self._totals(environment).name("flight totals")
        for tag, columns in COLUMNS.items():
            (
                rows.filter(HasTag(tag))
                .name(f"{tag} only")
                .map(without_tag)
                .name(f"{tag} row")
                .sink_to(ParquetSink(self.results / tag, columns))
                .name(tag)
            )
        return environment.job_graph("flights")

    def _totals(self, environment: StreamExecutionEnvironment) -> DataStream:
        sources = len(self.files)
        flights = environment.from_source(self._source(), name="flights").set_parallelism(sources)
        if self.in_columns:
            return flights.key_by_columns(*PAIR).map_batch(ColumnTotals(sources))
        return flights.key_by(PAIR_OF_FLIGHT).map_batch(FlightTotals(sources))

    def _source(self) -> Source:
        records: Literal["batch", "tuple"] = "batch" if self.in_columns else "tuple"
        source = FileSource(self.files, columns=FIELDS, split="file", records=records)
        if self.in_columns:
            return ReadTimeColumns(source)
        if self.records_per_s is None:
            return ReadTimeSource(source)
        return RateLimitedSource(source, self.records_per_s, stamp=append_time)


class ReadTimeSource(Source):
    """Another source, with the time of reading as each record's intended send time.

    After a failure this time differs, but the rest of a record is the same.
    """

    replayable = True

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def batches(self, context: RuntimeContext) -> Iterator[list[Any]]:
        return self._source.read_share(context, stamp=machine.monotonic_ns)


class ReadTimeColumns(ReadTimeSource):
    """A ReadTimeSource for record batches, with the time as a column."""

    def batches(self, context: RuntimeContext) -> Iterator[list[pa.RecordBatch]]:
        import numpy as np

        for batches in self._source.read_share(context):
            read_ns = machine.monotonic_ns()
            yield [
                batch.append_column(INTENDED, np.full(batch.num_rows, read_ns)) for batch in batches
            ]


@dataclass(frozen=True, slots=True)
class HasTag:
    """A filter for the rows of one tag."""

    tag: str

    def __call__(self, row: tuple[Any, ...]) -> bool:
        return bool(row[0] == self.tag)


def without_tag(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the row without its tag, for the sink."""
    return row[1:]
