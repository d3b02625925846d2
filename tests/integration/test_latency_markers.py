"""Latency markers of a real cluster, configured in the workers, and visible in every report."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from flinknet.cluster import LocalCluster
from flinknet.cluster.control.credentials import authorization_headers
from flinknet.config import ClusterConfig, FlinknetConfig, MetricsConfig, NetworkConfig
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment
from flinknet.graph.graph import JobGraph
from flinknet.metrics.hex_id import hex_id
from tests.integration.cluster_runs import LOOK_S

HOLD_S = 0.02
CONFIG = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
    cluster=ClusterConfig(workers=2, statistics_interval_ms=100.0),
    metrics=MetricsConfig(latency_interval_ms=10),
)
SCOPE = "flink_taskmanager_job_latency_source_id_operator_id_operator_subtask_index_latency"


def hold(record: Any) -> None:
    """Delay every batch, so that the markers behind it wait."""
    if record % 1000 == 0:
        time.sleep(HOLD_S)


def discard(record: Any) -> None:
    """Discard a record."""


def marked() -> JobGraph:
    environment = StreamExecutionEnvironment().set_parallelism(2)
    numbers = environment.from_source(GeneratorSource(int), name="numbers").uid("numbers")
    mapped = numbers.rebalance().map(lambda number: number).name("first").uid("first")
    mapped.rebalance().map(hold).name("slow").uid("slow").sink_to(discard)
    return environment.job_graph("marked")


async def read(session: aiohttp.ClientSession, path: str) -> Any:
    async with session.get(path) as response:
        return await response.json()


async def histograms(session: aiohttp.ClientSession, address: str) -> dict[str, dict[str, float]]:
    """Return count and quantiles of the markers at each operator, from a worker's /metrics."""
    async with session.get(f"http://{address}/metrics") as response:
        text = await response.text()
    counts: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        if family.name == SCOPE:
            assert family.type == "summary"
            for sample in family.samples:
                told = counts.setdefault(sample.labels["operator_id"], {})
                told[sample.labels.get("quantile", "count")] = sample.value
    return counts


async def test_a_slow_operator_is_seen_in_the_latency_of_markers() -> None:
    """V6: markers wait behind records, so they are late at the slow operator, and not before it."""
    async with LocalCluster(CONFIG) as cluster:
        headers = authorization_headers(cluster.token)
        running = asyncio.create_task(cluster.execute(marked()))
        async with aiohttp.ClientSession(f"http://{cluster.address}", headers=headers) as session:
            jobs: list[Any] = []
            while not jobs:
                jobs = (await read(session, "/api/v1/jobs"))["jobs"]
            job, rows = jobs[0]["job_id"], list[Any]()
            wanted = {(name, index) for name in ("first", "slow") for index in (0, 1)}
            # the first marker may reach the slow operator only after a held batch
            while (
                wanted - {(one["operator"], one["subtask"]) for one in rows}
                or max(one["max"] for one in rows if one["operator"] == "slow") < 1000 * HOLD_S
            ):
                rows = (await read(session, f"/api/v1/jobs/{job}/latency"))["latency"]
                await asyncio.sleep(LOOK_S)
            assert {one["source"] for one in rows} == {"numbers"}
            names = [one["id"] for one in await read(session, f"/v1/jobs/{job}/metrics")]
            prefix = f"latency.source_id.{hex_id('numbers')}.operator_id.{hex_id('slow')}"
            assert f"{prefix}.operator_subtask_index.1.latency_p99" in names
            workers = (await read(session, "/api/v1/workers"))["workers"]
            for worker in workers:
                told = await histograms(session, worker["metrics_address"])
                assert told[hex_id("slow")]["count"] >= 1
                assert told[hex_id("slow")]["0.999"] >= told[hex_id("slow")]["0.5"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
