"""The family ``timeouts`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from rich.console import Console

from bench.exchange.cases import small_tuples
from bench.harness.case import record_bytes
from bench.harness.comparison import compare
from bench.harness.family import Progress, Selection, plan_parameters
from bench.harness.interleaving import interleave
from bench.harness.open_loop import load_parameters, measure_load
from bench.harness.row import Row, median_latency, median_row, ratio
from bench.harness.system import SUBJECT, Contestant
from bench.harness.table import KEPT, RATE, Column, latency_columns, print_table
from bench.harness.trial import TimedMeasurement
from bench.peers import sockets
from bench.peers.cases import PING_PONG
from bench.peers.pingpong import trial as ping_pong_trial
from bench.timeouts.figure import draw_timeouts
from bench.timeouts.system import LONG, SYSTEM, split

__all__ = ["TimeoutsFamily", "in_round_trips", "to_long"]

CASE = small_tuples.CASE

LOAD = 0.1
"""Share of the highest throughput of any variant; all variants get the same load."""

KEY = (
    "records/s: as fast as they go; median of the interleaved runs, on the consumer's clock. "
    "/ 100 ms: over the median with a timeout of 100 ms in the same mode. p50, p99, p99.9: from "
    "the time at which a record is to be sent to the consumer's having it, at a tenth of the "
    "highest records/s, the same for all; medians of the runs. kept: how much of that load came "
    "through; with less than 95 % the latency is that of a queue that grows as long as the run. "
    "p50 / trip: over the p50 of the round trip of a record over raw sockets, the last line, "
    "whose records/s are round trips."
)


class TimeoutsFamily:
    """The figure of Flink's network stack post of 2019: throughput and latency by timeout."""

    name = "timeouts"
    summary = "the buffer timeout: throughput, and latency at a tenth of it"
    cases: Mapping[str, str] = {CASE.name: CASE.summary}
    systems: Mapping[str, str] = {}

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure throughput, then latencies and the round trip; each part is interleaved."""
        plan, pinning = selection.plan, selection.pinning
        contestants = [Contestant(SYSTEM, variant) for variant in SYSTEM.variants]
        progress.expect(plan.runs * (len(contestants) + 1))
        rows = compare(self.name, [CASE], [SYSTEM], selection, progress)
        load = LOAD * max(row.records_per_s for row in rows)
        trials: dict[str, Callable[[], TimedMeasurement]] = {
            f"{load:,.0f} records/s, {each}": partial(measure_load, each, load, CASE, plan, pinning)
            for each in contestants
        }
        trials["a round trip"] = partial(
            ping_pong_trial.measure, sockets.PING_PONG, PING_PONG, plan, pinning
        )
        *loaded, trips = interleave(trials, plan.runs, progress).values()
        return [
            *(add_latency(row, runs, load) for row, runs in zip(rows, loaded, strict=True)),
            _round_trip_row(trips, selection),
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput, its ratio to the long timeout, and latency."""
        columns = (
            RATE,
            Column("/ 100\nms", partial(_format_ratio, rows), highlight=True),
            KEPT,
            *latency_columns("p50", "p99", "p99.9"),
            Column("p50\n/ trip", partial(_format_trips, rows), highlight=True),
        )
        print_table(rows, columns, KEY, console, name="timeout")

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw throughput and latency over the timeouts."""
        draw_timeouts([row for row in rows if row.system == SUBJECT], path)


def add_latency(row: Row, runs: Sequence[TimedMeasurement], load: float) -> Row:
    """Return a throughput row with the latency of a separate measurement under a load."""
    return replace(
        row,
        latency_us=median_latency(runs),
        verified=row.verified and all(run.verified for run in runs),
        parameters={
            **row.parameters,
            **runs[-1].observations,
            **load_parameters(load, median(run.records_per_s for run in runs)),
        },
    )


def to_long(rows: Sequence[Row], row: Row) -> float | None:
    """Return the throughput over that of the long timeout in the same mode.

    Returns None for the long timeout itself, or without its row.
    """
    timeout, credit = split(row.variant)
    for other in rows:
        if timeout != LONG and split(other.variant) == (LONG, credit):
            return ratio(row, other)
    return None


def in_round_trips(rows: Sequence[Row], row: Row) -> float | None:
    """Return the p50 of a latency over the round trip's."""
    for other in rows:
        if other.system == sockets.SYSTEM.name != row.system and other.latency_us:
            return row.latency_us["p50"] / other.latency_us["p50"] if row.latency_us else None
    return None


def _round_trip_row(trips: Sequence[TimedMeasurement], selection: Selection) -> Row:
    system = sockets.PING_PONG
    return median_row(
        TimeoutsFamily.name,
        CASE.name,
        (system.name, "round trip", system.version()),
        [run.records_per_s for run in trips],
        [run.cpu_s_per_million_records for run in trips],
        record_bytes(PING_PONG.make_block()[:1]),
        verified=all(run.verified for run in trips),
        latency_us=median_latency(trips),
        parameters={**plan_parameters(selection), **system.parameters},
    )


def _format_ratio(rows: Sequence[Row], row: Row) -> str:
    value = to_long(rows, row)
    return "" if value is None else f"{value:.3f}"


def _format_trips(rows: Sequence[Row], row: Row) -> str:
    value = in_round_trips(rows, row)
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:,.0f}"
