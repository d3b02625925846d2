"""What a worker fetches and uploads beside its websocket."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.cluster.control.messages import Deploy
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import encode_result
from flinknet.errors import JobError
from flinknet.task.subtask import SubtaskResult
from tests.unit.cluster.control_plane import ServedCoordinator, expect
from tests.unit.cluster.graphs import keyed_graph


async def test_collected_records_over_the_limit_are_refused(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link, served.client() as client:
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        _, descriptors, *_ = await link.fetch_deployment(job_id, 0, "worker-0")
        upload = encode_result(
            SubtaskResult(1, 1, 1, 1, 1, 1, 1, {"Collect": ["x" * 700]}, {}), 1024
        )
        await link.upload_result(descriptors[1], upload)
        with pytest.raises(JobError, match=r"collect_bytes_max = 1024.*Parquet"):
            await link.upload_result(descriptors[2], upload)


async def test_what_is_asked_of_another_attempt_is_a_conflict(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link, served.client() as client:
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        with pytest.raises(JobError, match=f"job {job_id} is at another attempt"):
            await link.fetch_deployment(job_id, 1, "worker-0")
        with pytest.raises(JobError, match="no job x"):
            await link.fetch_committables("x", 0)


async def test_a_result_of_a_subtask_that_the_job_does_not_have_is_refused(
    served: ServedCoordinator,
) -> None:
    async with served.worker("worker-0") as link, served.client() as client:
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        _, (source, *_), *_ = await link.fetch_deployment(job_id, 0, "worker-0")
        with pytest.raises(JobError, match=rf"job {job_id} has no subtask \(9, 0\)"):
            await link.upload_result(replace(source, vertex=9), b"")
        with pytest.raises(JobError, match="the request's body is no result"):
            await link.upload_result(source, b"")
