"""The data for the page, over HTTP."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.coordinator.rest import diagnosis_routes
from flinknet.cluster.coordinator.rest.flink.job_view import vertex_id
from flinknet.diagnosis.diagnosis import Diagnosis, diagnose
from flinknet.diagnosis.reading import Readings
from flinknet.diagnosis.topology import Topology
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.cluster.control_plane import ServedCoordinator, get
from tests.unit.cluster.graphs import endless_graph, keyed_graph
from tests.unit.cluster.running_cluster import Cluster, running_cluster


async def page(cluster: Cluster, query: str = "") -> dict[str, Any]:
    headers = authorization_headers(cluster.served.token)
    async with aiohttp.ClientSession(f"http://{cluster.served.address}", headers=headers) as member:
        status, told = await get(member, f"/api/v1/page{query}")
    assert status == 200, told
    assert isinstance(told, dict)
    return told


async def test_it_tells_of_the_cluster(
    served: ServedCoordinator, member: aiohttp.ClientSession
) -> None:
    async with served.worker("worker-0"):
        status, told = await get(member, "/api/v1/page")
        assert status == 200
        assert (told["cluster"]["taskmanagers"], told["jobs"]) == (1, [])
        [worker] = told["workers"]
        assert (worker["worker_id"], worker["slots"]) == ("worker-0", 2)
        assert "segments" not in worker
        assert "job" not in told
        status, told = await get(member, "/api/v1/page?job=unknown")
        assert (status, told["job"]) == (200, None)


async def test_one_answer_tells_all_of_a_job(tmp_path: Path) -> None:
    async with running_cluster() as cluster:
        coordinator = cluster.served.coordinator
        record = coordinator.submit(Submission.of_graph(endless_graph()))
        while not record.checkpoints.is_running:
            await asyncio.sleep(0)
        query = f"?job={record.job_id}"
        assert (await page(cluster, query))["diagnosis"]["verdict"] == "unknown"
        for worker in record.execution.workers:
            await coordinator.metrics.fetch(worker, channels_max=0, timeout_s=60.0)
        vertex = vertex_id(record.submission.shape.vertices[1])
        told = await page(cluster, f"{query}&vertex={vertex}&metrics=numRecordsIn")
        assert [one["jid"] for one in told["jobs"]] == [record.job_id]
        assert all(one["segments"] > 0 for one in told["workers"])
        assert [one["reported"] for one in told["job"]["vertices"]] == [2, 2]
        assert [one["id"] for one in told["vertex"]["metrics"]] == ["numRecordsIn"]
        assert told["exceptions"]["entries"] == []
        assert not {"checkpoints", "network"} & set(told)
        assert (await page(cluster, f"{query}&vertex=none"))["vertex"] is None
        told = await page(cluster, f"{query}&show=checkpoints")
        assert (told["checkpoints"]["counts"]["total"], told["checkpoints"]["parts"]) == (0, None)
        coordinator.trigger_savepoint(record, CheckpointKind.SAVEPOINT, str(tmp_path))
        told = await page(cluster, f"{query}&show=checkpoints&checkpoint=1")
        assert len(told["checkpoints"]["parts"]["rows"]) == 4
        told = await page(cluster, f"{query}&show=network")
        assert len(told["network"]["pools"]) == 2
        assert {row[0] for row in told["network"]["channels"]["rows"]} == {"worker-0", "worker-1"}
        coordinator.cancel(record)
        await coordinator.wait_for_end(record, 60.0)
        told = await page(cluster, f"{query}&show=network")
        assert (told["job"]["state"], told["job"]["is_over"]) == ("CANCELED", True)


async def test_one_diagnosis_is_for_all_who_ask_at_a_time() -> None:
    async with running_cluster() as cluster:
        coordinator = cluster.served.coordinator
        records = [
            coordinator.submit(Submission.of_graph(keyed_graph(parallelism=1))) for _ in range(2)
        ]
        for record in (*records, records[0]):
            told = await page(cluster, f"?job={record.job_id}")
            assert told["job"]["id"] == record.job_id
            assert told["diagnosis"]["verdict"] in {"unknown", "healthy", "troubled"}
        for record in records:
            await coordinator.wait_for_end(record, 60.0)


async def test_the_coordinator_goes_on_while_one_diagnosis_is_made_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goes_on, made = threading.Event(), []

    def slow(topology: Topology, readings: Readings) -> Diagnosis:
        made.append(topology)
        assert goes_on.wait(60.0), "the event loop stands still meanwhile"
        return diagnose(topology, readings)

    monkeypatch.setattr(diagnosis_routes, "diagnose", slow)
    async with running_cluster() as cluster:
        coordinator = cluster.served.coordinator
        record = coordinator.submit(Submission.of_graph(keyed_graph(parallelism=1)))
        query = f"?job={record.job_id}"
        asking = [asyncio.create_task(page(cluster, query)) for _ in range(2)]
        while not made:
            await asyncio.sleep(0)
        asking[0].cancel()
        goes_on.set()
        told = await asking[1]
        assert told["diagnosis"]["verdict"] in {"unknown", "healthy", "troubled"}
        assert len(made) == 1
        await coordinator.wait_for_end(record, 60.0)
