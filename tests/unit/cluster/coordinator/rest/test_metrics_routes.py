"""The coordinator's page for Prometheus: its metrics, and the addresses of all processes."""

from __future__ import annotations

from dataclasses import replace

import aiohttp
import pytest

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.messages import Register
from flinknet.compiled_modules import IMPLEMENTATION
from tests.unit.cluster.control_plane import (
    CONFIG,
    ServedCoordinator,
    get,
    serve_control_plane,
)


async def test_the_coordinator_serves_its_own_metrics(
    served: ServedCoordinator, member: aiohttp.ClientSession
) -> None:
    async with served.worker("worker-0"), member.get("/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        text = await response.text()
    assert 'flink_jobmanager_numRegisteredTaskManagers{host="127.0.0.1"} 1.0' in text
    assert "process_cpu_seconds_total" in text
    assert f'flinknet_build_info{{host="127.0.0.1",implementation="{IMPLEMENTATION}",' in text


async def test_targets_are_all_that_serve_metrics(
    served: ServedCoordinator, member: aiohttp.ClientSession
) -> None:
    async with served.link() as serving, served.link() as silent:
        await serving.register(Register("worker-0", 1, "127.0.0.1:1", 2, "127.0.0.1:7009"))
        await silent.register(Register("worker-1", 2, "127.0.0.1:2", 2))
        assert await get(member, "/metrics/targets") == (
            200,
            [
                {"targets": [served.address], "labels": {"process": "coordinator"}},
                {"targets": ["127.0.0.1:7009"], "labels": {"process": "worker-0"}},
            ],
        )


@pytest.mark.parametrize("path", ["/metrics", "/metrics/targets"])
async def test_both_take_the_token(anybody: aiohttp.ClientSession, path: str) -> None:
    assert (await get(anybody, path))[0] == 401


@pytest.mark.parametrize("path", ["/metrics", "/metrics/targets"])
async def test_no_metrics_are_served_if_they_are_off(path: str) -> None:
    async with serve_control_plane(replace(CONFIG, metrics=False)) as served:
        headers = authorization_headers(served.token)
        async with aiohttp.ClientSession(f"http://{served.address}", headers=headers) as member:
            assert (await get(member, path))[0] == 404
