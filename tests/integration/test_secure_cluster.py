"""A cluster over TLS: each connection, each role, and refused peers."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from flinknet.cluster import LocalCluster
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.credentials import Role, authorization_headers, role_token
from flinknet.config import ClusterConfig, FlinknetConfig, TlsConfig
from flinknet.datastream import (
    CollectSink,
    GeneratorSource,
    RestartStrategies,
    StreamExecutionEnvironment,
)
from flinknet.errors import ConfigurationError, RemoteTransportError
from flinknet.graph.graph import JobGraph
from tests.certificates import Authority

NAME = "worker-*"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    authority = Authority(tmp_path / "authority")
    authority.issue(NAME, "127.0.0.1")
    return authority


def tls_of(authority: Authority, name: str = NAME, **options: str) -> TlsConfig:
    certificate, key, ca = map(str, authority.files(name))
    return TlsConfig(certificate, key, ca, **options)  # type: ignore[arg-type]


def config_of(tls: TlsConfig, **cluster: object) -> FlinknetConfig:
    return FlinknetConfig(cluster=ClusterConfig(tls=tls, **cluster))  # type: ignore[arg-type]


def sums(sleep_s: float = 0.0) -> JobGraph:
    """Return a job with sums of numbers by last digit, which pass between workers."""

    def record_of(number: int) -> tuple[int, int]:
        if sleep_s and number == 100:
            time.sleep(sleep_s)
        return number % 10, number

    environment = StreamExecutionEnvironment().set_parallelism(4)
    numbers = environment.from_source(GeneratorSource(record_of, 1000))
    totals = numbers.key_by(lambda record: record[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    totals.sink_to(CollectSink())
    return environment.job_graph("sums")


def https(authority: Authority, name: str | None = NAME) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.files(NAME)[2])
    if name is not None:
        context.load_cert_chain(*authority.files(name)[:2])
    return context


async def test_a_job_runs_over_tls_while_user_code_holds_a_worker_up(authority: Authority) -> None:
    """The thread that answers for a blocked worker uses TLS, and so does the data plane."""
    config = config_of(tls_of(authority), heartbeat_interval_ms=100.0, heartbeat_timeout_ms=1_000.0)
    async with LocalCluster(config) as cluster:
        result = await cluster.execute(sums(sleep_s=3.0))
        [records] = result.collected.values()
        assert dict(sorted(records)) == {digit: sum(range(digit, 1000, 10)) for digit in range(10)}
        client = CoordinatorClient(cluster.address, cluster.token, config.cluster)
        statistics = await client.statistics("worker-0", fresh=True)
        assert statistics.peers.established == 1
        async with aiohttp.ClientSession(headers=authorization_headers(cluster.token)) as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://{cluster.address}/v1/overview")
            for context in (https(authority, None), ssl.create_default_context()):
                with pytest.raises(aiohttp.ClientError):
                    await session.get(f"https://{cluster.address}/v1/overview", ssl=context)


async def test_a_worker_in_the_place_of_a_lost_one_is_let_in(
    authority: Authority, tmp_path: Path
) -> None:
    """The replacement of a lost worker is let in: its id, worker-0.1, matches "worker-*"."""
    killed = tmp_path / "killed"

    def kill_once(record: tuple[int, int]) -> tuple[int, int]:
        if record[1] == 500 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return record

    environment = StreamExecutionEnvironment().set_parallelism(4)
    environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0.0))
    numbers = environment.from_source(GeneratorSource(lambda n: (n % 10, n), 1000)).map(kill_once)
    totals = numbers.key_by(lambda record: record[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    totals.sink_to(CollectSink())
    async with LocalCluster(config_of(tls_of(authority))) as cluster:
        result = await cluster.execute(environment.job_graph("killed"))
        [records] = result.collected.values()
        assert dict(sorted(records)) == {d: sum(range(d, 1000, 10)) for d in range(10)}
        assert any("." in worker for worker in result.workers)


async def test_roles_may_do_their_work_and_no_more(authority: Authority) -> None:
    """Each role may use its own requests and no others.

    A browser needs no certificate here. The roles apply to the metrics of workers, too.
    """
    config = config_of(tls_of(authority, http_clients="token"))
    async with LocalCluster(config) as cluster, aiohttp.ClientSession() as session:
        assert cluster.page.startswith("https://")
        context = https(authority, None)
        url = f"https://{cluster.address}"

        async def status(role: Role | None, method: str, where: str) -> int:
            token = "" if role is None else role_token(cluster.token, role)
            headers = authorization_headers(token)
            async with session.request(method, where, headers=headers, ssl=context) as response:
                return response.status

        everyone = (None, *Role)
        for method, path, needed in (
            ("GET", "/v1/overview", Role.READ),
            ("GET", "/metrics", Role.READ),
            ("POST", f"/api/v1/jobs/{'0' * 32}/cancel", Role.OPERATE),
            ("PATCH", f"/v1/jobs/{'0' * 32}", Role.OPERATE),
            ("POST", f"/v1/jobs/{'0' * 32}/savepoints", Role.OPERATE),
            ("POST", "/api/v1/jobs", Role.SUBMIT),
            ("GET", f"/api/v1/jobs/{'0' * 32}/attempts/0/deployment/worker-0", Role.WORKER),
            ("PUT", "/api/v1/workers/worker-0/pulse", Role.WORKER),
        ):
            refused = [await status(role, method, url + path) in (401, 403) for role in everyone]
            assert refused == [role is None or role < needed for role in everyone], path
        assert await status(None, "GET", url + "/livez") == 200
        headers = authorization_headers(role_token(cluster.token, Role.READ))
        async with session.get(f"{url}/metrics/targets", headers=headers, ssl=context) as response:
            targets = [target["targets"][0] for target in await response.json()]
        assert len(targets) == 3
        for target in targets:
            metrics = f"https://{target}/metrics"
            assert await status(Role.READ, "GET", metrics) == 200
            assert await status(None, "GET", metrics) == 401

        reader = role_token(cluster.token, Role.READ)
        client = CoordinatorClient(cluster.address, reader, config.cluster)
        assert "jobs" in await client.read("/v1/jobs/overview")
        with pytest.raises(ConfigurationError, match="the token is for READ, but .*OPERATE"):
            await client.cancel("0" * 32)


async def test_a_client_is_told_why_a_coordinator_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    """A client with a refused certificate is told that this may be the cause."""
    other = Authority(tmp_path / "other")
    other.issue(NAME, "127.0.0.1")
    authority.issue("client")
    own_pin = {"pinned": "ab" * 32}
    async with LocalCluster(config_of(tls_of(authority), workers=1)) as cluster:
        for tls, error, message in (
            (tls_of(other), ConfigurationError, "was refused: its certificate is not accepted"),
            (tls_of(authority, **own_pin), ConfigurationError, "is not pinned"),
            (
                tls_of(authority, coordinator_name="elsewhere"),
                ConfigurationError,
                "elsewhere",
            ),
            (TlsConfig(), RemoteTransportError, "it may require TLS"),
        ):
            config = ClusterConfig(tls=tls)
            with pytest.raises(error, match=message):
                client = CoordinatorClient(cluster.address, cluster.token, config)
                await client.read("/v1/jobs/overview")
        good = ClusterConfig(tls=tls_of(authority, "client"))
        client = CoordinatorClient(cluster.address, cluster.token, good)
        await client.read("/v1/jobs/overview")


async def test_a_worker_needs_a_certificate_with_its_id(authority: Authority) -> None:
    """With a client's certificate a process may send requests, but may not be a worker."""
    authority.issue("client", "127.0.0.1")
    async with LocalCluster(config_of(tls_of(authority), workers=1)) as cluster:
        certificate, key, ca = authority.files("client")
        worker = await asyncio.create_subprocess_exec(
            "env",
            f"FLINKNET_CLUSTER_TOKEN={cluster.token}",
            f"FLINKNET_CLUSTER_TLS_CERTIFICATE={certificate}",
            f"FLINKNET_CLUSTER_TLS_PRIVATE_KEY={key}",
            f"FLINKNET_CLUSTER_TLS_AUTHORITY={ca}",
            *_worker(cluster.address, "worker-7"),
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await worker.communicate()
        assert worker.returncode == 2
        assert b"worker worker-7 shows a certificate of client" in said
        assert cluster.token.encode() not in said


def _worker(coordinator: str, worker_id: str) -> tuple[str, ...]:
    module = "flinknet.cluster.worker"
    options = ("--coordinator", coordinator, "--worker-id", worker_id)
    return (sys.executable, "-m", module, *options)
