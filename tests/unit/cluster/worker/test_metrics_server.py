"""A worker's /metrics: the worker's own text, for clients with the token."""

from __future__ import annotations

import socket
from dataclasses import replace

import aiohttp
import pytest

from flinknet.cluster.control.credentials import authorization_headers, new_token
from flinknet.cluster.worker.metrics_server import serve_metrics
from flinknet.cluster.worker.worker_metrics import WorkerMetrics
from flinknet.compiled_modules import IMPLEMENTATION
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError
from flinknet.net.network_environment import NetworkEnvironment

CONFIG = ClusterConfig()
LABELS = {"host": "127.0.0.1", "tm_id": "worker-0"}


async def test_it_serves_the_metrics_for_the_token() -> None:
    token = new_token()
    async with NetworkEnvironment() as environment:
        metrics = WorkerMetrics(environment, lambda: ())
        async with (
            serve_metrics(metrics, LABELS, 0, CONFIG, token) as address,
            aiohttp.ClientSession(headers=authorization_headers(token)) as session,
            session.get(f"http://{address}/metrics") as response,
        ):
            text = await response.text()
            assert response.status == 200
            assert response.headers["Content-Type"].startswith("text/plain; version=")
    segments = 'flink_taskmanager_Status_Shuffle_Netty_TotalMemorySegments{host="127.0.0.1"'
    assert segments in text
    assert 'flinknet_event_loop_lag_seconds{host="127.0.0.1",tm_id="worker-0"}' in text
    threads = 'flink_taskmanager_Status_JVM_Threads_Count{host="127.0.0.1",tm_id="worker-0"}'
    assert threads in text
    assert f'flinknet_build_info{{host="127.0.0.1",implementation="{IMPLEMENTATION}",' in text


@pytest.mark.parametrize(("channels", "status"), [("50", 200), ("-1", 400), ("1" * 10, 400)])
async def test_a_number_of_channels_is_a_number(channels: str, status: int) -> None:
    token = new_token()
    async with NetworkEnvironment() as environment:
        metrics = WorkerMetrics(environment, lambda: ())
        async with (
            serve_metrics(metrics, LABELS, 0, CONFIG, token) as address,
            aiohttp.ClientSession(headers=authorization_headers(token)) as session,
            session.get(f"http://{address}/metrics?channels={channels}") as response,
        ):
            assert response.status == status


@pytest.mark.parametrize("headers", [{}, authorization_headers("not the cluster's token")])
async def test_no_metrics_are_served_without_the_token(headers: dict[str, str]) -> None:
    async with NetworkEnvironment() as environment:
        metrics = WorkerMetrics(environment, lambda: ())
        async with (
            serve_metrics(metrics, LABELS, 0, CONFIG, new_token()) as address,
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"http://{address}/metrics") as response,
        ):
            assert response.status == 401
            assert "flink_" not in await response.text()


async def test_the_server_can_be_off() -> None:
    off = replace(CONFIG, metrics=False)
    async with NetworkEnvironment() as environment:
        metrics = WorkerMetrics(environment, lambda: ())
        async with serve_metrics(metrics, LABELS, 0, off, new_token()) as address:
            assert address == ""


async def test_a_port_that_is_taken_names_the_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with NetworkEnvironment() as environment:
            metrics = WorkerMetrics(environment, lambda: ())
            with pytest.raises(ConfigurationError, match=r"another cluster\.metrics_port"):
                async with serve_metrics(metrics, LABELS, port, CONFIG, new_token()):
                    raise AssertionError("the port is taken")
