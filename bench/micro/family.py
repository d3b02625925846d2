"""The family ``micro`` as the command line uses it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median

from rich.console import Console

from bench.harness.family import Progress, Selection, chosen, plan_parameters, summaries
from bench.harness.figure import draw_bar_panel, open_panels
from bench.harness.flinknet_system import version
from bench.harness.interleaving import interleave
from bench.harness.row import Row, median_row
from bench.harness.system import SUBJECT
from bench.harness.table import Column, print_table
from bench.micro.instructions import Counter, count_instructions, find_counter
from bench.micro.steps import STEPS
from bench.micro.trial import Outcome, measure

__all__ = ["MicroFamily", "make_micro_row"]

SHARE_OF_RUN = 0.25
"""Share of a run's seconds: there are many steps, and none needs a long warm-up."""

UNITS = {step.name: step.unit for step in STEPS}

KEY = (
    "CPU ns: user and system nanoseconds of one process for each record (buffer-out, buffer-in: "
    "for each buffer); median of the runs, each of which is the median of its repeats. low, high: "
    "the fastest and the slowest repeat of all runs. per buffer: of all records of a buffer. "
    "instructions: of user mode, counted once."
)
NO_COUNTER = (
    "No instructions: neither perf (it needs the processor's counters) nor valgrind counts here."
)


class MicroFamily:
    """Every part of the path of a record by itself, in one process, without sockets."""

    name = "micro"
    summary = "what a record and a buffer cost on each part of their way, without sockets"
    systems: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.cases = summaries(STEPS)

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure every variant of every step, run by run; then count instructions."""
        plan = selection.plan
        parts = [
            (step.name, variant)
            for step in chosen(STEPS, selection.cases)
            for variant in step.variants
        ]
        seconds = plan.seconds * SHARE_OF_RUN
        trials = {
            f"{step}, {variant}": partial(measure, step, variant, seconds, selection.pinning)
            for step, variant in parts
        }
        progress.expect(plan.runs * len(trials))
        outcomes = interleave(trials, plan.runs, progress).values()
        progress.begin("counting instructions")
        counter = find_counter()
        counts = _count_all(counter, parts)
        common = {
            **plan_parameters(selection),
            "seconds": seconds,
            "warm_up_s": 0.0,
            "instructions_counted_by": counter.name if counter is not None else None,
        }
        return [
            make_micro_row(step, variant, runs, count, common)
            for (step, variant), runs, count in zip(parts, outcomes, counts, strict=True)
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print nanoseconds and instructions."""
        columns = (
            Column("of a", lambda row: UNITS[row.case]),
            Column("CPU ns", partial(_format, "ns_per_operation"), highlight=True),
            Column("low", partial(_format, "ns_low")),
            Column("high", partial(_format, "ns_high")),
            Column("per buffer", partial(_format, "ns_per_buffer")),
            Column("instructions", partial(_format, "instructions_per_operation"), highlight=True),
        )
        print_table(rows, columns, KEY, console)
        if any(row.parameters["instructions_counted_by"] is None for row in rows):
            console.print(NO_COUNTER, highlight=False)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw nanoseconds, and instructions if they were counted."""
        panels = {"ns_per_operation": "CPU nanoseconds per record or buffer"}
        if all(row.parameters["instructions_per_operation"] is not None for row in rows):
            panels["instructions_per_operation"] = "Instructions per record or buffer"
        lines = len(rows) + len({row.case for row in rows})
        with open_panels(path, len(panels), lines) as opened:
            for axes, (name, title) in zip(opened, panels.items(), strict=True):
                values = [row.parameters[name] for row in rows]
                draw_bar_panel(axes, title, rows, values, "{:,.0f}".format)
                axes.set_xscale("log")
                axes.set_xlim(min(values) / 2, max(values) * 5)


def make_micro_row(
    step: str,
    variant: str,
    runs: Sequence[Outcome],
    instructions: float | None,
    parameters: Mapping[str, object],
) -> Row:
    """Return the row that summarizes the runs of a variant.

    ``records_per_s`` counts operations per second of one otherwise idle CPU. ``mb_per_s`` is 0,
    because no bytes are sent.
    """
    medians_ns = [run.median_ns for run in runs]
    repeats = list(chain.from_iterable(run.nanoseconds for run in runs))
    ns, full = median(medians_ns), runs[-1].records_per_buffer
    return median_row(
        "micro",
        step,
        (SUBJECT, variant, version()),
        [1e9 / run_ns for run_ns in medians_ns],
        [run_ns / 1000 for run_ns in medians_ns],
        0.0,
        verified=all(run.verified for run in runs),
        parameters={
            **parameters,
            "unit": UNITS[step],
            "operations_per_repeat": runs[-1].operations,
            "repeats": len(repeats),
            "ns_per_operation": round(ns, 1),
            "ns_low": round(min(repeats), 1),
            "ns_high": round(max(repeats), 1),
            "ns_per_buffer": round(ns * full, 1) if full is not None else None,
            "records_per_buffer": full,
            "instructions_per_operation": round(instructions, 1) if instructions else None,
        },
    )


def _count_all(counter: Counter | None, parts: Sequence[tuple[str, str]]) -> Sequence[float | None]:
    """Count on all CPUs at once, which does not disturb the count."""
    if counter is None:
        return [None] * len(parts)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda each: count_instructions(counter, *each), parts))


def _format(name: str, row: Row) -> str:
    value = row.parameters[name]
    return "" if value is None else f"{value:,.0f}"
