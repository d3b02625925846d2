"""The family ``latency`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.harness.case import Case
from bench.harness.contest import Entrant, print_absences, run_case
from bench.harness.family import Progress, Selection, chosen, summaries
from bench.harness.open_loop import load_parameters, measure_load
from bench.harness.row import Row
from bench.harness.system import Contestant, System
from bench.harness.table import KEPT, RATE, Column, format_time, latency_columns, print_table
from bench.latency.cases import LOADS, MAXIMUM, SHARES
from bench.latency.figure import draw_latencies
from bench.latency.system import SYSTEM
from bench.peers import dask_comm, grpc_aio, pyzmq, pyzmq_asyncio, stream, websockets

__all__ = ["LatencyFamily"]

PEERS: tuple[System, ...] = (
    pyzmq.SYSTEM,
    pyzmq_asyncio.SYSTEM,
    grpc_aio.SYSTEM,
    websockets.SYSTEM,
    dask_comm.SYSTEM,
    stream.SYSTEM,
)
KEY = (
    "records/s: that came through, median of the interleaved runs; in the first block as fast as "
    "they go, below it a share of each system's own median there, so systems carry different "
    "loads. kept: how much of the load came through; with less than 95 % the latency is that of a "
    "queue that grows as long as the run. p50, p99, p99.9: from the time at which a record is to "
    "be sent to the consumer's having it; medians of the runs. late: the p50 of the part of it "
    "that passes before the record is handed to the system."
)
LATE = Column(
    "late",
    lambda row: format_time(row.parameters["handed_out_late_us"]["p50"]) if row.latency_us else "",
)


class LatencyFamily:
    """One producer, one consumer, and an open-loop load."""

    name = "latency"
    summary = "how long a record takes at 10, 50 and 80 % of the maximum, in open loop"

    def __init__(self) -> None:
        self.cases = summaries(LOADS)
        self.systems = summaries(PEERS)

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure the maximum of every system, then the chosen shares of it."""
        systems = [SYSTEM, *chosen(PEERS, selection.against)]
        contestants = [
            Contestant(system, variant)
            for system in systems
            for variant in (system.variants if system is SYSTEM else ("record",))
        ]
        cases = chosen(LOADS, selection.cases)
        progress.expect(selection.plan.runs * len(contestants) * (1 + len(cases)))
        at_full_speed = [_entrant(contestant, None, {}) for contestant in contestants]
        rows = run_case(self.name, MAXIMUM, at_full_speed, selection, progress)
        maxima = {
            contestant: row.records_per_s
            for contestant, row in zip(contestants, rows, strict=True)
            if row.runs
        }
        rows = [replace(row, latency_us=None) for row in rows]
        for case in cases:
            rows += self._run_load(case, maxima, selection, progress)
        return rows

    def _run_load(
        self,
        case: Case,
        maxima: Mapping[Contestant, float],
        selection: Selection,
        progress: Progress,
    ) -> list[Row]:
        loads = [maximum * SHARES[case.name] for maximum in maxima.values()]
        entrants = [
            _entrant(contestant, load, {"maximum_records_per_s": maximum})
            for (contestant, maximum), load in zip(maxima.items(), loads, strict=True)
        ]
        rows = run_case(self.name, case, entrants, selection, progress)
        return [
            replace(row, parameters={**row.parameters, **load_parameters(load, row.records_per_s)})
            for row, load in zip(rows, loads, strict=True)
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print rates and percentiles, then the absences with their reasons."""
        columns = (RATE, KEPT, *latency_columns("p50", "p99", "p99.9"), LATE)
        ran = [row for row in rows if row.runs]
        print_table(
            ran,
            columns,
            KEY,
            console,
            name="system",
            label=attrgetter("contestant"),
        )
        print_absences(rows, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw a panel for each load."""
        draw_latencies([row for row in rows if row.runs and row.latency_us], path)


def _entrant(
    contestant: Contestant, records_per_s: float | None, parameters: Mapping[str, Any]
) -> Entrant:
    """Return an entrant that carries a load, or as much as it can."""
    system = contestant.system
    return Entrant(
        system.name,
        contestant.variant,
        system.version,
        lambda case: {**system.parameters(case), **parameters},
        partial(measure_load, contestant, records_per_s),
    )
