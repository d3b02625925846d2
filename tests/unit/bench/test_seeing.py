"""The family ``seeing``: its comparisons, and that its observer reads every process."""

from __future__ import annotations

import asyncio
import os
from io import StringIO

import pytest
from rich.console import Console

from bench.harness.overhead import cpu_ratio
from bench.harness.row import Row
from bench.peers.cases import KEYBY
from bench.seeing.family import SeeingFamily
from bench.seeing.observer import Look, observing, open_page, scrape
from bench.seeing.stall import CHANNELS
from bench.seeing.wide_worker import WIDE
from flinknet.cluster import LocalCluster
from flinknet.cluster.control.credentials import TOKEN_VARIABLE


def row(variant: str, cpu: float) -> Row:
    return Row(
        family="seeing",
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
        parameters={"answers": 12, "longest_turn_ms": 3.51} if variant == "scraped" else {},
    )


def test_a_job_that_somebody_looks_at_is_compared_with_one_that_is_alone() -> None:
    rows = [row("alone", 0.5), row("scraped", 0.505)]
    assert [cpu_ratio(rows, each) for each in rows] == [None, 1.01]
    printed = StringIO()
    SeeingFamily().print(rows, Console(file=printed, width=110))
    lines = [line.split() for line in printed.getvalue().splitlines() if " 1.00 M " in line]
    assert [line[-4:] for line in lines] == [
        ["1.00", "M", "0.5", "yes"],
        ["1.010", "3.5", "12", "yes"],
    ]


def test_turns_are_timed_alone_and_scraped() -> None:
    family = SeeingFamily()
    assert family.variants(KEYBY) == ["alone", "scraped", "marked", "watched"]
    assert family.variants(CHANNELS) == family.variants(WIDE) == ["alone", "scraped"]


@pytest.mark.parametrize(("look", "bytes_min"), [(scrape, 3_000), (open_page, 300)])
async def test_who_looks_reads_a_cluster(look: Look, bytes_min: int) -> None:
    before = os.environ.get(TOKEN_VARIABLE)
    with observing(look, 0.01) as (observer, config):
        async with LocalCluster(config):
            while observer.answers < 4:
                await asyncio.sleep(0.01)  # until a thread has read them
    assert observer.bytes > bytes_min
    assert os.environ.get(TOKEN_VARIABLE) == before
