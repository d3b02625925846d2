"""The demo's keyed operators: totals of the flights of each (origin, dest), and latencies.

The operator has two forms. ``FlightTotals`` takes tuples as records. ``ColumnTotals`` takes Arrow
record batches, and makes no Python objects of their rows. Both process the contents of one network
buffer at once, count a record as taken when it has been added up, and keep the same sums as state.
At the end of their input they emit the same rows, as ``(tag, *row)``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flinknet import machine
from flinknet.demo.measurement import Integers, Measurement
from flinknet.functions.context import RuntimeContext
from flinknet.functions.functions import MapBatchFunction
from flinknet.records.key_groups import key_group, key_group_range
from flinknet.state.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flinknet.state.descriptors import ListStateDescriptor
from flinknet.state.operator_state import OperatorListState

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "AGGREGATES",
    "ARRIVALS",
    "INTENDED",
    "LATENCY",
    "PAIR",
    "ColumnTotals",
    "FlightTotals",
    "Totals",
]

AGGREGATES, LATENCY, ARRIVALS = "aggregates", "latency", "arrivals"
"""Tags of rows for the sinks, and the directories of a run's results."""

INTENDED = "intended_ns"
"""Column of a record batch with the intended send times of its rows."""

TOTALS = ListStateDescriptor("totals")
"""State: (origin, dest, and the five sums) of each pair."""

PAIR = ("origin", "dest")

SUMS = {
    "records": ("id", "count"),
    "distance": ("distance", "sum"),
    "delay_sum": ("arr_delay", "sum"),
    "delays": ("arr_delay", "count"),
    "id_sum": ("id", "sum"),
}
"""For each sum, its column and aggregation."""

PARTS_MAX = 64
"""Maximum number of partial sums kept; each has one row per pair of a subtask."""


class Totals(CheckpointedFunction, MapBatchFunction):
    """Base of the operators: the sums as state, as rows.

    After a restore, a subtask takes the rows of its own pairs. Measurements are not state; after a
    failure they cover only the last attempt.
    """

    def __init__(self, sources: int) -> None:
        self._sources = sources
        self._saved: OperatorListState | None = None

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._saved = context.get_operator_state_store().get_union_list_state(TOTALS)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if self._saved is not None:
            self._saved.update(list(self.rows()))

    def open(self, runtime_context: RuntimeContext) -> None:
        groups, parallelism = runtime_context.max_parallelism, runtime_context.parallelism
        own = key_group_range(groups, parallelism, runtime_context.index)
        saved = () if self._saved is None else self._saved.get()
        self.restore([row for row in saved if key_group((row[0], row[1]), groups) in own])
        self.measurement = Measurement(runtime_context.index, self._sources)
        self._came_through = runtime_context.process_context

    def measure(self, intended_ns: Sequence[int] | Integers) -> None:
        """Count the records of a batch as taken now; ``intended_ns`` are their send times."""
        # With one input, the channel's index equals the source subtask's.
        self.measurement.add(machine.monotonic_ns(), self._came_through.channel, intended_ns)

    def finish(self) -> Iterable[tuple[Any, ...]]:
        for row in self.rows():
            yield AGGREGATES, *row
        for latency in self.measurement.latency_rows():
            yield LATENCY, *latency
        for arrivals in self.measurement.arrival_rows():
            yield ARRIVALS, *arrivals

    @abstractmethod
    def rows(self) -> Iterable[tuple[Any, ...]]:
        """Return (origin, dest, and the five sums) of each pair so far."""

    @abstractmethod
    def restore(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Start from these rows."""


class FlightTotals(Totals):
    """Takes tuples ``(id, origin, dest, distance, arr_delay, intended_ns)``."""

    def map_batch(self, values: list[Any]) -> Iterable[Any]:
        sums = self._sums
        intended = []
        for record_id, origin, dest, distance, arr_delay, intended_ns in values:
            intended.append(intended_ns)
            try:
                totals = sums[origin, dest]
            except KeyError:
                totals = sums[origin, dest] = [0, 0, 0, 0, 0]
            totals[0] += 1
            totals[1] += distance
            if arr_delay is not None:
                totals[2] += arr_delay
                totals[3] += 1
            totals[4] += record_id
        self.measure(intended)
        return ()

    def rows(self) -> Iterable[tuple[Any, ...]]:
        return ((*pair, *totals) for pair, totals in self._sums.items())

    def restore(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._sums: dict[tuple[str, str], list[int]] = {
            (origin, dest): totals for origin, dest, *totals in rows
        }


class ColumnTotals(Totals):
    """Takes Arrow record batches of the same columns."""

    def map_batch(self, values: list[Any]) -> Iterable[Any]:
        import pyarrow

        batches = pyarrow.Table.from_batches(values)
        self._parts.append(_summed(batches, SUMS))
        if len(self._parts) > PARTS_MAX:
            self._merge()
        self.measure(batches[INTENDED].to_numpy())
        return ()

    def rows(self) -> Iterable[tuple[Any, ...]]:
        if not self._parts:
            return ()
        self._merge()
        columns = (self._parts[0][name].to_pylist() for name in (*PAIR, *SUMS))
        return zip(*columns, strict=True)

    def restore(self, rows: Sequence[tuple[Any, ...]]) -> None:
        import pyarrow

        self._parts: list[pa.Table] = []
        if rows:
            columns = zip(*rows, strict=True)
            self._parts.append(pyarrow.table(list(map(list, columns)), names=[*PAIR, *SUMS]))

    def _merge(self) -> None:
        import pyarrow

        sums = {name: (name, "sum") for name in SUMS}
        self._parts = [_summed(pyarrow.concat_tables(self._parts), sums)]


def _summed(rows: pa.Table, sums: dict[str, tuple[str, str]]) -> pa.Table:
    """Return the sums of each pair; the sum of no delays is 0, unlike in SQL."""
    import pyarrow
    from pyarrow import compute

    grouped = rows.group_by(list(PAIR), use_threads=False).aggregate(list(sums.values()))
    columns = [grouped[name] for name in PAIR]
    columns += [
        compute.fill_null(grouped[f"{column}_{function}"], 0) for column, function in sums.values()
    ]
    return pyarrow.table(columns, names=[*PAIR, *sums])
