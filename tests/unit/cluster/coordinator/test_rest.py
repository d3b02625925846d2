"""The control plane over real sockets: who may do what, and how a job goes through it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.credentials import authorization_headers, new_token
from flinknet.cluster.control.failure import FailureCause, Gravity
from flinknet.cluster.control.messages import (
    Cancel,
    Deploy,
    Failed,
    Heartbeat,
    Opened,
    Register,
    Registered,
    Released,
    Run,
    Stop,
    encode,
)
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.control.subtask_result import encode_result
from flinknet.config import ClusterConfig
from flinknet.errors import (
    ConfigurationError,
    InsufficientSlotsError,
    JobCancelledError,
    JobError,
    JobFailedError,
    RemoteTransportError,
    WorkerLostError,
)
from flinknet.task.deployment import SubtaskDescriptor
from flinknet.task.graph import JobGraph
from flinknet.task.subtask import SubtaskResult
from flinknet.texts import printable
from tests.unit.cluster.control_plane import (
    ServedCoordinator,
    expect,
    serve_control_plane,
    served_websocket,
)
from tests.unit.cluster.graphs import keyed_graph

CONFIG = ClusterConfig(
    workers=2,
    cause_grace_ms=20.0,
    control_message_bytes_max=64 * 1024,
    job_bytes_max=200_000,
    collect_bytes_max=1024,
)


@pytest.fixture
async def served() -> AsyncIterator[ServedCoordinator]:
    async with serve_control_plane(CONFIG) as served:
        yield served


@pytest.fixture
async def anybody(served: ServedCoordinator) -> AsyncIterator[aiohttp.ClientSession]:
    """Someone without the token."""
    async with aiohttp.ClientSession(f"http://{served.address}") as session:
        yield session


@pytest.fixture
async def member(served: ServedCoordinator) -> AsyncIterator[aiohttp.ClientSession]:
    """Someone with it."""
    headers = authorization_headers(served.token)
    async with aiohttp.ClientSession(f"http://{served.address}", headers=headers) as session:
        yield session


async def get(session: aiohttp.ClientSession, path: str) -> tuple[int, Any]:
    async with session.get(path) as response:
        return response.status, await response.json()


GUARDED = [
    ("GET", "/api/v1/overview"),
    ("GET", "/api/v1/workers"),
    ("GET", "/api/v1/jobs"),
    ("GET", "/api/v1/jobs/x"),
    ("GET", "/api/v1/no/such/thing"),
    ("POST", "/api/v1/jobs"),
    ("POST", "/api/v1/jobs/x/cancel"),
    ("GET", "/api/v1/jobs/x/result"),
    ("GET", "/api/v1/worker"),
    ("GET", "/api/v1/jobs/x/attempts/0/deployment/worker-0"),
    ("PUT", "/api/v1/jobs/x/attempts/0/subtasks/0/0/result"),
]


# -- who may do what


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize("headers", [{}, authorization_headers(new_token())], ids=["none", "wrong"])
async def test_without_the_token_nothing_can_be_done(
    anybody: aiohttp.ClientSession, method: str, path: str, headers: dict[str, str]
) -> None:
    async with anybody.request(method, path, headers=headers) as response:
        assert response.status == 401
        error = (await response.json())["error"]
    assert "token" in error["message"]


async def test_a_worker_without_the_token_is_turned_away(served: ServedCoordinator) -> None:
    async with served.link(new_token()) as link:
        with pytest.raises(ConfigurationError, match=r"refused.*401.*cluster token"):
            await link.register(Register("worker-0", 1, "127.0.0.1:1", 1))
    assert served.coordinator.dispatcher.workers.workers() == ()


async def test_a_client_without_the_token_is_turned_away(served: ServedCoordinator) -> None:
    async with served.client(new_token()) as client:
        with pytest.raises(JobError, match="token"):
            await client.submit(Submission.of_graph(keyed_graph()))
    assert served.coordinator.dispatcher.jobs() == ()


async def test_health_is_open_and_lists_take_the_token(
    served: ServedCoordinator, anybody: aiohttp.ClientSession, member: aiohttp.ClientSession
) -> None:
    async with anybody.get("/livez") as response:
        assert (response.status, await response.text()) == (200, "ok\n")
    assert await get(anybody, "/readyz") == (503, {"workers": 0, "expected": 2})
    async with served.worker("worker-0"), served.worker("worker-1"):
        assert await get(anybody, "/readyz") == (200, {"workers": 2, "expected": 2})
        assert served.coordinator.ready.is_set()
        assert await get(member, "/api/v1/overview") == (
            200,
            {"workers": 2, "slots": 4, "free_slots": 4, "jobs": {}},
        )
        _, body = await get(member, "/api/v1/workers")
        assert [worker["state"] for worker in body["workers"]] == ["REGISTERED", "REGISTERED"]
        assert served.token not in str(body)
    assert await get(member, "/api/v1/jobs") == (200, {"jobs": []})


async def test_what_is_open_to_everyone_says_nothing_of_jobs_or_addresses(
    served: ServedCoordinator, anybody: aiohttp.ClientSession
) -> None:
    async with served.worker("worker-0"), served.client() as client:
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        for path in ("/livez", "/readyz", "/%6civez", "/", "/api/v1/jobs", "/api/v1/workers"):
            async with anybody.get(path) as response:
                said = f"{response.headers} {await response.text()}"
                assert (response.status == 401) == (path not in ("/livez", "/readyz", "/%6civez"))
            for secret in (job_id, "worker-0", "127.0.0.1:1", served.token):
                assert secret not in said


async def test_what_is_not_there_is_404_in_json(member: aiohttp.ClientSession) -> None:
    for path in ("/api/v1/jobs/x", "/no/such/page"):
        status, body = await get(member, path)
        assert status == 404
        assert set(body["error"]) == {"type", "message"}


# -- workers


async def test_a_path_that_is_no_text_is_404_too(served: ServedCoordinator) -> None:
    url = URL(f"http://{served.address}/api/v1/jobs/%ED%A0%80%1B", encoded=True)
    headers = authorization_headers(served.token)
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as response:
        status, body = response.status, await response.json()
    assert status == 404
    assert body["error"]["message"] == printable(body["error"]["message"])


async def test_a_worker_id_that_is_taken_is_refused(served: ServedCoordinator) -> None:
    async with served.worker("worker-0"), served.link() as second:
        with pytest.raises(ConfigurationError, match="worker-0 is taken"):
            await second.register(Register("worker-0", 2, "127.0.0.1:2", 1))
        assert await second.receive() is None


async def test_a_worker_hears_the_pace_of_its_reports(served: ServedCoordinator) -> None:
    async with served.link() as link:
        registered = await link.register(Register("worker-0", 1, "127.0.0.1:1", 1))
    assert registered == Registered(CONFIG.heartbeat_interval_ms, CONFIG.progress_interval_ms)


@pytest.mark.parametrize(
    "frame",
    [
        b"garbage",
        "text",
        encode(Run("job", 0)),
        encode(Register("worker-9", 1, "127.0.0.1:1", 1)),
        encode(Stop("x" * CONFIG.control_message_bytes_max)),
    ],
    ids=["garbage", "text", "coordinator's message", "second Register", "too large"],
)
async def test_a_worker_that_breaks_the_protocol_is_lost_and_no_other(
    served: ServedCoordinator, frame: bytes | str
) -> None:
    async with served.worker("worker-0") as good, served.worker("worker-1"):
        async with aiohttp.ClientSession(headers=authorization_headers(served.token)) as session:
            socket = await session.ws_connect(f"http://{served.address}/api/v1/worker")
            await socket.send_bytes(encode(Register("worker-2", 1, "127.0.0.1:1", 1)))
            await socket.receive_bytes()
            if isinstance(frame, str):
                await socket.send_str(frame)
            else:
                await socket.send_bytes(frame)
            closing = await socket.receive()
            assert closing.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        workers = served.coordinator.dispatcher.workers
        await good.send(Heartbeat())
        assert [worker.worker_id for worker in workers.registered()] == ["worker-0", "worker-1"]


async def test_the_first_message_must_be_register(served: ServedCoordinator) -> None:
    async with aiohttp.ClientSession(headers=authorization_headers(served.token)) as session:
        socket = await session.ws_connect(f"http://{served.address}/api/v1/worker")
        await socket.send_bytes(encode(Heartbeat()))
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    assert served.coordinator.dispatcher.workers.workers() == ()


async def test_workers_are_told_when_the_coordinator_stops(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link:
        served.coordinator.close("enough")
        assert await link.receive() == Stop("enough")
        assert await link.receive() is None


async def test_a_worker_finds_no_coordinator() -> None:
    async with serve_control_plane(CONFIG) as gone:
        pass
    async with gone.link() as link:
        with pytest.raises(RemoteTransportError, match=f"no coordinator at {gone.address}"):
            await link.register(Register("worker-0", 1, "127.0.0.1:1", 1))
    async with gone.client() as client:
        with pytest.raises(RemoteTransportError, match="cannot be reached"):
            await client.progress("job")


async def test_a_coordinator_that_goes_while_a_worker_registers() -> None:
    async def hang_up(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await socket.close()
        return socket

    async with (
        served_websocket(hang_up) as address,
        ControlLink(address, new_token(), ClusterConfig()) as link,
    ):
        with pytest.raises(RemoteTransportError, match="is gone"):
            await link.register(Register("worker-0", 1, "127.0.0.1:1", 1))


# -- jobs


async def finish_subtasks(
    link: ControlLink, job_id: str, worker_id: str, collected: list[Any]
) -> list[SubtaskDescriptor]:
    """Play the rest of a worker's part in a job that goes well."""
    graph, descriptors = await link.fetch_deployment(job_id, 0, worker_id)
    assert JobGraph.from_bytes(graph).name == "sums"
    await expect(link, Run)
    for descriptor in descriptors:
        is_sink = descriptor.name.startswith("Reduce")
        result = SubtaskResult(1, 2, 3, 4, 5, 6, 7, {"Collect": collected} if is_sink else {}, {})
        await link.upload_result(descriptor, encode_result(result, CONFIG.collect_bytes_max))
    await link.send(Released(job_id, 0))
    return descriptors


async def test_a_job_goes_through(served: ServedCoordinator, member: aiohttp.ClientSession) -> None:
    states = []
    async with (
        served.worker("worker-0") as first,
        served.worker("worker-1") as second,
        served.client() as client,
    ):
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
            await first.upload_result(descriptors[0], late)
    assert states[-1] == "FINISHED"
    assert (result.state, result.name) == ("FINISHED", "sums")
    assert result.collected == {"Collect": ["from 0", "from 1"]}
    assert [row["records_in"] for row in result.vertices] == [1, 1, 1]
    assert result.to_dict()["collected"] == {"Collect": 2}
    status, job = await get(member, f"/api/v1/jobs/{job_id}")
    assert (status, job["state"]) == (200, "FINISHED")


async def test_collected_records_are_handed_out_once(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link, served.client() as client:
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        await link.send(Opened(job_id, 0))
        await finish_subtasks(link, job_id, "worker-0", [1])
        results = [await client.follow(job_id, interval_ms=10_000) for _ in range(2)]
    assert [result.collected for result in results] == [{"Collect": [1, 1]}, {}]


async def test_a_failed_subtask_is_what_the_client_gets(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link, served.client() as client:
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        await link.send(Opened(job_id, 0))
        await expect(link, Run)
        cause = FailureCause(Gravity.CAUSE, "worker-0", 4711, "ValueError", "boom", "Map (1/1)")
        await link.send(Failed(job_id, 0, 0, 0, cause.to_dict()))
        await expect(link, Cancel)
        await link.send(Released(job_id, 0))
        with pytest.raises(JobFailedError, match=r'"Map \(1/1\)" on worker worker-0.*ValueError'):
            await client.follow(job_id, interval_ms=10_000)
        with pytest.raises(JobError, match="FAILED: no result"):
            await client._request("GET", f"/api/v1/jobs/{job_id}/result")


async def test_a_worker_that_goes_is_what_the_client_gets(served: ServedCoordinator) -> None:
    async with served.client() as client:
        async with served.worker("worker-0") as link:
            job_id = await client.submit(Submission.of_graph(keyed_graph()))
            await expect(link, Deploy)
        with pytest.raises(WorkerLostError, match=r"worker-0 \(pid 4711\) .*connection closed"):
            await client.follow(job_id, interval_ms=10_000)


async def test_a_job_is_cancelled(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link, served.client() as client:
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        await client.cancel(job_id)
        await expect(link, Cancel)
        await link.send(Released(job_id, 0))
        with pytest.raises(JobCancelledError, match='"sums" was cancelled'):
            await client.follow(job_id, interval_ms=10_000)


async def test_a_job_that_does_not_fit_is_refused(served: ServedCoordinator) -> None:
    async with served.worker("worker-0"), served.client() as client:
        with pytest.raises(InsufficientSlotsError, match="needs 3 slots"):
            await client.submit(Submission.of_graph(keyed_graph(parallelism=3)))


async def test_a_job_waits_for_slots_on_their_way_back(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link, served.client() as client:
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


async def test_a_client_that_goes_while_it_waits_for_slots_starts_no_job(
    served: ServedCoordinator,
) -> None:
    async with served.worker("worker-0") as link, served.client() as client:
        first = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        await client.cancel(first)
        await expect(link, Cancel)
        async with served.client() as other:
            second = asyncio.create_task(other.submit(Submission.of_graph(keyed_graph())))
            while not served.coordinator.submissions_waiting:
                await asyncio.sleep(0)
            second.cancel()
            await asyncio.wait((second,))
        await client.progress(first, wait_ms=20)  # the coordinator hears of it
        await link.send(Released(first, 0))
        while served.coordinator.submissions_waiting:
            await asyncio.sleep(0)
        assert [job.job_id for job in served.coordinator.dispatcher.jobs()] == [first]


async def test_a_job_that_a_worker_never_lets_go_of_ends_and_says_so() -> None:
    async with (
        serve_control_plane(replace(CONFIG, cancel_timeout_ms=20.0)) as served,
        served.worker("worker-0") as link,
        served.client() as client,
    ):
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        await client.cancel(job_id)
        with pytest.raises(JobCancelledError, match=r"worker-0 has not let go .*its slots stay"):
            await client.follow(job_id, interval_ms=10_000)
        with pytest.raises(InsufficientSlotsError, match='worker-0 holds slots of job "sums"'):
            await client.submit(Submission.of_graph(keyed_graph()))


async def test_a_job_that_is_too_large_names_the_option(served: ServedCoordinator) -> None:
    graph = keyed_graph(records=[("key", "x" * CONFIG.job_bytes_max)])
    async with served.worker("worker-0"), served.client() as client:
        with pytest.raises(JobError, match=r"more than cluster.job_bytes_max = 200000"):
            await client.submit(Submission.of_graph(graph))


async def test_collected_records_over_the_limit_are_refused(served: ServedCoordinator) -> None:
    async with served.worker("worker-0") as link, served.client() as client:
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        await expect(link, Deploy)
        _, descriptors = await link.fetch_deployment(job_id, 0, "worker-0")
        upload = encode_result(
            SubtaskResult(1, 1, 1, 1, 1, 1, 1, {"Collect": ["x" * 700]}, {}), 1024
        )
        await link.upload_result(descriptors[1], upload)
        with pytest.raises(JobError, match=r"collect_bytes_max = 1024.*Parquet"):
            await link.upload_result(descriptors[2], upload)


@pytest.mark.parametrize("wait_ms", ["", "-1", "1.5", "nan", "soon", "9" * 30])
async def test_a_wait_that_is_no_number_is_refused(
    served: ServedCoordinator, member: aiohttp.ClientSession, wait_ms: str
) -> None:
    async with served.worker("worker-0"), served.client() as client:
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        status, body = await get(member, f"/api/v1/jobs/{job_id}?wait_ms={wait_ms}")
    assert status == 400
    assert "wait_ms" in body["error"]["message"]
