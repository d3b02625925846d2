"""The cost of a burden for a job: every case alone and with each burden, interleaved."""

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

__all__ = ["ALONE", "OverheadFamily", "PaceFamily", "cpu_ratio", "pace_ratio"]

ALONE = "alone"
"""The variant without a burden."""


class OverheadFamily(ABC):
    """A family with the variant ``alone`` and one variant named after each burden."""

    name: str
    summary: str
    burdens: Sequence[str]
    """The variants with a burden."""
    key: str
    """The explanation below the table."""
    title: str
    """The title of the figure."""
    ratio_format = "{:.3f}"

    def __init__(self, cases: Sequence[Case], *columns: Column) -> None:
        """Initialize with the cases; ``columns`` follow the usual columns of the table."""
        self.cases = summaries(cases)
        self.systems: dict[str, str] = {}
        self._cases = cases
        self._columns = columns

    @abstractmethod
    def entrant(self, variant: str) -> Entrant:
        """Return the entrant of a variant."""

    @property
    def over(self) -> str:
        """The heading of the ratio's column."""
        return f"{self.burdens[0] if len(self.burdens) == 1 else 'CPU'}\n/ {ALONE}"

    def ratio(self, rows: Sequence[Row], row: Row) -> float | None:
        """Return a row's ratio to the row ``alone``; None for that row itself."""
        return cpu_ratio(rows, row)

    def variants(self, case: Case) -> list[str]:
        """Return the variants in which a case is measured."""
        return [ALONE, *self.burdens]

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure all variants of the chosen cases, run by run in turn."""
        cases = chosen(self._cases, selection.cases)
        entrants = {case.name: list(map(self.entrant, self.variants(case))) for case in cases}
        progress.expect(selection.plan.runs * sum(map(len, entrants.values())))
        return [
            row
            for case in cases
            for row in run_case(self.name, case, entrants[case.name], selection, progress)
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput, CPU and the ratios."""

        def format_ratio(row: Row) -> str:
            value = self.ratio(rows, row)
            return "" if value is None else self.ratio_format.format(value)

        ratio = Column(self.over, format_ratio, highlight=True)
        ran = [row for row in rows if row.runs]
        if ran:
            print_table(ran, (*RATE_COLUMNS, CPU, ratio, *self._columns), self.key, console)
        print_absences(rows, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw the ratios."""
        ratios = [(row, value) for row in rows if (value := self.ratio(rows, row)) is not None]
        with open_panels(path, 1, len(ratios) + len(self._cases)) as (axes,):
            draw_bar_panel(
                axes,
                self.title,
                [row for row, _ in ratios],
                [value for _, value in ratios],
                self.ratio_format.format,
                even=1.0,
            )


class PaceFamily(OverheadFamily):
    """A family of burdens beside the job, measured by the pace that they leave to the job."""

    over = f"/ {ALONE}"
    ratio_format = "{:.1%}"

    def ratio(self, rows: Sequence[Row], row: Row) -> float | None:
        """Return a row's pace over the pace alone; None for the row ``alone``."""
        return pace_ratio(rows, row)


def cpu_ratio(rows: Sequence[Row], row: Row) -> float | None:
    """Return a row's CPU per record over that of the row ``alone``; None for that row itself."""
    alone = _alone(rows, row)
    if alone is None:
        return None
    return row.cpu_s_per_million_records / alone.cpu_s_per_million_records


def pace_ratio(rows: Sequence[Row], row: Row) -> float | None:
    """Return a row's records per second over the row ``alone``; None for that row itself."""
    alone = _alone(rows, row)
    return None if alone is None else row.records_per_s / alone.records_per_s


def _alone(rows: Sequence[Row], row: Row) -> Row | None:
    if row.variant == ALONE:
        return None
    return next((one for one in rows if (one.variant, one.case) == (ALONE, row.case)), None)
