"""What the command line sees of the family ``slow-code``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.harness import flinknet_system
from bench.harness.case import Case
from bench.harness.contest import Entrant, print_absences
from bench.harness.figure import draw_bar_panel, open_panels
from bench.harness.flinknet_system import network_parameters
from bench.harness.overhead import ALONE, OverheadFamily
from bench.harness.pinning import Pinning
from bench.harness.row import Row
from bench.harness.system import SUBJECT
from bench.harness.table import CPU, RATE_COLUMNS, Column, print_table
from bench.harness.trial import Measurement, Plan
from bench.slow_code.neighbour import (
    CONFIG,
    FULL_SPEED,
    PACED,
    TAKES_S,
    Burden,
    measure_beside,
)

__all__ = ["SlowCodeFamily", "pace_of"]

BURDENS = {
    "sleeps": Burden(computes=False, has_thread=True),
    "computes": Burden(computes=True, has_thread=True),
    "sleeps, no threads": Burden(computes=False, has_thread=False),
    "computes, no threads": Burden(computes=True, has_thread=False),
}


class SlowCodeFamily(OverheadFamily):
    """A pipeline alone in its worker, and beside one whose function takes 40 ms a record."""

    name = "slow-code"
    summary = "what a function that takes long leaves to another pipeline in the same worker"
    burdens = tuple(BURDENS)
    title = "Records per second beside slow code, over those alone"
    key = (
        "variant: what the function of the pipeline beside does. records/s: of the pipeline that "
        "is measured, median of the interleaved runs; low, high: the slowest and the fastest run. "
        f"{ALONE}: over the median with nothing beside. CPU s/M: user and system seconds of the "
        "worker, slow code included, per million records."
    )

    def __init__(self) -> None:
        super().__init__((FULL_SPEED, PACED))

    def entrant(self, variant: str) -> Entrant:
        """Return how a variant is measured."""
        measure = partial(_measure, BURDENS.get(variant))
        return Entrant(SUBJECT, variant, flinknet_system.version, _parameters, measure)

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput, and how much of it is left."""
        pace = Column(f"/ {ALONE}", lambda row: _format_pace(rows, row), highlight=True)
        ran = [row for row in rows if row.runs]
        if ran:
            print_table(ran, (*RATE_COLUMNS, pace, CPU), self.key, console)
        print_absences(rows, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw how much is left."""
        paces = [(row, value) for row in rows if (value := pace_of(rows, row)) is not None]
        with open_panels(path, 1, len(paces) + len(self.cases)) as (axes,):
            draw_bar_panel(
                axes,
                self.title,
                [row for row, _ in paces],
                [value for _, value in paces],
                "{:.2f}".format,
                even=1.0,
            )


def pace_of(rows: Sequence[Row], row: Row) -> float | None:
    """Return the records per second of a variant over those alone; None for that."""
    for other in rows:
        if (other.variant, other.case) == (ALONE, row.case) and row.variant != ALONE:
            return row.records_per_s / other.records_per_s
    return None


def _format_pace(rows: Sequence[Row], row: Row) -> str:
    pace = pace_of(rows, row)
    return "" if pace is None else f"{pace:.1%}"


def _parameters(case: Case) -> dict[str, Any]:
    """Return what matters for a fair reading."""
    return {"workers": 1, "takes_ms": 1000 * TAKES_S, **network_parameters(CONFIG.network)}


def _measure(burden: Burden | None, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once, on all CPUs."""
    return measure_beside(burden, case, plan)
