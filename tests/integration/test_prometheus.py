"""Debian's Prometheus scrapes a running job with ``deploy/prometheus.yml``, under Flink's names."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from flinknet.cluster import LocalCluster
from flinknet.cluster.control.credentials import Role, role_of
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.datastream import (
    GeneratorSource,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinknet.graph.graph import JobGraph
from tests.integration.grafana_dashboard_11049 import ASKED, NOT_ANSWERED
from tests.integration.test_local_cluster import sums

DEPLOY = Path(__file__).parents[2] / "deploy"
PAGE = (DEPLOY.parent / "docs" / "how-to" / "monitoring.md").read_text()
[PAGE_TOKEN] = re.findall(r"^(\(umask .*> deploy/flinknet\.token\))$", PAGE, re.MULTILINE)
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "flinknet.json").read_text())
CONFIG = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
    cluster=ClusterConfig(workers=2),
)
LISTENS = re.compile(r'msg="Listening on" address=(\S+)')

OPERATOR = "flink_taskmanager_job_task_operator_"
TASK = 'flink_taskmanager_job_task_%s{job_name="sums",task_name=~"Reduce.*"}'


@asynccontextmanager
async def prometheus(cluster: LocalCluster, folder: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """Run a Prometheus that scrapes the cluster often; yield a session for its HTTP API."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("there is no prometheus (Debian: apt-get install prometheus)")
    shutil.copy(DEPLOY / "alerts.yml", folder)
    settings = (DEPLOY / "prometheus.yml").read_text().replace("127.0.0.1:8081", cluster.address)
    (folder / "prometheus.yml").write_text(settings.replace("5s", "250ms"))
    (folder / "deploy").mkdir()
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    made = await asyncio.create_subprocess_exec(
        *("sh", "-ec", PAGE_TOKEN),
        cwd=folder,
        env={**os.environ, **environment, "FLINKNET_CLUSTER_TOKEN": cluster.token},
    )
    assert await made.wait() == 0
    token = (folder / "deploy" / "flinknet.token").rename(folder / "flinknet.token")
    headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
    assert role_of(headers, cluster.token) is Role.READ
    assert token.stat().st_mode & 0o077 == 0
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        stdout=PIPE,
        stderr=STDOUT,
    )
    try:
        address = await _listening(process)
        draining = asyncio.create_task(_drain(process))
        async with aiohttp.ClientSession(f"http://{address}") as session:
            yield session
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    await draining


async def _listening(process: asyncio.subprocess.Process) -> str:
    """Return the address of a Prometheus once it answers requests."""
    assert process.stdout is not None
    address = ""
    said: list[str] = []
    async for line in process.stdout:
        said.append(line.decode())
        if listens := LISTENS.search(line.decode()):
            address = listens[1]
        if b"Server is ready to receive web requests" in line:
            return address
    raise AssertionError(f"prometheus has ended: {''.join(said[-10:])}")


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    while await process.stdout.readline():
        pass


class Api:
    """The part of Prometheus' HTTP API that the test uses."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def get(self, path: str, **parameters: str) -> Any:
        async with self._session.get(f"/api/v1/{path}", params=parameters) as response:
            answer = await response.json()
        assert answer["status"] == "success", answer
        return answer["data"]

    async def query(self, query: str, samples: int) -> list[dict[str, Any]]:
        """Return the answer to a query once it has this number of samples."""
        while True:
            found: list[dict[str, Any]] = (await self.get("query", query=query))["result"]
            if len(found) == samples:
                return found
            await asyncio.sleep(0.05)  # a pause between two requests to another process

    async def some(self, query: str) -> list[dict[str, Any]]:
        """Return the answer to a query once one sample is a number."""
        while True:
            found: list[dict[str, Any]] = (await self.get("query", query=query))["result"]
            if any(one["value"][1] != "NaN" for one in found):
                return found
            await asyncio.sleep(0.05)  # a pause between two requests to another process

    async def values(self, query: str, samples: int) -> list[float]:
        return [float(found["value"][1]) for found in await self.query(query, samples)]


@asynccontextmanager
async def scraped_job(graph: JobGraph, directory: Path) -> AsyncIterator[Api]:
    """Run a job with checkpoints, and a Prometheus that scrapes it, until the block is left."""
    async with (
        asyncio.timeout(90),
        LocalCluster(CONFIG) as cluster,
        prometheus(cluster, directory) as session,
    ):
        settings = JobCheckpointingConfig(200.0, directory=str(directory / "checkpoints"))
        job = replace(graph, checkpointing=settings)
        running = asyncio.create_task(cluster.execute(job))
        try:
            yield Api(session)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_prometheus_finds_every_process_and_answers_in_flinks_names(tmp_path: Path) -> None:
    async with scraped_job(sums(None), tmp_path) as api:
        up = await api.query('up{job="flinknet"} == 1', 3)
        assert {target["metric"]["process"] for target in up} == {
            "coordinator",
            "worker-0",
            "worker-1",
        }
        [received] = await api.values(f"sum({TASK % 'numRecordsIn'}) > 0", 1)
        assert received > 0
        [task] = await api.query(TASK % "numRecordsIn" + " and " + _of_index(0), 1)
        labels = task["metric"]
        assert labels["job_name"] == "sums"
        assert labels["host"] == "127.0.0.1"
        assert labels["tm_id"] == labels["process"]
        assert len(labels["task_id"]) == len(labels["job_id"]) == 32
        assert await api.values("flink_jobmanager_numRegisteredTaskManagers", 1) == [2]
        assert await api.values("flink_jobmanager_numRunningJobs", 1) == [1]
        assert await api.values("flink_jobmanager_taskSlotsTotal", 1) == [4]
        assert await api.values("flink_jobmanager_job_numRestarts", 1) == [0]
        for name in (
            "numRecordsOut",
            "numBytesIn",
            "numBytesInPerSecond",
            "busyTimeMsPerSecond",
            "idleTimeMsPerSecond",
            "backPressuredTimeMsPerSecond",
            "isBackPressured",
            "buffers_inPoolUsage",
            "buffers_outPoolUsage",
            "Shuffle_Netty_Input_Buffers_inPoolUsage",
            "Shuffle_Netty_Input_numBytesInRemote",
        ):
            assert len(await api.values(TASK % name, 2)) == 2, name
        segments = "flink_taskmanager_Status_Shuffle_Netty_TotalMemorySegments"
        assert await api.values(segments, 2) == [2048, 2048]
        for title, query in panel_queries():
            assert await api.some(query), f"{title}: {query}"
        rules = (await api.get("rules"))["groups"]
        health = {rule["name"]: rule["health"] for group in rules for rule in group["rules"]}
        assert "FlinknetBackpressureHigh" in health
        assert set(health.values()) <= {"ok", "unknown"}
        rate = "sum(rate(flinknet_connection_received_bytes_total[5s])) > 0"
        assert len(await api.values(rate, 1)) == 1
        metadata = await api.get("targets/metadata", metric="flinknet_connections_lost_total")
        assert {one["type"] for one in metadata} == {"counter"}
        metadata = await api.get("metadata", metric="flink_taskmanager_job_task_numRecordsIn")
        [described] = metadata["flink_taskmanager_job_task_numRecordsIn"]
        assert described["type"] == "gauge"


def held_up_windows() -> JobGraph:
    """Return a job with event-time windows, late records, and a slow function behind the windows.

    So all queues before that function are full.
    """
    environment = StreamExecutionEnvironment().set_parallelism(2)
    environment.get_config().set_auto_watermark_interval(5)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(time_of)
    stamped = environment.from_source(GeneratorSource(reading)).assign_timestamps_and_watermarks(
        strategy
    )
    windows = stamped.key_by(key_of).window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
    sums = windows.reduce(lambda one, other: (one[0], max(one[1], other[1])))
    sums.rebalance().map(wait_for_somebody).name("Lookup").sink_to(lambda record: None)
    return environment.job_graph("windows")


def reading(number: int) -> tuple[int, int]:
    """Return key and time; every hundredth reading is very late."""
    return number % 50, 0 if number % 100 == 99 else number


def key_of(record: tuple[int, int]) -> int:
    return record[0]


def time_of(record: tuple[int, int], stamp: int | None) -> int:
    return record[1]


async def wait_for_somebody(record: tuple[int, int]) -> tuple[int, int]:
    await asyncio.sleep(0.001)  # as a function that sends a request for each record
    return record


async def test_a_grafana_dashboard_for_flink_has_data(tmp_path: Path) -> None:
    async with scraped_job(held_up_windows(), tmp_path) as api:
        for asked in ASKED:
            assert await api.some(asked.query), asked.panel
        for asked in ASKED:
            if "PoolUsage" in asked.metric:
                assert await api.some(f"{asked.query} {asked.shown_if}"), asked.panel
        dropped = f"sum({OPERATOR}numLateRecordsDropped) > 0"
        assert await api.some(dropped)
        taken = await api.some(f"sum({OPERATOR}numRecordsInPerSecond) by (operator_name) > 0")
        assert "Lookup" in {one["metric"]["operator_name"] for one in taken}
        assert await api.values("flink_jobmanager_job_downtime", 1) == [0]
        known = await api.get("label/__name__/values")
        assert not NOT_ANSWERED.keys() & set(known), "say that they are answered"


def panel_queries() -> list[tuple[str, str]]:
    """Return title and query of each panel of the dashboard in ``deploy``, for all jobs."""
    return [
        (panel["title"], target["expr"].replace("$job", ".*"))
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    ]


def test_prometheus_takes_the_alert_rules() -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no promtool (Debian: apt-get install prometheus)")
    command = [program, "check", "rules", str(DEPLOY / "alerts.yml")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "SUCCESS: 10 rules found" in run.stdout


def _of_index(index: int) -> str:
    return f'flink_taskmanager_job_task_numRecordsIn{{subtask_index="{index}"}}'
