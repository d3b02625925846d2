"""A worker's downloads and uploads beside its websocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.messages import Deploy
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import encode_result, pack_results
from flinknet.errors import JobError
from flinknet.runtime.subtask import SubtaskResult
from tests.unit.cluster.control_plane import (
    CONFIG,
    ServedCoordinator,
    expect,
    serve_control_plane,
)
from tests.unit.cluster.graphs import keyed_graph

UPLOAD = encode_result(SubtaskResult(1, 1, 1, 1, 1, 1, 1, {"Collect": ["x" * 700]}, {}), 1024)


async def test_collected_records_over_the_limit_are_refused(served: ServedCoordinator) -> None:
    """The other records of the same request are accepted."""
    async with served.worker("worker-0") as link:
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        small = encode_result(SubtaskResult(1, 1, 1, 1, 1, 1, 1, {}, {}), 1024)
        results = {(1, 0): UPLOAD, (1, 1): UPLOAD, (0, 0): small}
        refused = await link.upload_results(job_id, 0, "worker-0", results)
        assert list(refused) == [(1, 1)]
        assert "collect_bytes_max = 1024" in refused[1, 1]
        assert "Parquet" in refused[1, 1]
        job = served.coordinator.dispatcher.job(job_id)
        assert job is not None
        assert set(job.present.results) == {(1, 0), (0, 0)}


async def test_a_request_about_another_attempt_is_a_conflict(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link:
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        with pytest.raises(JobError, match=f"job {job_id} is at another attempt"):
            await link.fetch_deployment(job_id, 1, "worker-0")
        with pytest.raises(JobError, match="no job x"):
            await link.fetch_committables("x", 0)


async def test_a_result_of_a_subtask_that_the_job_does_not_have_is_refused(
    served: ServedCoordinator,
) -> None:
    async with served.worker("worker-0") as link:
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        for results, reason in (
            ({(9, 0): UPLOAD}, rf"job {job_id} has no subtask \(9, 0\)"),
            ({(0, 0): b""}, "the request's body is not a result"),
            ({("0", 0): UPLOAD}, "the request's body holds no results"),
        ):
            with pytest.raises(JobError, match=reason):
                await link.upload_results(job_id, 0, "worker-0", results)  # type: ignore[arg-type]


@pytest.mark.parametrize("worker_id", ["worker-0", "worker-9"])
async def test_the_upload_of_a_registered_worker_may_take_any_time(worker_id: str) -> None:
    """Its user code may hold it up in the middle of the upload."""
    quick = replace(CONFIG, http_request_timeout_ms=20.0)
    held_up = asyncio.Event()
    async with serve_control_plane(quick) as served, served.worker("worker-0") as link:
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        body = pack_results({(1, 0): UPLOAD})

        async def pieces() -> AsyncIterator[bytes]:
            yield body[:9]
            await held_up.wait()
            yield body[9:]

        async def upload(session: aiohttp.ClientSession) -> int:
            path = f"/api/v1/jobs/{job_id}/attempts/0/results/{worker_id}"
            async with session.put(f"http://{served.address}{path}", data=pieces()) as response:
                return response.status

        async with aiohttp.ClientSession(headers=authorization_headers(served.token)) as session:
            uploading = asyncio.create_task(upload(session))
            is_known = worker_id == "worker-0"
            # Each of these requests is reaped, one after the other, once its time is over.
            for _ in range(3 if is_known else 0):
                async with session.post(f"http://{served.address}/api/v1/jobs", data=never()) as no:
                    assert no.status == 408
            if is_known:
                assert not uploading.done()
                held_up.set()
            assert await uploading == (200 if is_known else 408)
            held_up.set()


async def never() -> AsyncIterator[bytes]:
    yield b"the beginning"
    await asyncio.Event().wait()
