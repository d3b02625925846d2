"""What the command line sees of the family ``attackers``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.attackers.crowd import KINDS
from bench.attackers.good_job import (
    ATTACKERS,
    CONFIG,
    FULL_SPEED,
    PACED,
    measure_besieged,
)
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

__all__ = ["AttackersFamily", "pace_of"]

MIXED = "mixed"


class AttackersFamily(OverheadFamily):
    """A job alone, and with a hundred hostile clients around its cluster."""

    name = "attackers"
    summary = "what a hundred hostile clients leave to a good job, and to a worker that joins"
    burdens = (MIXED, *KINDS)
    title = "Records per second beside a hundred attackers, over those alone"
    key = (
        f"variant: what {ATTACKERS} clients do, or all of it ({MIXED}). records/s: of the good "
        "job, median of the interleaved runs; low, high: the slowest and the fastest run. "
        f"/ {ALONE}: over the median without attackers, which take processors, too. join: until a "
        "worker has asked the coordinator who is there and is connected to all, the longest of "
        "five in the last run. CPU s/M: user and system seconds of the worker that receives, per "
        "million records."
    )

    def __init__(self) -> None:
        super().__init__((FULL_SPEED, PACED))

    def entrant(self, variant: str) -> Entrant:
        """Return how a variant is measured."""
        kinds: dict[str, int] = {}
        if variant == MIXED:
            names = [*KINDS]
            for number in range(ATTACKERS):
                name = names[number % len(names)]
                kinds[name] = kinds.get(name, 0) + 1
        elif variant != ALONE:
            kinds = {variant: ATTACKERS}
        measure = partial(_measure, kinds)
        return Entrant(SUBJECT, variant, flinknet_system.version, _parameters, measure)

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput, how much of it is left, and how soon a worker joins."""
        pace = Column(f"/ {ALONE}", lambda row: _format_pace(rows, row), highlight=True)
        join = Column("join", lambda row: f"{1000 * row.parameters.get('join_s', 0.0):.0f} ms")
        ran = [row for row in rows if row.runs]
        if ran:
            print_table(ran, (*RATE_COLUMNS, pace, join, CPU), self.key, console)
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
    return {"workers": 2, "tls": True, **network_parameters(CONFIG.network)}


def _measure(kinds: dict[str, int], case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once, on all CPUs."""
    return measure_besieged(kinds, case, plan)
