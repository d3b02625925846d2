"""Savepoints over HTTP: their requests and their progress."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.submission import RestoreSettings, Submission
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.errors import CheckpointError, JobError
from tests.unit.cluster.control_plane import get
from tests.unit.cluster.graphs import endless_graph
from tests.unit.cluster.running_cluster import Cluster, running_cluster


async def endless(cluster: Cluster) -> JobRecord:
    """Return a job without periodic checkpoints, with all subtasks running."""
    record = cluster.served.coordinator.submit(Submission.of_graph(endless_graph()))
    while not record.checkpoints.is_running:
        await asyncio.sleep(0)
    return record


async def cancel(cluster: Cluster, record: JobRecord) -> None:
    cluster.served.coordinator.cancel(record)
    await cluster.served.coordinator.wait_for_end(record, 60.0)
    await cluster.served.coordinator.finish_checkpoints()


async def test_a_savepoint_is_written_to_the_requested_directory(tmp_path: Path) -> None:
    async with running_cluster() as cluster:
        client = cluster.served.client()
        record = await endless(cluster)
        job_id = await client.find_job("endless")
        first = await client.savepoint(job_id, str(tmp_path))
        second = await client.savepoint(job_id, str(tmp_path))
        assert [first, second] == [
            f"{tmp_path}/{record.job_id}/savepoint-{number}-attempt-0" for number in (1, 2)
        ]
        assert (Path(first) / "metadata").is_file()
        (tmp_path / "file").write_text("no directory")
        with pytest.raises(CheckpointError, match="file/.*: Not a directory"):
            await client.savepoint(job_id, str(tmp_path / "file"))
        assert record.execution.cause is None, "the job goes on"
        await cancel(cluster, record)
        with pytest.raises(JobError, match="is CANCELED: a savepoint needs all subtasks"):
            await client.savepoint(job_id, str(tmp_path))


async def test_invalid_savepoint_requests_are_refused() -> None:
    async with running_cluster() as cluster:
        record = await endless(cluster)
        headers = authorization_headers(cluster.served.token)
        path = f"/v1/jobs/{record.job_id}/savepoints"
        url = f"http://{cluster.served.address}"
        async with aiohttp.ClientSession(url, headers=headers) as session:
            for body, why in (
                (b"{", "is not JSON"),
                (b"[]", "is not a JSON object"),
                (b'{"target-directory": 1}', "write a path or a URL"),
                (b'{"cancel-job": true}', "stop it with one"),
                (b'{"triggerId": "4711"}', "give 32 hexadecimal digits"),
                (b"", "has no directory for a savepoint"),
            ):
                async with session.post(path, data=body) as response:
                    assert response.status == 400
                    (message,) = (await response.json())["errors"]
                    assert why in message
            assert (await get(session, path + "/4711"))[0] == 404
            assert (await get(session, "/v1/jobs/4711/savepoints/1"))[0] == 404
        await cancel(cluster, record)


async def test_a_job_continues_over_the_wire(tmp_path: Path) -> None:
    async with running_cluster() as cluster:
        client = cluster.served.client()
        record = await endless(cluster)
        place = await client.savepoint(record.job_id, str(tmp_path))
        await cancel(cluster, record)
        again = replace(Submission.of_graph(endless_graph()), restore=RestoreSettings(place))
        job_id = await client.submit(again)
        second = cluster.served.coordinator.dispatcher.job(job_id)
        assert second is not None
        assert second.present.restored_from == place
        while not second.checkpoints.is_running:
            await asyncio.sleep(0)
        await cancel(cluster, second)


async def test_a_repeated_request_triggers_one_savepoint(
    tmp_path: Path,
) -> None:
    async with running_cluster() as cluster:
        record = await endless(cluster)
        headers = authorization_headers(cluster.served.token)
        body = {"target-directory": str(tmp_path), "triggerId": "5" * 32}
        async with aiohttp.ClientSession(
            f"http://{cluster.served.address}", headers=headers
        ) as one:
            for _ in range(2):
                path = f"/v1/jobs/{record.job_id}/savepoints"
                async with one.post(path, json=body) as response:
                    assert await response.json() == {"request-id": "5" * 32}
        assert len(record.savepoints) == 1
        await cancel(cluster, record)
