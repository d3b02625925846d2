"""The case ``rising`` of the family ``ramp-up``: its row, and its table with a line per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from rich.console import Console

from bench.harness.case import record_bytes
from bench.harness.row import Row, median_latency, median_row
from bench.harness.system import Contestant
from bench.harness.table import Column, format_rate, format_time, print_table
from bench.harness.trial import TimedMeasurement
from bench.latency.cases import MAXIMUM
from bench.ramp_up.rising_load import STEPS

__all__ = ["RISING", "print_rising", "rising_row"]

RISING = replace(
    MAXIMUM,
    name="rising",
    summary=f"from {STEPS[0]:,} to {STEPS[-1]:,} records/s within a run, step by step",
)
PRINTED = (*range(0, len(STEPS), 3), len(STEPS) - 2, len(STEPS) - 1)
"""Steps in the table: every third, and the last ones, at which the system is saturated."""

KEY = (
    "case: records per second that are to be sent in a step of the rising load. through: that came "
    "through in its time, whenever they were to be sent. p50, p99: from the time at which a record "
    "of the step is to be sent to the consumer's having it. Medians of the interleaved runs."
)


def rising_row(
    family: str,
    contestant: Contestant,
    runs: Sequence[TimedMeasurement],
    parameters: Mapping[str, Any],
) -> Row:
    """Return the row that summarizes the runs of a timeout; each number is its median per step."""
    of_runs = [run.observations["steps"] for run in runs]
    steps = [
        {name: round(median(step[name] for step in same), 3) for name in same[0]}
        for same in zip(*of_runs, strict=True)
    ]
    return median_row(
        family,
        RISING.name,
        (contestant.system.name, contestant.variant, contestant.system.version()),
        [run.records_per_s for run in runs],
        [run.cpu_s_per_million_records for run in runs],
        record_bytes(RISING.make_block()),
        verified=all(run.verified for run in runs),
        latency_us=median_latency(runs),
        parameters={**parameters, **runs[-1].observations, "steps": steps},
    )


def print_rising(rows: Sequence[Row], console: Console) -> None:
    """Print the results of some steps for each timeout; the figure has all steps."""
    columns = (
        Column("through", lambda row: format_rate(row.parameters["came_through_per_s"])),
        Column("p50", lambda row: format_time(row.parameters["p50"])),
        Column("p99", lambda row: format_time(row.parameters["p99"])),
    )
    lines = [
        replace(row, case=format_rate(step["offered_per_s"]), parameters=step)
        for place in PRINTED
        for row in rows
        for step in [row.parameters["steps"][place]]
    ]
    if lines:
        print_table(lines, columns, KEY, console, name="timeout")
