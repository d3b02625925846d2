"""Latencies between workers with different clocks are corrected to one clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.submission import Submission
from tests.integration.cluster_runs import LOOK_S
from tests.integration.standalone import PATIENCE_S, Standalone
from tests.integration.test_latency_markers import CONFIG, marked

AHEAD_S = 600
NEAR_MS = 60_000
"""A tenth of the clocks' difference; no marker takes that long, even on a busy machine."""

CLOCK = f"""
import time

def ahead(seconds=time.time, ns=time.time_ns):
    time.time = lambda: seconds() + ({{sign}}{AHEAD_S})
    time.time_ns = lambda: ns() + ({{sign}}{AHEAD_S} * 1_000_000_000)

ahead()
"""


async def until(
    condition: Callable[[list[int]], bool], client: CoordinatorClient, job: str
) -> None:
    """Wait until the minimum and maximum latencies of all operators satisfy a condition."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            told = await client.job_statistics(job)
            totals = [totals for worker in told.values() for totals in worker]
            found = [one for subtask in totals for one in subtask.latencies]
            if (
                len(told) == 2
                and found
                and condition([n for one in found for n in (one.min, one.max)])
            ):
                return
            await asyncio.sleep(LOOK_S)


@pytest.mark.parametrize("sign", ["+", "-"])
async def test_latencies_between_hosts_are_as_of_one_clock(tmp_path: Path, sign: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(CLOCK.format(sign=sign))
    cluster = replace(CONFIG.cluster, slots_per_worker=1, heartbeat_interval_ms=50.0)
    async with Standalone(replace(CONFIG, cluster=cluster), tmp_path) as standalone:
        await standalone.coordinator()
        await standalone.worker("right")
        await standalone.worker("wrong", customized=tmp_path)
        client = standalone.client()
        job = await client.submit(Submission.of_graph(marked()))
        await until(lambda found: all(abs(one) < NEAR_MS for one in found), client, job)
        workers = {
            one["worker_id"]: one for one in (await client.read("/api/v1/workers"))["workers"]
        }
        await client.cancel(job)
        offset_ms = {name: one["clock_offset_ms"] for name, one in workers.items()}
        assert abs(offset_ms["right"]) < NEAR_MS
        assert abs(offset_ms["wrong"] - float(f"{sign}{AHEAD_S}") * 1000) < NEAR_MS
        assert all(0 <= one["clock_error_ms"] < NEAR_MS for one in workers.values())
