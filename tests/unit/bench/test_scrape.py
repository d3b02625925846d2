"""The family ``scrape``: what it compares, and that its scraper reads every process."""

from __future__ import annotations

import asyncio
import os
from io import StringIO

from rich.console import Console

from bench.harness.overhead import cpu_ratio
from bench.harness.row import Row
from bench.scrape.family import ScrapeFamily
from bench.scrape.scraper import scraping
from flinknet.cluster import LocalCluster
from flinknet.cluster.control.credentials import TOKEN_VARIABLE


def row(variant: str, cpu: float) -> Row:
    return Row(
        family="scrape",
        case="keyby",
        system="flinknet",
        variant=variant,
        version="0",
        records_per_s=1e6,
        mb_per_s=16.0,
        cpu_s_per_million_records=cpu,
        latency_us=None,
        runs=[1e6],
        verified=True,
        parameters={"scrapes": 12} if variant == "scraped" else {},
    )


def test_what_is_scraped_is_compared_with_what_is_not() -> None:
    rows = [row("alone", 0.5), row("scraped", 0.505)]
    assert [cpu_ratio(rows, each) for each in rows] == [None, 1.01]
    printed = StringIO()
    ScrapeFamily().print(rows, Console(file=printed, width=110))
    lines = [line.split() for line in printed.getvalue().splitlines() if " 1.00 M " in line]
    assert [line[-3:] for line in lines] == [["M", "0.5", "yes"], ["1.010", "12", "yes"]]


async def test_every_process_of_a_cluster_is_scraped() -> None:
    before = os.environ.get(TOKEN_VARIABLE)
    with scraping(0.01) as scraper:
        async with LocalCluster(scraper.config):
            while scraper.scrapes < 3:
                await asyncio.sleep(0.01)  # until a thread has read three processes
    assert scraper.bytes > 3_000
    assert os.environ.get(TOKEN_VARIABLE) == before
