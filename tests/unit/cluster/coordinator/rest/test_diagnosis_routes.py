"""Requests to a coordinator about the bottlenecks of a job, over HTTP."""

from __future__ import annotations

import asyncio

import aiohttp

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.rest.diagnosis_routes import (
    diagnosis_of,
    failure_readings,
    topology_of,
)
from flinknet.config.restart_strategy import FixedDelayRestart
from tests.unit.cluster.control_plane import get
from tests.unit.cluster.coordinator.jobs.dispatched import Cluster
from tests.unit.cluster.graphs import endless_graph, keyed_graph
from tests.unit.cluster.running_cluster import running_cluster


def test_the_topology_is_that_of_the_graph() -> None:
    topology = topology_of(keyed_graph(parallelism=3))
    assert [one.parallelism for one in topology.vertices] == [1, 3]
    (exchange,) = topology.exchanges
    assert exchange.is_keyed
    assert exchange.consumers == (range(3),)


def test_the_failures_of_a_running_job_are_listed_newest_first() -> None:
    cluster = Cluster(FixedDelayRestart(attempts=2, delay_ms=1000.0))
    record = cluster.running()
    assert list(failure_readings(record, 0.0)) == []
    cluster.fail(record, error="KeyError")
    cluster.pass_time(1.0)
    cluster.open(record)
    cluster.fail(record, "worker-1")
    late, early = failure_readings(record, 3.0)
    assert (early.ago_s, early.worker_id, late.ago_s, late.worker_id) == (
        *(3.0, "worker-0"),
        *(2.0, "worker-1"),
    )
    assert "KeyError" in early.said
    assert late.subtask in late.said
    cluster.pass_time(2.0)
    cluster.open(record)
    cluster.fail(record)
    assert list(failure_readings(record, 3.0)) == [], "it has ended, and restarts no more"


async def test_a_job_is_diagnosed_from_the_reports_of_its_workers() -> None:
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
        assert not any(worker.is_alive for worker in silent.readings.workers.values())
        later = coordinator.now() + 60.0
        for worker in record.execution.workers:
            coordinator.dispatcher.workers.lives(worker, later)
        blocked = await diagnosis_of(record, coordinator, later)
        assert all(worker.is_alive for worker in blocked.readings.workers.values())
        coordinator.cancel(record)
        await coordinator.wait_for_end(record, 60.0)
