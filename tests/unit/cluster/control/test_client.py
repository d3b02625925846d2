"""A client of the coordinator: the errors of its calls, and how long they wait."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.control.job_result import JobProgress
from flinknet.cluster.control.submission import Submission
from flinknet.errors import (
    ConfigurationError,
    InsufficientSlotsError,
    JobCancelledError,
    JobError,
    JobFailedError,
    RemoteTransportError,
)
from flinknet.net.http_calls import CallError
from tests.unit.cluster.control_plane import CONFIG, mute_server, serve_control_plane
from tests.unit.cluster.graphs import endless_graph, keyed_graph
from tests.unit.cluster.running_cluster import running_cluster

IMPATIENT = replace(CONFIG, coordinator_timeout_ms=60.0, heartbeat_interval_ms=10.0)


async def test_a_coordinator_that_is_not_there_cannot_be_reached() -> None:
    async with serve_control_plane(CONFIG) as gone:
        pass
    client = gone.client()
    with pytest.raises(RemoteTransportError, match=f"at {gone.address} cannot be reached"):
        await client.progress("job")


async def test_a_coordinator_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    """Its jobs come back, too, and calls that may be repeated are repeated."""
    config = replace(CONFIG, state_directory=str(tmp_path))
    async with AsyncExitStack() as stack:
        async with serve_control_plane(config) as first:
            client = first.client()
            async with first.worker("worker-0"):
                job_id = await client.submit(Submission.of_graph(keyed_graph()))
            while first.coordinator.dispatcher.jobs()[0].ended_at is None:
                await asyncio.sleep(0)
        asked = asyncio.create_task(client.progress(job_id))
        with pytest.raises(CallError):
            await client._ask("GET", "/api/v1/jobs", None, 0)
        await stack.enter_async_context(serve_control_plane(config, first))
        assert (await asked).job_id == job_id
        with pytest.raises(JobError, match="no job x"):
            await client.progress("x")


@pytest.mark.parametrize(
    ("status", "body"),
    [("200 OK", "<html>"), ("404 Not Found", "<html>"), ("404 Not Found", '{"detail": "none"}')],
)
async def test_another_server_is_no_coordinator(status: str, body: str) -> None:
    """It is not waited for, unlike a coordinator that has answered before."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.0 {status}\r\nContent-Type: text/html\r\n\r\n{body}".encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        client = CoordinatorClient(f"{host}:{port}", new_token(), CONFIG)
        with pytest.raises(RemoteTransportError, match=r"\(\d+, text/html\) is not a coordinator$"):
            await client.progress("job")


async def test_a_coordinator_that_does_not_come_back_is_given_up() -> None:
    config = replace(CONFIG, coordinator_return_ms=1.0)
    async with serve_control_plane(config) as gone:
        client = gone.client()
        with pytest.raises(JobError, match="no job x"):
            await client.progress("x")
    with pytest.raises(RemoteTransportError, match="cannot be reached"):
        await client.progress("x")


async def test_repeatable_calls_are_repeated_until_they_are_answered() -> None:
    """The client chooses the ids of jobs and savepoints, so these calls may be repeated."""
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.read(65_536) if b"savepoints" in head else head.split()[1]
        heard.append(body)
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    config = replace(CONFIG, coordinator_return_ms=100.0)
    async with server:
        client = CoordinatorClient(f"{host}:{port}", new_token(), config, is_there=True)
        for call in (client.savepoint("job"), client.submit(Submission.of_graph(keyed_graph()))):
            heard.clear()
            with pytest.raises(RemoteTransportError, match="cannot be reached"):
                await call
            assert len(heard) > 1
            assert len(set(heard)) == 1, "with the same id"


async def test_a_repeated_submission_starts_one_job() -> None:
    async with serve_control_plane(CONFIG) as served:
        client = served.client()
        body = Submission.of_graph(keyed_graph()).to_bytes()
        async with served.worker("worker-0"):
            for _ in range(2):
                path = f"/api/v1/jobs?job_id={'5' * 32}"
                assert await client._request("POST", path, body) == {"job_id": "5" * 32}
            assert len(served.coordinator.dispatcher.jobs()) == 1
            with pytest.raises(ConfigurationError, match="'../x' is not a job id"):
                await client._request("POST", "/api/v1/jobs?job_id=../x", body)


@pytest.mark.parametrize("call", ["submit", "progress", "cancel"])
async def test_no_call_of_a_client_waits_for_a_frozen_coordinator(call: str) -> None:
    """The only exception is a time that the call itself asks for."""
    impatient = replace(IMPATIENT, cancel_timeout_ms=1.0, cause_grace_ms=0.0)
    async with mute_server() as address:
        client = CoordinatorClient(address, new_token(), impatient)
        waits = {"submit": "61", "progress": "80", "cancel": "60"}
        with pytest.raises(RemoteTransportError, match=f"not answered for {waits[call]} ms"):
            if call == "submit":
                await client.submit(Submission.of_graph(keyed_graph()))
            elif call == "progress":
                await client.progress("job", wait_ms=20)
            else:
                await client.cancel("job")


async def test_a_refusal_is_raised_as_its_own_error() -> None:
    async with serve_control_plane(CONFIG) as served:
        client = served.client()
        with pytest.raises(InsufficientSlotsError, match='job "sums" needs'):
            await client.submit(Submission.of_graph(keyed_graph()))
        with pytest.raises(JobError, match="no job x"):
            await client.progress("x")


async def test_a_job_is_followed_to_its_end() -> None:
    seen: list[str] = []
    async with running_cluster() as cluster:
        client = cluster.served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        result = await client.follow(
            job_id, interval_ms=10_000, on_progress=lambda progress: seen.append(progress.state)
        )
    assert (result.job_id, result.name, result.state) == (job_id, "sums", "FINISHED")
    assert sorted(result.collected["Collect"]) == [("a", 1), ("a", 4), ("b", 2)]
    assert seen == ["FINISHED"], "the wait for it is the coordinator's"


async def test_following_a_job_hears_of_it_at_each_interval_and_raises_its_end() -> None:
    seen: list[str] = []
    flows = asyncio.Event()
    async with running_cluster() as cluster:
        client = cluster.served.client()
        job_id = await client.submit(Submission.of_graph(endless_graph()))

        def on_progress(progress: JobProgress) -> None:
            seen.append(progress.state)
            flows.set()

        following = asyncio.create_task(
            client.follow(job_id, interval_ms=1, on_progress=on_progress)
        )
        await flows.wait()
        await client.cancel(job_id)
        with pytest.raises(JobCancelledError, match='"endless" was cancelled$'):
            await following
    assert seen[-1] == "CANCELED"
    assert not set(seen[:-1]) & {"CANCELED", "FINISHED", "FAILED"}


async def test_a_failed_job_raises_its_cause() -> None:
    def fail(record: object) -> object:
        raise ValueError("on purpose")

    async with running_cluster() as cluster:
        client = cluster.served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph(function=fail)))
        with pytest.raises(JobFailedError, match="ValueError: on purpose"):
            await client.follow(job_id, interval_ms=10_000)
