"""Workers' requests to the coordinator, without a transport; see also ``test_worker_routes.py``."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgpack
import pytest

from flinknet.cluster.control.messages import Register
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import encode_result, pack_results
from flinknet.cluster.coordinator.coordinator import Coordinator
from flinknet.cluster.coordinator.rest.worker_requests import AnsweredRequests, LateRequestError
from flinknet.cluster.coordinator.workers.worker_connection import WorkerConnection
from flinknet.errors import ConfigurationError
from flinknet.graph.deployment import descriptors_of_fields
from flinknet.runtime.subtask import SubtaskResult
from tests.sim.cluster import MemoryConversation, Trace
from tests.unit.cluster.control_plane import CONFIG
from tests.unit.cluster.graphs import keyed_graph

RESULT = encode_result(SubtaskResult(1, 1, 1, 1, 1, 1, 1, {}, {}), 1024)


@pytest.fixture
async def coordinator() -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(CONFIG)
    ends = MemoryConversation("near", Trace()), MemoryConversation("far", Trace())
    ends[0].other, ends[1].other = ends[1], ends[0]
    coordinator.join(
        Register("worker-0", 1, "127.0.0.1:1", 2), WorkerConnection(coordinator, ends[0])
    )
    yield coordinator
    coordinator.close("the test ends")
    await coordinator.finish_checkpoints()


async def test_a_worker_gets_its_subtasks_and_uploads_their_results(
    coordinator: Coordinator,
) -> None:
    record = coordinator.submit(Submission.of_graph(keyed_graph()))
    requests = AnsweredRequests(coordinator)
    told = msgpack.unpackb(await requests.deployment(record.job_id, 0, "worker-0"))
    assert len(descriptors_of_fields(told["subtasks"])) == 3
    assert told["checkpoints_as"] == 0
    other = msgpack.unpackb(await requests.deployment(record.job_id, 0, "worker-9"))
    assert descriptors_of_fields(other["subtasks"]) == []
    body = pack_results({(0, 0): RESULT})
    assert msgpack.unpackb(await requests.take_results(record.job_id, 0, "worker-0", body)) == []
    assert set(record.present.results) == {(0, 0)}
    taken = record.present.results[0, 0]
    # The worker sends it again if the connection broke before the answer.
    assert msgpack.unpackb(await requests.take_results(record.job_id, 0, "worker-0", body)) == []
    assert record.present.results[0, 0] is taken
    with pytest.raises(ConfigurationError, match="holds no results"):
        await requests.take_results(record.job_id, 0, "worker-0", b"garbage")


async def test_late_requests_are_refused(coordinator: Coordinator) -> None:
    requests = AnsweredRequests(coordinator)
    record = coordinator.submit(Submission.of_graph(keyed_graph()))
    with pytest.raises(LateRequestError, match="no job x"):
        await requests.committables("x", 0)
    with pytest.raises(LateRequestError, match="is at another attempt"):
        await requests.deployment(record.job_id, 1, "worker-0")
    with pytest.raises(LateRequestError, match="no request waits for answer 7"):
        await requests.take_answer("worker-0", 7, b"")
