"""The family ``barriers`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from rich.console import Console

from bench.barriers.job import SINK_RECORD_S, VARIANTS, Outcome, Setting, run_job
from bench.harness.family import Progress, Selection
from bench.harness.figure import draw_bar_panel, open_panels
from bench.harness.flinknet_system import network_parameters, version
from bench.harness.interleaving import interleave
from bench.harness.row import Row, median_row
from bench.harness.system import SUBJECT
from bench.harness.table import Column, format_rate, format_time, latency_columns, print_table
from bench.harness.trial import Plan

__all__ = ["BarriersFamily", "barriers_faster", "times_faster"]

RECORD_BYTES = {"slow-sink": 200, "small-records": 40}
"""Payload of each case; the smaller it is, the more records are in the same buffers."""

SMALL_VARIANTS = ("aligned", "unaligned")
"""The variants of the second case, in which an aligned checkpoint takes seconds."""

CHECKPOINTS_LEAST = 3
CHECKPOINTS_PER_S = 2
"""Number of measured checkpoints per second of the plan."""

KEY = (
    "p50, max: the median and the longest time from the trigger of a checkpoint to its completion, "
    "over all runs. faster: the aligned median over this one. barriers: until all had come, the "
    "median, and how much faster that is; the rest is the writing of state. in flight: what a "
    "checkpoint stores of queues, the median. sinks: records/s that the sinks took meanwhile."
)


class BarriersFamily:
    """A keyed job with a slow sink, and how its barriers get past the queued records."""

    name = "barriers"
    summary = "how long a checkpoint takes while a job is backpressured for good"
    cases: Mapping[str, str] = {
        case: f"two exchanges of {size} bytes, a sink that takes {SINK_RECORD_S * 1e6:g} us each"
        for case, size in RECORD_BYTES.items()
    }
    systems: Mapping[str, str] = {}

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure every variant, run by run."""
        plan = selection.plan
        chosen = [
            (case, variant)
            for case in selection.cases
            for variant in VARIANTS
            if case == "slow-sink" or variant in SMALL_VARIANTS
        ]
        trials = {
            f"{case}, {variant}": partial(
                run_job, VARIANTS[variant], RECORD_BYTES[case], _checkpoints(plan)
            )
            for case, variant in chosen
        }
        progress.expect(plan.runs * len(trials))
        outcomes = interleave(trials, plan.runs, progress)
        return [
            make_row(case, variant, VARIANTS[variant], runs)
            for (case, variant), runs in zip(chosen, outcomes.values(), strict=True)
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print the durations of checkpoints, and the bytes that they stored."""
        columns = (
            *latency_columns("p50", "max"),
            Column("faster", partial(_format_times, times_faster, rows), highlight=True),
            Column("barriers", lambda row: format_time(row.parameters["barriers_ms"] * 1000.0)),
            Column("faster", partial(_format_times, barriers_faster, rows), highlight=True),
            Column("in flight\nKiB", lambda row: f"{row.parameters['in_flight_bytes'] >> 10:,}"),
            Column("sinks", lambda row: format_rate(row.records_per_s)),
        )
        print_table(rows, columns, KEY, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw the medians on a logarithmic scale; they differ too much for a linear one."""
        with open_panels(path, 1, len(rows) + 1) as (axes,):
            draw_bar_panel(
                axes,
                "Duration of a checkpoint under backpressure, ms",
                rows,
                [_median_ms(row) for row in rows],
                "{:,.0f}".format,
            )
            axes.set_xscale("log")
            axes.set_xlim(1, 4 * max(map(_median_ms, rows)))


def _checkpoints(plan: Plan) -> int:
    return max(CHECKPOINTS_LEAST, round(plan.seconds * CHECKPOINTS_PER_S))


def make_row(case: str, variant: str, setting: Setting, runs: Sequence[Outcome]) -> Row:
    """Return the row that summarizes the runs of a case's variant."""
    checkpoints = [each for run in runs for each in run.checkpoints]
    durations = [each.duration_ms * 1000.0 for each in checkpoints]
    return median_row(
        BarriersFamily.name,
        case,
        (SUBJECT, variant, version()),
        [run.records_per_s for run in runs],
        [0.0],
        RECORD_BYTES[case],
        verified=True,
        parameters={
            "checkpoints": len(checkpoints),
            "barriers_ms": median(each.barriers_ms for each in checkpoints),
            "in_flight_bytes": round(median(each.in_flight_bytes for each in checkpoints)),
            "sink_record_us": SINK_RECORD_S * 1e6,
            **network_parameters(setting.network),
        },
        latency_us={"p50": median(durations), "max": max(durations)},
    )


def times_faster(rows: Sequence[Row], row: Row) -> float | None:
    """Return the aligned median over this row's; None without an aligned row."""
    for other in rows:
        if other.case == row.case and other.variant == "aligned":
            return _median_ms(other) / max(_median_ms(row), 1.0)
    return None


def barriers_faster(rows: Sequence[Row], row: Row) -> float | None:
    """Return the same ratio for the barriers alone, without the writing of state."""
    for other in rows:
        if other.case == row.case and other.variant == "aligned":
            return float(other.parameters["barriers_ms"] / max(row.parameters["barriers_ms"], 1.0))
    return None


def _median_ms(row: Row) -> float:
    assert row.latency_us is not None, "every row of this family has latencies"
    return row.latency_us["p50"] / 1000


def _format_times(
    times: Callable[[Sequence[Row], Row], float | None], rows: Sequence[Row], row: Row
) -> str:
    value = times(rows, row)
    return "" if value is None else f"{value:.1f}x"
