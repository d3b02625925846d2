"""Flink's own command line and classes as clients of a flinknet cluster.

The jars and the mark are those of the benchmark's peer: ``pytest -m flink``.
"""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bench.peers.flink.installation import FLINK_VERSION, Installation, install
from flinknet.cluster import JobProgress, JobResult, LocalCluster
from flinknet.cluster.control.credentials import authorization_headers
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.errors import JobCancelledError, JobFailedError
from tests.unit.cluster.graphs import endless_graph, keyed_graph

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600)]

CONFIG = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
    cluster=ClusterConfig(workers=2, statistics_interval_ms=50.0),
)
READ_BODIES = Path(__file__).with_name("ReadBodies.java")
VERTEX = "jobs/{job}/vertices/{vertex}"
OWN = {"start_delay", "alignment", "sync", "async"}
"""Fields of a checkpoint that Flink does not have."""

ANSWERS = {
    "rest.messages.DashboardConfiguration": "config",
    "rest.handler.legacy.messages.ClusterOverviewWithVersion": "overview",
    "rest.messages.taskmanager.TaskManagersInfo": "taskmanagers",
    "rest.messages.taskmanager.TaskManagerDetailsInfo": "taskmanagers/{worker}",
    "rest.messages.job.JobDetailsInfo": "jobs/{job}",
    "messages.webmonitor.MultipleJobsDetails": "jobs/overview",
    "messages.webmonitor.JobIdsWithStatusOverview": "jobs",
    "rest.messages.JobPlanInfo": "jobs/{job}/plan",
    "messages.webmonitor.JobStatusInfo": "jobs/{job}/status",
    "rest.messages.job.JobExecutionResultResponseBody": "jobs/{job}/execution-result",
    "rest.messages.JobConfigInfo": "jobs/{job}/config",
    "rest.messages.JobExceptionsInfoWithHistory": "jobs/{job}/exceptions",
    "rest.messages.JobAccumulatorsInfo": "jobs/{job}/accumulators",
    "rest.messages.job.metrics.MetricCollectionResponseBody": "jobs/{job}/metrics?get=uptime",
    "rest.messages.checkpoints.CheckpointingStatistics": "jobs/{job}/checkpoints",
    "rest.messages.checkpoints.CheckpointStatistics": "jobs/{job}/checkpoints/details/1",
    "rest.messages.checkpoints.CheckpointConfigInfo": "jobs/{job}/checkpoints/config",
    "rest.messages.JobVertexDetailsInfo": f"{VERTEX}",
    "rest.messages.JobVertexTaskManagersInfo": f"{VERTEX}/taskmanagers",
    "rest.messages.SubtasksTimesInfo": f"{VERTEX}/subtasktimes",
    "rest.messages.JobVertexBackPressureInfo": f"{VERTEX}/backpressure",
    "rest.messages.job.metrics.AggregatedMetricsResponseBody": (
        f"{VERTEX}/subtasks/metrics?get=numRecordsIn,isBackPressured"
    ),
    "rest.messages.ConfigurationInfo": "jobmanager/config",
    "rest.messages.EnvironmentInfo": "jobmanager/environment",
}


OF_A_FAILED_JOB = {
    "rest.messages.JobExceptionsInfoWithHistory": "jobs/{job}/exceptions",
    "rest.messages.job.JobExecutionResultResponseBody": "jobs/{job}/execution-result",
    "rest.messages.job.JobDetailsInfo": "jobs/{job}",
}


@pytest.fixture(scope="module")
def flink() -> Installation:
    return install()


class Client:
    """A client of the coordinator: Flink's command line, Flink's classes, or the test itself."""

    def __init__(self, flink: Installation, cluster: LocalCluster, folder: Path) -> None:
        self._flink = flink
        self._cluster = cluster
        self._folder = folder
        (folder / "conf").mkdir()
        (folder / "conf" / "config.yaml").write_text("rest.retry.max-attempts: 0\n")

    async def flink(self, command: str, *arguments: str, token: str = "") -> tuple[int, str]:
        """Run ``flink``; return its status and output."""
        return await self.java(
            "org.apache.flink.client.cli.CliFrontend",
            *(command, "-m", self._cluster.address, *arguments),
            FLINK_CONF_DIR=str(self._folder / "conf"),
            FLINK_REST_CLIENT_HEADERS=f"Authorization:Bearer {token or self._cluster.token}",
        )

    async def java(self, *arguments: str, **environment: str) -> tuple[int, str]:
        """Run a class or a source file with Flink's jars."""
        process = await asyncio.create_subprocess_exec(
            *(self._flink.java, "-XX:TieredStopAtLevel=1", "-cp", self._flink.class_path),
            *arguments,
            env={**os.environ, **environment},
            cwd=self._folder,
            stdout=PIPE,
            stderr=STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def ask(self, path: str) -> bytes:
        """Return the body of an answer."""
        headers = authorization_headers(self._cluster.token)
        async with (
            aiohttp.ClientSession(f"http://{self._cluster.address}", headers=headers) as session,
            session.get(f"/v1/{path}") as response,
        ):
            assert response.status == 200, (path, await response.text())
            return await response.read()


@dataclass(frozen=True)
class Running:
    """A cluster with a running endless job, and its client."""

    cluster: LocalCluster
    client: Client
    job_id: str
    result: asyncio.Task[JobResult]


@pytest.fixture
async def running(flink: Installation, tmp_path: Path) -> AsyncIterator[Running]:
    runs: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def note(progress: JobProgress) -> None:
        if progress.state == "RUNNING" and not runs.done():
            runs.set_result(progress.job_id)

    settings = JobCheckpointingConfig(1e9, directory=str(tmp_path / "checkpoints"))
    graph = replace(endless_graph(), checkpointing=settings)
    async with LocalCluster(CONFIG, on_output=lambda process, line: None) as cluster:
        result = asyncio.create_task(cluster.execute(graph, note))
        yield Running(cluster, Client(flink, cluster, tmp_path), await runs, result)
        result.cancel()
        await asyncio.wait([result])


async def test_flinks_command_line_lists_saves_and_stops_a_job(
    running: Running, tmp_path: Path
) -> None:
    client, job_id = running.client, running.job_id
    status, said = await client.flink("list")
    assert status == 0, said
    assert f"{job_id} : endless (RUNNING)" in said
    status, said = await client.flink("list", token="wrong")
    assert (status, "the cluster token is missing or wrong" in said) == (1, True), said

    status, said = await client.flink("savepoint", job_id, str(tmp_path / "saved"))
    assert status == 0, said
    first = tmp_path / "saved" / job_id / "savepoint-1-attempt-0"
    assert f"Path: {first}" in said
    assert (first / "metadata").is_file()

    file = tmp_path / "file \N{GRINNING FACE}"
    file.write_text("no directory")
    status, said = await client.flink("savepoint", job_id, str(file))
    assert status == 1, said
    (reason,) = (line for line in said.splitlines() if "Caused by: CheckpointError: " in line)
    assert f"{file}/{job_id}/savepoint-2-attempt-0/metadata: Not a directory" in reason

    status, said = await client.flink("stop", "--savepointPath", str(tmp_path / "last"), job_id)
    assert status == 0, said
    assert f"Path: {tmp_path}/last/{job_id}/savepoint-3-attempt-0" in said
    assert (await running.result).state == "FINISHED"
    status, said = await client.flink("list", "--all")
    assert f"{job_id} : endless (FINISHED)" in said


async def test_flinks_command_line_cancels_a_job(running: Running) -> None:
    client = running.client
    status, said = await client.flink("cancel", "0" * 32)
    assert (status, f"no job {'0' * 32}" in said) == (1, True), said
    status, said = await client.flink("cancel", running.job_id)
    assert status == 0, said
    with pytest.raises(JobCancelledError):
        await running.result


def _without_own(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_without_own(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    is_checkpoint = "checkpoint_type" in answer
    return {
        key: _without_own(value)
        for key, value in answer.items()
        if not (is_checkpoint and key in OWN)
    }


async def test_every_answer_has_the_very_shape_of_flinks(running: Running, tmp_path: Path) -> None:
    workers = json.loads(await running.client.ask("taskmanagers"))["taskmanagers"]
    await running.cluster.savepoint(running.job_id, str(tmp_path / "saved"))
    job = json.loads(await running.client.ask(f"jobs/{running.job_id}"))
    names = {
        "job": running.job_id,
        "worker": workers[0]["id"],
        "vertex": job["vertices"][0]["id"],
    }
    reported = f"jobs/{running.job_id}/vertices/{names['vertex']}/backpressure"
    while json.loads(await running.client.ask(reported))["status"] != "ok":
        pass  # the workers report periodically
    with pytest.raises(JobFailedError, match="division by zero"):
        await running.cluster.execute(keyed_graph("failing", function=lambda record: 1 / 0))
    jobs = json.loads(await running.client.ask("jobs/overview"))["jobs"]
    (failed,) = (job["jid"] for job in jobs if job["state"] == "FAILED")
    asked = [(body, path.format(**names)) for body, path in ANSWERS.items()]
    asked += [(body, path.format(job=failed)) for body, path in OF_A_FAILED_JOB.items()]
    arguments = []
    for number, (body, path) in enumerate(asked):
        file = tmp_path / f"{number}.json"
        answer = await running.client.ask(path)
        file.write_text(json.dumps(_without_own(json.loads(answer))))
        arguments += [body, str(file)]
    status, said = await running.client.java(str(READ_BODIES), *arguments)
    assert status == 0, said
    assert said.strip() == "all are Flink's"


def test_the_version_that_is_announced_is_the_one_that_is_tested() -> None:
    assert ClusterConfig().rest_flink_version == FLINK_VERSION
