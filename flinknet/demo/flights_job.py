"""The demo's job: flights keyed by (origin, dest), counted and summed, with every latency measured.

::

    FileSource -> intended send time        one subtask per source
        | hash by (origin, dest)
    FlightTotals                            one keyed subtask per slot
        |- aggregates/  one row per pair
        |- latency/     one row per channel and latency bucket
        |- arrivals/    one row per 100 ms

A record is a tuple ``(id, origin, dest, distance, arr_delay, intended_ns)`` of about 30 bytes;
``arr_delay`` is None for a flight that never arrived, ``intended_ns`` is on the monotonic clock of
the host. In the saturation run a record is intended for the moment at which its source has read it,
in the open-loop run for the moment that the schedule gives it, however late it is sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinknet.datastream.connectors.arrow_files import FileSource, ParquetSink
from flinknet.datastream.environment import StreamExecutionEnvironment
from flinknet.datastream.restart_strategies import RestartStrategies
from flinknet.datastream.sources import RateLimitedSource, append_time
from flinknet.demo.measurement import BATCH_RECORDS, FIELDS, Measurement
from flinknet.records.key_groups import key_group, key_group_range
from flinknet.task.context import ProcessContext, RuntimeContext
from flinknet.task.functions import KeyedProcessFunction
from flinknet.task.graph import JobGraph
from flinknet.task.source import Source
from flinknet.task.state.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flinknet.task.state.descriptors import ListStateDescriptor
from flinknet.task.state.operator_state import OperatorListState

__all__ = [
    "AGGREGATES",
    "ARRIVALS",
    "LATENCY",
    "FlightTotals",
    "FlightsJob",
    "ReadTimeSource",
]

CHECKPOINTS = "checkpoints"
"""Beside the results of a run."""

RESTARTS_MAX = 3
"""More than a worker that is killed takes, and an end for what fails each time."""

AGGREGATES, LATENCY, ARRIVALS = "aggregates", "latency", "arrivals"
"""Directories of a run's results, and tags of the rows on their way to the sinks."""

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


TOTALS = ListStateDescriptor("totals")
"""(origin, dest, and the five sums) of each pair."""


@dataclass(frozen=True, slots=True)
class FlightsJob:
    """One run of the job; ``records_per_s`` is the schedule's rate, None is as fast as it goes."""

    files: tuple[str, ...]
    """One file per source."""
    parallelism: int
    """Keyed subtasks."""
    results: Path
    records_per_s: float | None = None
    checkpoint_interval_ms: float = 1_000.0

    @property
    def checkpoints(self) -> Path:
        """Where its checkpoints are kept."""
        return self.results / CHECKPOINTS

    def graph(self) -> JobGraph:
        """Build the job graph."""
        environment = StreamExecutionEnvironment.get_execution_environment()
        environment.set_parallelism(self.parallelism)
        environment.enable_checkpointing(self.checkpoint_interval_ms)
        environment.get_checkpoint_config().set_checkpoint_storage_dir(str(self.checkpoints))
        environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(RESTARTS_MAX, 0.0))
        rows = (
            environment.from_source(self._source(), name="flights")
            .set_parallelism(len(self.files))
            .key_by(route)
            .process(FlightTotals(len(self.files)))
            .name("flight totals")
        )
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

    def _source(self) -> Source:
        columns = ["id", "origin", "dest", "distance", "arr_delay"]
        source = FileSource(self.files, columns=columns, split="file")
        if self.records_per_s is None:
            return ReadTimeSource(source)
        return RateLimitedSource(source, self.records_per_s, stamp=append_time)


class ReadTimeSource(Source):
    """Another source, each record with the time at which it was read as its intended send time.

    After a failure that is another time, and the rest of a record the same."""

    replayable = True

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def batches(self, context: RuntimeContext) -> Iterator[list[Any]]:
        for batch in self._source.read_share(context):
            read_ns = time.monotonic_ns()
            yield [(*record, read_ns) for record in batch]


class FlightTotals(KeyedProcessFunction, CheckpointedFunction):
    """Adds up the flights of every pair, and measures when and how late each record arrived.

    All results come when the input has ended, as ``(tag, *row)``. The sums are state, as rows of
    which a subtask takes those of its own pairs; what was measured is not, so that after a failure
    it is of the last attempt.
    """

    def __init__(self, sources: int) -> None:
        self._sources = sources
        self._saved: OperatorListState | None = None

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._saved = context.get_operator_state_store().get_union_list_state(TOTALS)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if self._saved is not None:
            self._saved.update([(*pair, *totals) for pair, totals in self._totals.items()])

    def open(self, runtime_context: RuntimeContext) -> None:
        groups, parallelism = runtime_context.max_parallelism, runtime_context.parallelism
        own = key_group_range(groups, parallelism, runtime_context.index)
        self._totals: dict[tuple[str, str], list[int]] = {
            (origin, dest): totals
            for origin, dest, *totals in (() if self._saved is None else self._saved.get())
            if key_group((origin, dest), groups) in own
        }
        self._measurement = Measurement(runtime_context.index, self._sources)
        self._taken = self._measurement.taken
        self._taken_max = BATCH_RECORDS * FIELDS

    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        arrival_ns = time.monotonic_ns()
        record_id, _, _, distance, arr_delay, intended_ns = value
        taken = self._taken
        taken.append(arrival_ns)
        taken.append(intended_ns)
        taken.append(ctx.channel)  # with one input, the index of the source subtask
        if len(taken) >= self._taken_max:
            self._measurement.count()
        try:
            totals = self._totals[ctx.current_key]
        except KeyError:
            totals = self._totals[ctx.current_key] = [0, 0, 0, 0, 0]
        totals[0] += 1
        totals[1] += distance
        if arr_delay is not None:
            totals[2] += arr_delay
            totals[3] += 1
        totals[4] += record_id

    def finish(self) -> Iterable[tuple[Any, ...]]:
        for (origin, dest), totals in self._totals.items():
            yield AGGREGATES, origin, dest, *totals
        for latency in self._measurement.latency_rows():
            yield LATENCY, *latency
        for arrivals in self._measurement.arrival_rows():
            yield ARRIVALS, *arrivals


@dataclass(frozen=True, slots=True)
class HasTag:
    """Filter: the rows of one tag."""

    tag: str

    def __call__(self, row: tuple[Any, ...]) -> bool:
        return bool(row[0] == self.tag)


def route(record: tuple[Any, ...]) -> tuple[str, str]:
    """Key selector: the (origin, dest) of a flight."""
    return record[1], record[2]


def without_tag(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Map: the row that the sink writes."""
    return row[1:]
