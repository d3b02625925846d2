"""Logs, output and stacks of a coordinator and its workers, over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import aiohttp

from flinknet.cluster.control.credentials import authorization_headers
from tests.unit.cluster.control_plane import CONFIG, get, serve_control_plane
from tests.unit.cluster.running_cluster import running_cluster


async def read(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as response:
        return response.status, await response.text()


async def test_a_worker_sends_its_log_and_stacks() -> None:
    async with running_cluster() as cluster:
        while not cluster.served_workers:
            await asyncio.sleep(0)
        worker = cluster.served_workers[0]
        name = cluster.environments[0].worker_id
        output = worker._answers._output
        output.log.write("it logs, été\n")
        output.stdout.write("it prints\n")
        headers = authorization_headers(cluster.served.token)
        url = f"http://{cluster.served.address}"
        async with aiohttp.ClientSession(url, headers=headers) as session:
            path = f"/v1/taskmanagers/{name}"
            _, told = await get(session, f"{path}/logs")
            assert [(one["name"], one["size"]) for one in told["logs"]] == [
                (f"{name}.log", 15),
                (f"{name}.out", 10),
            ]
            assert all(one["mtime"] > 0 for one in told["logs"])
            assert await read(session, f"{path}/log") == (200, "it logs, été\n")
            assert await read(session, f"{path}/stdout") == (200, "it prints\n")
            assert await read(session, f"{path}/logs/{name}.out") == (200, "it prints\n")
            status, refusal = await get(session, f"{path}/logs/other.log")
            assert (status, refusal) == (404, {"errors": ["there is no log other.log"]})
            _, told = await get(session, f"{path}/thread-dump")
            names = {one["threadName"] for one in told["threadInfos"]}
            assert "MainThread" in names
            assert any(name.startswith("task ") for name in names)
            assert any("\tat " in one["stringifiedThreadInfo"] for one in told["threadInfos"])
            status, refusal = await get(session, "/v1/taskmanagers/other/log")
            assert (status, refusal) == (404, {"errors": ["no worker other"]})


async def test_the_coordinator_serves_its_own_log_and_stacks() -> None:
    async with serve_control_plane(CONFIG) as served:
        served.coordinator.output.log.write("it listens\n")
        headers = authorization_headers(served.token)
        async with aiohttp.ClientSession(f"http://{served.address}", headers=headers) as session:
            _, told = await get(session, "/v1/jobmanager/logs")
            assert [one["name"] for one in told["logs"]] == ["coordinator.log", "coordinator.out"]
            for path in ("log", "logs/coordinator.log"):
                assert await read(session, f"/v1/jobmanager/{path}") == (200, "it listens\n")
            assert await read(session, "/v1/jobmanager/stdout") == (200, "")
            assert (await read(session, "/v1/jobmanager/logs/x"))[0] == 404
            _, told = await get(session, "/v1/jobmanager/thread-dump")
            assert told["threadInfos"]


async def test_an_unresponsive_or_missing_worker_is_reported() -> None:
    async with serve_control_plane(CONFIG) as served, served.worker("worker-0"):
        served.coordinator.config = replace(
            CONFIG, heartbeat_interval_ms=10.0, coordinator_timeout_ms=50.0
        )
        headers = authorization_headers(served.token)
        async with aiohttp.ClientSession(f"http://{served.address}", headers=headers) as session:
            status, refusal = await get(session, "/v1/taskmanagers/worker-0/log")
            assert status == 504
            assert "worker-0 has not answered for 50 ms" in refusal["errors"][0]


async def test_a_worker_that_is_lost_meanwhile_is_not_found() -> None:
    async with serve_control_plane(CONFIG) as served:
        headers = authorization_headers(served.token)
        async with aiohttp.ClientSession(f"http://{served.address}", headers=headers) as session:
            async with served.worker("worker-0") as link:
                asking = asyncio.create_task(get(session, "/v1/taskmanagers/worker-0/log"))
                await link.receive()
            status, refusal = await asking
            assert (status, refusal["errors"]) == (
                404,
                ["worker worker-0 was lost before it answered"],
            )
