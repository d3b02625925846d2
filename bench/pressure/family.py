"""The family ``pressure`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.harness.family import Progress, Selection, plan_parameters
from bench.harness.flinknet_system import version
from bench.harness.interleaving import interleave
from bench.harness.row import Row, median_row
from bench.harness.system import SUBJECT
from bench.harness.table import Column, print_table
from bench.pressure.figure import draw_pressure
from bench.pressure.step_load import RECORD_BYTES, VARIANTS, StepLoad, run_step_load
from bench.pressure.three_stages import POOLS, ThreeStages, run_three_stages

__all__ = ["PressureFamily", "step_load_row", "three_stages_row"]

STEP_LOAD, THREE_STAGES = "step-load", "three-stages"
CREDIT = "credit"

KEY = (
    "MB/s: worked off by the slow end, over the run. in between: the most that was made and "
    "neither worked off nor lost. full: when the buffer had no room for the first time. lost: for "
    "which it had none. last, in; middle, out; middle, in; source, out: seconds until that pool "
    "was full for the first time. Of the last run."
)


class PressureFamily:
    """A load that exceeds the sink's capacity, and how backpressure propagates."""

    name = "pressure"
    summary = "what flow control does with a load that is too much, and how backpressure travels"
    systems: Mapping[str, str] = {}
    cases: Mapping[str, str] = {
        STEP_LOAD: "a source of 2 MB/s, a sink of 1 MB/s that gets twice as fast, a buffer of 5 MB",
        THREE_STAGES: "a source, a middle and a slow last stage: when which pool is full",
    }

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure the chosen cases, run by run."""
        plan = selection.plan
        seconds = 2.5 * plan.seconds
        trials: dict[str, Callable[[], StepLoad | ThreeStages]] = {}
        if STEP_LOAD in selection.cases:
            trials |= {variant: partial(run_step_load, variant, seconds) for variant in VARIANTS}
        if THREE_STAGES in selection.cases:
            trials[THREE_STAGES] = partial(run_three_stages, plan.seconds)
        progress.expect(plan.runs * len(trials))
        outcomes = interleave(trials, plan.runs, progress)
        parameters = plan_parameters(selection)
        return [
            three_stages_row(runs, parameters)
            if name == THREE_STAGES
            else step_load_row(name, runs, parameters)
            for name, runs in outcomes.items()
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print the table."""
        columns = [
            Column("MB/s", lambda row: f"{row.mb_per_s:.2f}"),
            Column("in between\nMB", partial(_number, "most_buffered_mb", ".1f")),
            Column("full\ns", partial(_number, "overflow_s", ".1f")),
            Column("lost\nMB", partial(_number, "lost_mb", ".1f")),
            *(Column(pool.replace(", ", ",\n"), partial(_number, pool, ".2f")) for pool in POOLS),
        ]
        print_table(rows, columns, KEY, console, name="flow control")

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw the data in between, the processed data, and the usage of each pool."""
        draw_pressure(rows, path)


def step_load_row(variant: str, runs: Sequence[Any], parameters: Mapping[str, Any]) -> Row:
    """Return the row that summarizes the runs of a variant of the step load."""
    last: StepLoad = runs[-1]
    return median_row(
        PressureFamily.name,
        STEP_LOAD,
        (SUBJECT, variant, version()),
        [run.records / run.seconds for run in runs],
        [0.0],
        RECORD_BYTES,
        verified=all(run.verified for run in runs),
        parameters={
            **parameters,
            "buffered_mb": [round(value, 3) for value in last.buffered_mb],
            "worked_mb": last.worked_mb,
            "most_buffered_mb": max(last.buffered_mb),
            "overflow_s": last.overflow_s,
            "lost_mb": last.lost_mb[-1],
        },
    )


def three_stages_row(runs: Sequence[Any], parameters: Mapping[str, Any]) -> Row:
    """Return the row that summarizes the runs of the three stages.

    It is verified if the pools became full in the order of ``POOLS``.
    """
    last: ThreeStages = runs[-1]
    full = {pool: last.full_s(pool) for pool in POOLS}
    return median_row(
        PressureFamily.name,
        THREE_STAGES,
        (SUBJECT, CREDIT, version()),
        [run.records_per_s for run in runs],
        [0.0],
        RECORD_BYTES,
        verified=all(_is_in_order(run) for run in runs),
        parameters={**parameters, "times_s": last.times_s, "usage": last.usage, **full},
    )


def _is_in_order(run: ThreeStages) -> bool:
    reached = [full for full in map(run.full_s, POOLS) if full is not None]
    return len(reached) == len(POOLS) and reached == sorted(reached)


def _number(name: str, form: str, row: Row) -> str:
    value = row.parameters.get(name)
    return "" if value is None else format(value, form)
