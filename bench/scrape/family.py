"""What the command line sees of the family ``scrape``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.errors import BenchError
from bench.harness import flinknet_system
from bench.harness.case import Case
from bench.harness.contest import Entrant, print_absences, run_case
from bench.harness.family import Progress, Selection, chosen, summaries
from bench.harness.figure import draw_bar_panel, open_panels
from bench.harness.pinning import Pinning
from bench.harness.row import Row
from bench.harness.system import SUBJECT
from bench.harness.table import CPU, RATE_COLUMNS, Column, print_table
from bench.harness.trial import Measurement, Plan
from bench.peers import flinknet_job
from bench.peers.cases import KEYBY
from bench.scrape.scraper import scraping

__all__ = ["ScrapeFamily", "cpu_ratio"]

ALONE, SCRAPED = "alone", "scraped"
INTERVAL_S = 1.0
CASES = (KEYBY,)

KEY = (
    "records/s: median of the interleaved runs; low, high: the slowest and the fastest run. CPU "
    "s/M: user and system seconds of both workers per million records. scraped / alone: the median "
    "CPU s/M while every process is scraped each second over the one while nobody asks."
)


class ScrapeFamily:
    """The job of ``peers`` with two workers, while all its processes are scraped, and while not."""

    name = "scrape"
    summary = "what it costs a keyed job that Prometheus scrapes it every second"

    def __init__(self) -> None:
        self.cases = summaries(CASES)
        self.systems: dict[str, str] = {}

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure both, run by run in turn."""
        entrants = [_entrant(ALONE), _entrant(SCRAPED)]
        cases = chosen(CASES, selection.cases)
        progress.expect(selection.plan.runs * len(entrants) * len(cases))
        return [
            row
            for case in cases
            for row in run_case(self.name, case, entrants, selection, progress)
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print throughput and CPU, and what the scrapes add."""
        columns = (
            *RATE_COLUMNS,
            CPU,
            Column("scraped\n/ alone", partial(_format_ratio, rows), highlight=True),
            Column("scrapes", lambda row: str(row.parameters.get("scrapes", ""))),
        )
        ran = [row for row in rows if row.runs]
        if ran:
            print_table(ran, columns, KEY, console)
        print_absences(rows, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw the ratio of CPU."""
        ratios = [(row, value) for row in rows if (value := cpu_ratio(rows, row)) is not None]
        with open_panels(path, 1, len(ratios) + len(CASES)) as (axes,):
            draw_bar_panel(
                axes,
                "CPU per record while scraped each second, over while not",
                [row for row, _ in ratios],
                [value for _, value in ratios],
                "{:.3f}".format,
                even=1.0,
            )


def cpu_ratio(rows: Sequence[Row], row: Row) -> float | None:
    """What a record costs a job that is scraped over what it costs one that is not; None for any
    other row."""
    for other in rows:
        if (row.variant, other.variant, other.case) == (SCRAPED, ALONE, row.case):
            return row.cpu_s_per_million_records / other.cpu_s_per_million_records
    return None


def _entrant(variant: str) -> Entrant:
    measure = flinknet_job.measure if variant == ALONE else _measure_scraped
    return Entrant(SUBJECT, variant, flinknet_system.version, flinknet_job.parameters, measure)


def _measure_scraped(case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once. Raises BenchError also if nobody could be scraped."""
    with scraping(min(INTERVAL_S, plan.seconds / 2)) as scraper:
        measurement = flinknet_job.measure(case, plan, pinning, scraper.config)
    if not scraper.scrapes:
        raise BenchError("no process could be scraped")
    observed = {"scrapes": scraper.scrapes, "scraped_bytes": scraper.bytes}
    return replace(measurement, observations={**measurement.observations, **observed})


def _format_ratio(rows: Sequence[Row], row: Row) -> str:
    value = cpu_ratio(rows, row)
    return "" if value is None else f"{value:.3f}"
