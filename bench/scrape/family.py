"""What the command line sees of the family ``scrape``."""

from __future__ import annotations

from dataclasses import replace

from bench.errors import BenchError
from bench.harness import flinknet_system
from bench.harness.case import Case
from bench.harness.contest import Entrant
from bench.harness.overhead import ALONE, OverheadFamily
from bench.harness.pinning import Pinning
from bench.harness.system import SUBJECT
from bench.harness.table import Column
from bench.harness.trial import Measurement, Plan
from bench.peers import flinknet_job
from bench.peers.cases import KEYBY
from bench.scrape.scraper import scraping

__all__ = ["ScrapeFamily"]

INTERVAL_S = 1.0


class ScrapeFamily(OverheadFamily):
    """The job of ``peers`` with two workers, while all its processes are scraped, and while not."""

    name = "scrape"
    summary = "what it costs a keyed job that Prometheus scrapes it every second"
    burden = "scraped"
    title = "CPU per record while scraped each second, over while not"
    key = (
        "records/s: median of the interleaved runs; low, high: the slowest and the fastest run. "
        "CPU s/M: user and system seconds of both workers per million records. scraped / alone: "
        "the median CPU s/M while every process is scraped each second over the one while nobody "
        "asks."
    )

    def __init__(self) -> None:
        super().__init__(
            (KEYBY,), Column("scrapes", lambda row: str(row.parameters.get("scrapes", "")))
        )

    def entrant(self, variant: str) -> Entrant:
        """Return how one of the two is measured."""
        measure = flinknet_job.measure if variant == ALONE else _measure_scraped
        version, parameters = flinknet_system.version, flinknet_job.parameters
        return Entrant(SUBJECT, variant, version, parameters, measure)


def _measure_scraped(case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run once. Raises BenchError also if nobody could be scraped."""
    with scraping(min(INTERVAL_S, plan.seconds / 2)) as scraper:
        variation = flinknet_job.Variation(scraper.config)
        measurement = flinknet_job.measure(case, plan, pinning, variation)
    if not scraper.scrapes:
        raise BenchError("no process could be scraped")
    observed = {"scrapes": scraper.scrapes, "scraped_bytes": scraper.bytes}
    return replace(measurement, observations={**measurement.observations, **observed})
