"""The requests of Flink's clients about the cluster, over HTTP."""

from __future__ import annotations

import asyncio

import aiohttp

from flinknet.cluster.control.credentials import authorization_headers
from tests.unit.cluster.control_plane import ServedCoordinator, get
from tests.unit.cluster.running_cluster import CONFIG, running_cluster


async def test_flinks_clients_learn_what_the_cluster_is() -> None:
    async with running_cluster() as cluster:
        headers = authorization_headers(cluster.served.token)
        url = f"http://{cluster.served.address}"
        async with aiohttp.ClientSession(url, headers=headers) as session:
            _, config = await get(session, "/v1/config")
            assert config["flink-version"] == CONFIG.rest_flink_version
            _, overview = await get(session, "/v1/overview")
            assert (overview["taskmanagers"], overview["slots-total"]) == (2, 4)
            _, listed = await get(session, "/v1/taskmanagers")
            ids = [row["id"] for row in listed["taskmanagers"]]
            assert sorted(ids) == ["worker-0", "worker-1"]
            await cluster.served.coordinator.metrics.fetch(ids[0], channels_max=0, timeout_s=60.0)
            _, one = await get(session, f"/v1/taskmanagers/{ids[0]}")
            total = cluster.environments[0].statistics().network_pool.total
            assert one["metrics"]["memorySegmentsTotal"] == total
            _, options = await get(session, "/v1/jobmanager/config")
            assert {"key": "cluster.workers", "value": "2"} in options
            _, environment = await get(session, "/v1/jobmanager/environment")
            assert environment["jvm"]["version"]
            _, values = await get(session, "/v1/jobmanager/metrics?get=taskSlotsTotal")
            assert values == [{"id": "taskSlotsTotal", "value": "4"}]
            cluster.stops[0].set()
            await asyncio.wait(cluster.workers, return_when=asyncio.FIRST_COMPLETED)
            lost = next(iter(cluster.environments)).worker_id
            while not cluster.served.coordinator.dispatcher.workers.get(lost).is_lost:  # type: ignore[union-attr]
                await asyncio.sleep(0)
            assert (await get(session, f"/v1/taskmanagers/{lost}"))[0] == 404


async def test_an_unknown_worker_is_404_in_flinks_shape(
    served: ServedCoordinator, member: aiohttp.ClientSession
) -> None:
    assert served.coordinator.dispatcher.workers.workers() == ()
    assert await get(member, "/v1/taskmanagers/x") == (404, {"errors": ["no worker x"]})
