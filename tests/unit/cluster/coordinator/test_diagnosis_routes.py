"""Asking a coordinator who holds a job up, over HTTP."""

from __future__ import annotations

import asyncio

import aiohttp

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.diagnosis_routes import diagnosis_of, topology_of
from tests.unit.cluster.control_plane import get
from tests.unit.cluster.graphs import endless_graph, keyed_graph
from tests.unit.cluster.running_cluster import running_cluster


def test_the_topology_is_that_of_the_graph() -> None:
    topology = topology_of(keyed_graph(parallelism=3))
    assert [one.parallelism for one in topology.vertices] == [1, 3]
    (exchange,) = topology.exchanges
    assert exchange.is_keyed
    assert exchange.consumers == (range(3),)


async def test_a_job_is_diagnosed_from_what_its_workers_report() -> None:
    async with running_cluster() as cluster:
        coordinator = cluster.served.coordinator
        record = coordinator.submit(Submission.of_graph(endless_graph()))
        headers = authorization_headers(cluster.served.token)
        url, path = f"http://{cluster.served.address}", f"/api/v1/jobs/{record.job_id}/diagnosis"
        async with aiohttp.ClientSession(url, headers=headers) as session:
            status, told = await get(session, path)
            assert (status, told["verdict"], told["tasks"]) == (200, "unknown", [])
            while not record.checkpoints.is_running:
                await asyncio.sleep(0)
            for worker in record.execution.workers:
                await coordinator.metrics.fetch(worker, channels_max=0, timeout_s=60.0)
            status, told = await get(session, path)
            assert (told["job_id"], told["name"], told["state"], told["attempt"]) == (
                record.job_id,
                "endless",
                "RUNNING",
                0,
            )
            assert len(told["tasks"]) == 4
            status, told = await get(session, f"/api/v1/jobs/{'0' * 32}/diagnosis")
            assert status == 404
        silent = await diagnosis_of(record, coordinator, coordinator.now() + 60.0)
        assert {one.kind.name for one in silent.findings} == {"SILENT_WORKER"}
        coordinator.cancel(record)
        await coordinator.wait_for_end(record, 60.0)
