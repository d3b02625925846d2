"""A job that audits each flight on its way: none may be lost, duplicated, reordered or changed.

::

    HeldBack source -> Numbered      counts the flights of each pair, in operator state
        | hash by (origin, dest)
    Audit, HeldBackAudit             keyed state: the next number of each producer, and the totals
        | totals of each pair, from a timer at the end of time
    CollectSink

The job must be slow while it has faults to survive. Either its sources or its audits hold it back;
in the second case every channel is full of flights.

The audits compare the stream with the state. If a checkpoint has one of them a record earlier than
the other, a number is missing or comes twice. An audit writes its findings to a file at once,
because its attempt may be undone.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from flinknet.cluster import JobResult
from flinknet.datastream import (
    CheckpointedFunction,
    CollectSink,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OnTimerContext,
    ProcessContext,
    RestartStrategies,
    RuntimeContext,
    Source,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flinknet.graph.graph import JobGraph
from flinknet.operators.source import read

__all__ = [
    "COLUMNS",
    "FAULTS",
    "Audit",
    "AuditedFlights",
    "Numbered",
    "aggregates_of",
    "flight",
    "id_of",
    "route",
]

SOURCES = 2
END_OF_TIME_MS = 1 << 50
"""A time behind every flight; the time of a flight is its number."""

TICK_S = 0.01
TICKS_PER_FAULT = 100
"""About as long as one fault takes.

The job becomes slower and slower, so that it does not end before its last fault.
"""

LONG_EVERY, LONG_BYTES = 997, 10_000
"""Every so many records, one is longer than a buffer."""

CHECKPOINTS_FAILED_MAX = 1_000_000

TOTALS = ("records", "distance", "delay_sum", "delays", "id_sum")
FAULTS = ("lost", "duplicated", "out_of_order", "corrupt")
COLUMNS = ("origin", "dest", *TOTALS, *FAULTS)
TOTALS_SINK = "totals of all pairs"


@dataclass(frozen=True, slots=True)
class AuditedFlights:
    """One job; ``folder`` has its gate and its notes."""

    source: Source
    """Yields (id, origin, dest, distance, arr_delay), with ascending ids in each source subtask."""
    records: int
    folder: Path
    faults: int
    """The number of faults that it has to survive."""
    under_pressure: bool = False
    """Whether the audits hold the job back, and not the sources."""
    unaligned: bool = False
    aligned_timeout_ms: float = 0.0
    interval_ms: float = 200.0

    @property
    def gate(self) -> Path:
        """The file that makes the sources send everything that is left."""
        return self.folder / "gate"

    def graph(self, parallelism: int = 2) -> JobGraph:
        """Build the job graph with ``parallelism`` keyed subtasks."""
        environment = StreamExecutionEnvironment().set_parallelism(parallelism)
        environment.enable_checkpointing(self.interval_ms)
        checkpoints = environment.get_checkpoint_config()
        checkpoints.set_tolerable_checkpoint_failure_number(CHECKPOINTS_FAILED_MAX)
        checkpoints.enable_unaligned_checkpoints(self.unaligned)
        checkpoints.set_aligned_checkpoint_timeout(self.aligned_timeout_ms)
        environment.set_restart_strategy(
            RestartStrategies.fixed_delay_restart(CHECKPOINTS_FAILED_MAX, 0.0)
        )
        found = self.folder / "found"
        source, audit = self.source, Audit(found)
        if self.under_pressure:
            audit = HeldBackAudit(found, self._pace(parallelism))
        else:
            source = HeldBack(source, self._pace(SOURCES))
        by_id = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(id_of)
        (
            environment.from_source(source)
            .set_parallelism(SOURCES)
            .map(Numbered(self.folder / "restored"))
            .set_parallelism(SOURCES)
            .assign_timestamps_and_watermarks(by_id)
            .set_parallelism(SOURCES)
            .key_by(route)
            .process(audit)
            .name("audit")
            .sink_to(CollectSink())
            .name(TOTALS_SINK)
        )
        return environment.job_graph("audited flights")

    def _pace(self, subtasks: int) -> Pace:
        return Pace(self.records, subtasks * TICKS_PER_FAULT * self.faults, self.gate)

    def found(self) -> Counter[str]:
        """Return how often the audits have found each fault, also in attempts that were undone."""
        return Counter(line["fault"] for line in _lines(self.folder / "found"))

    def restored(self) -> list[int]:
        """Return the checkpoints from which the job has continued."""
        return sorted({line["checkpoint"] for line in _lines(self.folder / "restored")})

    def rows(self, result: JobResult) -> list[tuple[Any, ...]]:
        """Return the sorted result of the job."""
        return sorted(map(tuple, result.collected[TOTALS_SINK]))


def flight(number: int) -> tuple[Any, ...]:
    """Return a flight for tests without Spark's workload."""
    mixed = number * 2_654_435_761 % (1 << 32)
    delay = None if mixed % 11 == 0 else mixed % 200 - 30
    return number, ["EWR", "JFK", "LGA"][mixed % 3], f"D{mixed // 7 % 23:02}", mixed % 900, delay


def aggregates_of(flights: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the result of the job without a fault."""
    totals: dict[tuple[str, str], list[int]] = {}
    for number, origin, dest, distance, delay in flights:
        pair = totals.setdefault((origin, dest), [0] * (len(TOTALS) + len(FAULTS)))
        for place, value in enumerate((1, distance, delay or 0, delay is not None, number)):
            pair[place] += value
    return sorted((*pair, *sums) for pair, sums in totals.items())


@dataclass(frozen=True, slots=True)
class Pace:
    """The number of flights for a subtask at each tick.

    It is a ``ticks``-th of the flights left, or all of them once the gate is there.
    """

    records: int
    ticks: int
    gate: Path

    def flights(self, flight_id: int) -> int | None:
        """Return the number of the next flights, which begin at this id; None for all."""
        if self.gate.exists():
            return None
        return 1 + max(0, self.records - flight_id) // self.ticks


class HeldBack(Source):
    """A source that holds another source to a pace."""

    replayable = True

    def __init__(self, source: Source, pace: Pace) -> None:
        self._source = source
        self._pace = pace

    def batches(self, context: RuntimeContext) -> AsyncIterator[list[Any]]:
        return self.batches_after(context, 0)

    async def batches_after(
        self, context: RuntimeContext, position: int
    ) -> AsyncIterator[list[Any]]:
        async with aclosing(read(self._source, context, position)) as batches:
            async for batch in batches:
                records = list(batch)
                while records:
                    size = self._pace.flights(records[0][0])
                    yield records[:size]
                    if size is None:
                        break
                    del records[:size]
                    await asyncio.sleep(TICK_S)


class Numbered(MapFunction, CheckpointedFunction):
    """A map function that adds a producer, a number and a checked payload to each flight."""

    def __init__(self, restored: Path) -> None:
        self._restored = restored
        self._producer = 0
        self._next: dict[tuple[str, str], int] = {}

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self._saved = store.get_list_state(ListStateDescriptor("numbers"))
        self._next |= {(origin, dest): number for origin, dest, number in self._saved.get()}
        if context.is_restored():
            _note(self._restored, checkpoint=context.get_restored_checkpoint_id())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._saved.update([(*pair, number) for pair, number in self._next.items()])

    def open(self, runtime_context: RuntimeContext) -> None:
        self._producer = runtime_context.index

    def map(self, value: Any) -> tuple[Any, ...]:
        pair = route(value)
        number = self._next.get(pair, 0)
        self._next[pair] = number + 1
        load = value[0].to_bytes(8, "big") * (1 + value[0] % 20)
        if value[0] % LONG_EVERY == 0:
            load *= LONG_BYTES // len(load)
        return (*value, self._producer, number, load, crc32(load, number))


class Audit(KeyedProcessFunction):
    """An operator that checks each flight, and adds it to the totals."""

    def __init__(self, found: Path) -> None:
        self._found = found

    def open(self, runtime_context: RuntimeContext) -> None:
        self._next = runtime_context.get_map_state(MapStateDescriptor("next"))
        self._missing = runtime_context.get_map_state(MapStateDescriptor("missing"))
        self._totals = runtime_context.get_state(ValueStateDescriptor("totals"))

    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        self._look_at(value, ctx)

    def _look_at(self, value: Any, ctx: ProcessContext) -> None:
        flight_id, _, _, distance, delay, producer, number, load, checksum = value
        totals = self._totals.value()
        if totals is None:
            ctx.timer_service().register_event_time_timer(END_OF_TIME_MS)
            totals = (0,) * (len(TOTALS) + len(FAULTS) - 1)
        duplicated = out_of_order = corrupt = 0
        expected = self._next.get(producer) or 0
        if number == expected:
            self._next.put(producer, number + 1)
        elif number > expected:
            self._note("lost", value)
            self._missing.put_all({(producer, one): True for one in range(expected, number)})
            self._next.put(producer, number + 1)
        elif self._missing.contains((producer, number)):
            self._note("out_of_order", value)
            self._missing.remove((producer, number))
            out_of_order = 1
        else:
            self._note("duplicated", value)
            duplicated = 1
        if crc32(load, number) != checksum or load[:8] != flight_id.to_bytes(8, "big"):
            self._note("corrupt", value)
            corrupt = 1
        new = (1, distance, delay or 0, delay is not None, flight_id)
        faults = (duplicated, out_of_order, corrupt)
        self._totals.update(tuple(map(int.__add__, totals, new + faults)))

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[tuple[Any, ...]]:
        totals = self._totals.value()
        sums, faults = totals[: len(TOTALS)], totals[len(TOTALS) :]
        yield *ctx.get_current_key(), *sums, len(list(self._missing.keys())), *faults

    def _note(self, fault: str, value: Any) -> None:
        flight_id, origin, dest, _, _, producer, number, _, _ = value
        _note(self._found, fault=fault, pair=[origin, dest], flight=[flight_id, producer, number])


class HeldBackAudit(Audit):
    """An audit that holds the job to a pace."""

    def __init__(self, found: Path, pace: Pace) -> None:
        super().__init__(found)
        self._pace = pace
        self._left: int | None = 0

    async def process_element(self, value: Any, ctx: ProcessContext) -> None:  # type: ignore[override]  # a coroutine function will do
        self._look_at(value, ctx)
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self._left = self._pace.flights(value[0])
                await asyncio.sleep(TICK_S)


def route(record: tuple[Any, ...]) -> tuple[str, str]:
    """Return the (origin, dest) of a flight, as its key."""
    return record[1], record[2]


def id_of(value: Any, stamp: int | None) -> int:
    """Return the id of a flight, as its timestamp."""
    number: int = value[0]
    return number


def _note(path: Path, **fields: Any) -> None:
    """Append a line with one write, so that lines of several processes do not mix."""
    with path.open("a") as file:
        file.write(json.dumps(fields) + "\n")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())
