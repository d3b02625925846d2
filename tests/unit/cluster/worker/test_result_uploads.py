"""Results of subtasks on their way to the coordinator: few requests, and an outcome for each
subtask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.http_transport import HttpTransport
from flinknet.cluster.control.messages import Deploy, Register
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import encode_result
from flinknet.cluster.worker.result_uploads import BATCH_BYTES_MAX, ResultUploads
from flinknet.errors import JobError, LocalTransportError
from flinknet.runtime.subtask import SubtaskResult
from tests.unit.cluster.control_plane import (
    CONFIG,
    ServedCoordinator,
    expect,
    serve_control_plane,
)
from tests.unit.cluster.graphs import keyed_graph

PARALLELISM = 64
SUBTASKS = [(0, 0), *((1, index) for index in range(PARALLELISM))]


class CountingLink(ControlLink):
    """A worker's link that counts its uploads."""

    def __init__(self, served: ServedCoordinator) -> None:
        config = served.coordinator.config
        super().__init__(HttpTransport(served.address, served.token, config), config)
        self.uploads: list[int] = []

    async def upload_results(
        self, job_id: str, attempt: int, worker_id: str, results: Mapping[tuple[int, int], bytes]
    ) -> dict[tuple[int, int], str]:
        self.uploads.append(len(results))
        return await super().upload_results(job_id, attempt, worker_id, results)


@pytest.fixture
async def served() -> AsyncIterator[ServedCoordinator]:
    async with serve_control_plane(CONFIG) as served:
        yield served


@pytest.fixture
async def link(served: ServedCoordinator) -> AsyncIterator[CountingLink]:
    async with CountingLink(served) as link:
        await link.register(Register("worker-0", 1, "127.0.0.1:1", PARALLELISM))
        yield link


async def deployed(served: ServedCoordinator, link: ControlLink) -> str:
    client = served.client()
    job_id = await client.submit(Submission.of_graph(keyed_graph(parallelism=PARALLELISM)))
    await expect(link, Deploy)
    return job_id


def result(collected: int = 0) -> bytes:
    records = {"Collect": ["x" * collected]} if collected else {}
    return encode_result(SubtaskResult(1, 1, 1, 1, 1, 1, 1, records, {}), 1 << 20)


async def hand_in(
    uploads: ResultUploads, results: Mapping[tuple[int, int], bytes]
) -> list[BaseException | None]:
    """Hand results in at the same time; return the outcome of each."""
    async with asyncio.TaskGroup() as group:
        uploads.begin(group)
        return await asyncio.gather(
            *(uploads.hand_in(subtask, body) for subtask, body in results.items()),
            return_exceptions=True,
        )


async def test_results_that_come_together_go_together(
    served: ServedCoordinator, link: CountingLink
) -> None:
    job_id = await deployed(served, link)
    uploads = ResultUploads(link, job_id, 0, "worker-0")
    alone, *others = SUBTASKS
    assert await hand_in(uploads, {alone: result()}) == [None]
    assert await hand_in(uploads, dict.fromkeys(others, result())) == [None] * PARALLELISM
    record = served.coordinator.dispatcher.job(job_id)
    assert record is not None
    assert set(record.present.results) == set(SUBTASKS)
    assert link.uploads == [1, PARALLELISM]


async def test_a_subtask_whose_result_is_refused_fails_alone(
    served: ServedCoordinator, link: CountingLink
) -> None:
    job_id = await deployed(served, link)
    uploads = ResultUploads(link, job_id, 0, "worker-0")
    large = served.coordinator.config.collect_bytes_max + 1
    answers = await hand_in(
        uploads, {(1, 0): result(), (1, 1): result(collected=large), (1, 2): result()}
    )
    assert answers[0] is answers[2] is None
    assert isinstance(answers[1], JobError)
    assert "collect_bytes_max" in str(answers[1])


async def test_a_request_has_a_bound_and_fails_only_the_subtasks_in_it(
    served: ServedCoordinator, link: CountingLink
) -> None:
    """Two of three results do not fit one request."""
    job_id = await deployed(served, link)
    uploads = ResultUploads(link, job_id, 0, "worker-0")
    body = b"no result" * (BATCH_BYTES_MAX // 18)
    answers = await hand_in(uploads, {(1, 0): body, (1, 1): body, (1, 2): body, (0, 0): result()})
    assert link.uploads == [2, 2]
    assert all(isinstance(answer, JobError) for answer in answers)


async def test_a_coordinator_that_is_gone_is_told_to_each_subtask(
    served: ServedCoordinator, link: CountingLink
) -> None:
    config = served.coordinator.config
    nobody = ControlLink(HttpTransport("127.0.0.1:1", "token", config), config)
    async with nobody:
        uploads = ResultUploads(nobody, "job", 0, "worker-0")
        answers = await hand_in(uploads, {(1, 0): result(), (1, 1): result()})
    assert all(isinstance(answer, LocalTransportError) for answer in answers)


async def test_a_subtask_that_is_cancelled_takes_its_result_along(
    served: ServedCoordinator, link: CountingLink
) -> None:
    """This holds while its request is being sent, and before."""
    job_id = await deployed(served, link)
    uploads = ResultUploads(link, job_id, 0, "worker-0")
    first, second, third = SUBTASKS[:3]
    async with asyncio.TaskGroup() as group:
        uploads.begin(group)
        under_way = asyncio.create_task(uploads.hand_in(first, result()))
        while not link.uploads:
            await asyncio.sleep(0)
        waiting = [asyncio.create_task(uploads.hand_in(one, result())) for one in (second, third)]
        await asyncio.sleep(0)
        for cancelled in (under_way, waiting[0]):
            cancelled.cancel()
    assert [one.cancelled() for one in (under_way, *waiting)] == [True, True, False]
    assert link.uploads == [1, 1]
