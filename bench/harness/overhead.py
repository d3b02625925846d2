"""What some things cost a job: every case alone and with each, run by run in turn; the ratio."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.harness.case import Case
from bench.harness.contest import Entrant, print_absences, run_case
from bench.harness.family import Progress, Selection, chosen, summaries
from bench.harness.figure import draw_bar_panel, open_panels
from bench.harness.row import Row
from bench.harness.table import CPU, RATE_COLUMNS, Column, print_table

__all__ = ["ALONE", "OverheadFamily", "cpu_ratio"]

ALONE = "alone"
"""The variant without."""


class OverheadFamily(ABC):
    """A family of the variant ``alone`` and of others, each named for what it bears."""

    name: str
    summary: str
    burdens: Sequence[str]
    """The variants with."""
    key: str
    """What stands below the table."""
    title: str
    """What stands above the figure."""

    def __init__(self, cases: Sequence[Case], *columns: Column) -> None:
        """``columns`` are shown beside the usual ones."""
        self.cases = summaries(cases)
        self.systems: dict[str, str] = {}
        self._cases = cases
        self._columns = columns

    @abstractmethod
    def entrant(self, variant: str) -> Entrant:
        """Return how a variant is measured."""

    def variants(self, case: Case) -> list[str]:
        """Those in which a case is measured."""
        return [ALONE, *self.burdens]

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure all of them, run by run in turn."""
        cases = chosen(self._cases, selection.cases)
        entrants = {case.name: list(map(self.entrant, self.variants(case))) for case in cases}
        progress.expect(selection.plan.runs * sum(map(len, entrants.values())))
        return [
            row
            for case in cases
            for row in run_case(self.name, case, entrants[case.name], selection, progress)
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput and CPU, and what is added."""

        def format_ratio(row: Row) -> str:
            value = cpu_ratio(rows, row)
            return "" if value is None else f"{value:.3f}"

        over = self.burdens[0] if len(self.burdens) == 1 else "CPU"
        ratio = Column(f"{over}\n/ {ALONE}", format_ratio, highlight=True)
        ran = [row for row in rows if row.runs]
        if ran:
            print_table(ran, (*RATE_COLUMNS, CPU, ratio, *self._columns), self.key, console)
        print_absences(rows, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw the ratio of CPU."""
        ratios = [(row, value) for row in rows if (value := cpu_ratio(rows, row)) is not None]
        with open_panels(path, 1, len(ratios) + len(self._cases)) as (axes,):
            draw_bar_panel(
                axes,
                self.title,
                [row for row, _ in ratios],
                [value for _, value in ratios],
                "{:.3f}".format,
                even=1.0,
            )


def cpu_ratio(rows: Sequence[Row], row: Row) -> float | None:
    """What a record costs a job over what it costs the same one alone; None for that."""
    for other in rows:
        if (other.variant, other.case) == (ALONE, row.case) and row.variant != ALONE:
            return row.cpu_s_per_million_records / other.cpu_s_per_million_records
    return None
