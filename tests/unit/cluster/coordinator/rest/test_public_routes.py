"""The routes open to everyone: whether the coordinator lives, and whether it is ready."""

from __future__ import annotations

import aiohttp

from flinknet.cluster.control.submission import Submission
from tests.unit.cluster.control_plane import ServedCoordinator, get
from tests.unit.cluster.graphs import keyed_graph


async def test_it_is_ready_once_the_expected_workers_have_registered(
    served: ServedCoordinator, anybody: aiohttp.ClientSession
) -> None:
    async with anybody.get("/livez") as response:
        assert (response.status, await response.text()) == (200, "ok\n")
    assert await get(anybody, "/readyz") == (503, {"workers": 0, "expected": 2})
    async with served.worker("worker-0"), served.worker("worker-1"):
        assert await get(anybody, "/readyz") == (200, {"workers": 2, "expected": 2})
        assert served.coordinator.ready.is_set()


async def test_public_routes_reveal_no_jobs_or_addresses(
    served: ServedCoordinator, anybody: aiohttp.ClientSession
) -> None:
    async with served.worker("worker-0"):
        client = served.client()
        job_id = await client.submit(Submission.of_graph(keyed_graph()))
        opened = ("/livez", "/readyz", "/%6civez", "/", "/page/main.js")
        for path in (*opened, "/page", "/page/", "/api/v1/jobs", "/api/v1/workers", "/api/v1/page"):
            async with anybody.get(path) as response:
                said = f"{response.headers} {await response.text()}"
                assert (response.status == 401) == (path not in opened)
            for secret in (job_id, "worker-0", "127.0.0.1:1", served.token):
                assert secret not in said
