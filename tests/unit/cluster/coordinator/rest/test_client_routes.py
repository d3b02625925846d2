"""A job's way through the control plane, as its client sees it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.cluster.control.messages import (
    Cancel,
    Deploy,
    Failed,
    Opened,
    Released,
    Run,
    StatisticsReport,
    StatisticsRequest,
)
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import encode_result
from flinknet.errors import (
    ConfigurationError,
    InsufficientSlotsError,
    JobCancelledError,
    JobError,
    JobFailedError,
    WorkerLostError,
)
from flinknet.graph.deployment import SubtaskDescriptor
from flinknet.graph.graph import JobGraph
from flinknet.metrics.worker_statistics import pack_statistics
from flinknet.runtime.subtask import SubtaskResult
from tests.unit.cluster.control_plane import (
    CONFIG,
    ServedCoordinator,
    expect,
    get,
    serve_control_plane,
)
from tests.unit.cluster.graphs import keyed_graph
from tests.unit.metrics.samples import channel, channel_rows, subtask, worker


async def finish_subtasks(
    link: ControlLink, job_id: str, worker_id: str, collected: list[Any]
) -> list[SubtaskDescriptor]:
    """Play the rest of a worker's part in a job that succeeds."""
    graph, descriptors, *_ = await link.fetch_deployment(job_id, 0, worker_id)
    assert JobGraph.from_bytes(graph).name == "sums"
    await expect(link, Run)
    results = {}
    for descriptor in descriptors:
        is_sink = descriptor.name.startswith("Reduce")
        result = SubtaskResult(1, 2, 3, 4, 5, 6, 7, {"Collect": collected} if is_sink else {}, {})
        place = descriptor.vertex, descriptor.index
        results[place] = encode_result(result, CONFIG.collect_bytes_max)
    assert await link.upload_results(job_id, 0, worker_id, results) == {}
    await link.send(Released(job_id, 0))
    return descriptors


async def test_the_cluster_shows_its_workers_and_not_its_token(
    served: ServedCoordinator, member: aiohttp.ClientSession
) -> None:
    async with served.worker("worker-0"), served.worker("worker-1"):
        assert await get(member, "/api/v1/overview") == (
            200,
            {"workers": 2, "slots": 4, "free_slots": 4, "jobs": {}},
        )
        _, body = await get(member, "/api/v1/workers")
        assert [worker["state"] for worker in body["workers"]] == ["REGISTERED", "REGISTERED"]
        assert served.token not in str(body)
    assert await get(member, "/api/v1/jobs") == (200, {"jobs": []})


async def test_a_job_runs_from_submission_to_result(
    served: ServedCoordinator, member: aiohttp.ClientSession
) -> None:
    states = []
    async with served.worker("worker-0") as first, served.worker("worker-1") as second:
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        for link in (first, second):
            assert await expect(link, Deploy) == Deploy(job_id, 0)
            await link.send(Opened(job_id, 0))
        descriptors = await finish_subtasks(first, job_id, "worker-0", ["from 0"])
        await finish_subtasks(second, job_id, "worker-1", ["from 1"])
        result = await client.follow(
            job_id, interval_ms=10, on_progress=lambda progress: states.append(progress.state)
        )
        late = encode_result(SubtaskResult(0, 0, 0, 0, 0, 0, 0, {}, {}), CONFIG.collect_bytes_max)
        with pytest.raises(JobError, match="has ended"):
            await first.upload_results(
                job_id, 0, "worker-0", {(descriptors[0].vertex, descriptors[0].index): late}
            )
    assert states[-1] == "FINISHED"
    assert (result.state, result.name) == ("FINISHED", "sums")
    assert result.collected == {"Collect": ["from 0", "from 1"]}
    assert [row["records_in"] for row in result.vertices] == [1, 1, 1]
    assert result.to_dict()["collected"] == {"Collect": 2}
    status, job = await get(member, f"/api/v1/jobs/{job_id}")
    assert (status, job["state"]) == (200, "FINISHED")
    _, story = await get(member, f"/api/v1/jobs/{job_id}/attempts")
    assert [(attempt["attempt"], attempt["state"]) for attempt in story["attempts"]] == [
        (0, "FINISHED")
    ]


async def test_collected_records_are_handed_out_once(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link:
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        await link.send(Opened(job_id, 0))
        await finish_subtasks(link, job_id, "worker-0", [1])
        results = [await client.follow(job_id, interval_ms=10_000) for _ in range(2)]
    assert [result.collected for result in results] == [{"Collect": [1, 1]}, {}]


async def test_the_client_gets_the_failure_of_a_subtask(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link:
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        await link.send(Opened(job_id, 0))
        await expect(link, Run)
        cause = FailureCause(CauseRank.CAUSE, "worker-0", 4711, "ValueError", "boom", "Map (1/1)")
        await link.send(Failed(job_id, 0, 0, 0, cause.to_dict()))
        await expect(link, Cancel)
        await link.send(Released(job_id, 0))
        with pytest.raises(JobFailedError, match=r'"Map \(1/1\)" on worker worker-0.*ValueError'):
            await client.follow(job_id, interval_ms=10_000)
        with pytest.raises(JobError, match="FAILED: no result"):
            await client._request("GET", f"/api/v1/jobs/{job_id}/result")


async def test_the_client_gets_the_loss_of_a_worker(served: ServedCoordinator) -> None:
    client = served.client()
    async with served.worker("worker-0") as link:
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
    with pytest.raises(WorkerLostError, match=r"worker-0 \(pid 4711\) .*connection closed"):
        await client.follow(job_id, interval_ms=10_000)


async def test_a_job_is_cancelled(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link:
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        await client.cancel(job_id)
        await expect(link, Cancel)
        await link.send(Released(job_id, 0))
        with pytest.raises(JobCancelledError, match='"sums" was cancelled'):
            await client.follow(job_id, interval_ms=10_000)


async def test_a_job_that_does_not_fit_is_refused(served: ServedCoordinator) -> None:
    async with served.worker("worker-0"):
        client = served.client()
        with pytest.raises(InsufficientSlotsError, match="needs 3 slots"):
            await client.submit(Submission.of_graph(keyed_graph(parallelism=3)))


async def test_a_job_waits_for_slots_on_their_way_back(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link:
        client = served.client()
        first = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        with pytest.raises(InsufficientSlotsError, match="has 0"):
            await client.submit(Submission.of_graph(keyed_graph()))
        await client.cancel(first)
        await expect(link, Cancel)
        second = asyncio.create_task(client.submit(Submission.of_graph(keyed_graph())))
        progress = await client.progress(first, wait_ms=20)
        assert (progress.state, progress.holders) == ("CANCELLING", ("worker-0",))
        assert not second.done()
        await link.send(Released(first, 0))
        assert await expect(link, Deploy) == Deploy(await second, 0)


async def test_a_client_that_disconnects_while_it_waits_for_slots_starts_no_job(
    served: ServedCoordinator,
) -> None:
    async with served.worker("worker-0") as link:
        client = served.client()
        first = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        await client.cancel(first)
        await expect(link, Cancel)
        other = served.client()
        second = asyncio.create_task(other.submit(Submission.of_graph(keyed_graph())))
        while not served.coordinator.submissions_waiting:
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait((second,))
        await client.progress(first, wait_ms=20)  # the coordinator notices it
        await link.send(Released(first, 0))
        while served.coordinator.submissions_waiting:
            await asyncio.sleep(0)
        assert [job.job_id for job in served.coordinator.dispatcher.jobs()] == [first]


async def test_a_job_that_a_worker_never_releases_ends_and_names_the_worker() -> None:
    async with (
        serve_control_plane(replace(CONFIG, cancel_timeout_ms=20.0)) as served,
        served.worker("worker-0") as link,
    ):
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        await client.cancel(job_id)
        with pytest.raises(JobCancelledError, match=r"worker-0 did not release it .*slots stay"):
            await client.follow(job_id, interval_ms=10_000)
        with pytest.raises(InsufficientSlotsError, match='worker-0 holds slots of job "sums"'):
            await client.submit(Submission.of_graph(keyed_graph()))


async def test_a_job_that_is_too_large_names_the_option(served: ServedCoordinator) -> None:
    graph = keyed_graph(records=[("key", "x" * CONFIG.job_bytes_max)])
    async with served.worker("worker-0"):
        client = served.client()
        with pytest.raises(JobError, match=r"more than cluster.job_bytes_max = 200000"):
            await client.submit(Submission.of_graph(graph))


async def test_a_job_of_too_many_vertices_names_the_option() -> None:
    few = replace(CONFIG, job_shape_bytes_max=1_024)
    graph = replace(keyed_graph(), name="n" * few.job_shape_bytes_max)
    async with serve_control_plane(few) as served, served.worker("worker-0"):
        client = served.client()
        with pytest.raises(ConfigurationError, match=r"cluster.job_shape_bytes_max = 1024"):
            await client.submit(Submission.of_graph(graph))


@pytest.mark.parametrize("wait_ms", ["", "-1", "1.5", "nan", "soon", "9" * 30])
async def test_a_wait_that_is_no_number_is_refused(
    served: ServedCoordinator, member: aiohttp.ClientSession, wait_ms: str
) -> None:
    async with served.worker("worker-0"):
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        status, body = await get(member, f"/api/v1/jobs/{job_id}?wait_ms={wait_ms}")
    assert status == 400
    assert "wait_ms" in body["error"]["message"]


async def test_a_client_sees_a_worker_as_it_last_reported(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link:
        client = served.client()
        with pytest.raises(JobError, match="worker worker-0 has not reported"):
            await client.statistics("worker-0")
        seen = worker(subtasks=2)
        await link.send(StatisticsReport(0, pack_statistics(seen, 10**6)))
        while "worker-0" not in served.coordinator.metrics.latest():
            await asyncio.sleep(0)
        assert await client.statistics("worker-0") == seen


@pytest.mark.parametrize("options", [{"fresh": True}, {"channels_max": 7}])
async def test_a_client_can_query_a_worker(
    served: ServedCoordinator, options: dict[str, Any]
) -> None:
    seen = worker()._replace(channels=channel_rows(channel(0)))
    async with served.worker("worker-0") as link:
        client = served.client()
        asking = asyncio.create_task(client.statistics("worker-0", **options))
        request = await expect(link, StatisticsRequest)
        assert isinstance(request, StatisticsRequest)
        assert request.channels_max == options.get("channels_max", 0)
        await link.send(StatisticsReport(request.request, pack_statistics(seen, 10**6)))
        assert await asking == seen


async def test_a_client_hears_that_a_worker_is_mute_or_gone() -> None:
    config = replace(CONFIG, http_request_timeout_ms=50.0)
    async with serve_control_plane(config) as served:
        client = served.client()
        async with served.worker("worker-0"):
            with pytest.raises(JobError, match=r"not answered within 50 ms.*http_request_timeout"):
                await client.statistics("worker-0", fresh=True)
        with pytest.raises(JobError, match="no worker worker-9"):
            await client.statistics("worker-9")


async def test_a_client_sees_the_subtasks_of_a_job_by_worker(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link:
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        mine = subtask(job_id=job_id)
        seen = worker()._replace(subtasks=(mine, subtask(job_id="another")))
        await link.send(StatisticsReport(0, pack_statistics(seen, 10**6)))
        while "worker-0" not in served.coordinator.metrics.latest():
            await asyncio.sleep(0)
        assert await client.job_statistics(job_id) == {"worker-0": (mine,)}


async def test_a_worker_that_reports_nonsense_is_cut_off(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link:
        await link.send(StatisticsReport(0, b"nonsense"))
        assert await link.receive() is None


async def test_a_body_that_cannot_be_decoded_is_refused(
    member: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    """The sender gets the error, and the log does not."""
    headers = {"Content-Encoding": "gzip"}
    async with member.post("/api/v1/jobs", data=b"no gzip", headers=headers) as response:
        assert response.status == 400
        assert "cannot be decoded" in await response.text()
    assert [record for record in caplog.records if record.levelno >= logging.INFO] == []
