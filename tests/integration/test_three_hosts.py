"""A cluster over three hosts: the flights job over TLS, and over the secret alone, verified by
Spark, on a network that delays, loses and is cut; and peers that are not let in."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flinknet import NetworkEnvironment, PartitionLocation
from flinknet.cluster import JobProgress
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.credentials import (
    TOKEN_VARIABLE,
    cluster_id,
    data_plane_secret,
    new_token,
)
from flinknet.cluster.control.submission import Submission
from flinknet.config import ClusterConfig, NetworkConfig, TlsConfig
from flinknet.demo.flight_totals import AGGREGATES
from flinknet.demo.flights_job import FlightsJob
from flinknet.demo.verification import expected_aggregates, verify
from flinknet.demo.workload import Workload, WorkloadParameters, prepare_workload
from flinknet.errors import FlinknetError
from flinknet.net.address import split_address
from flinknet.net.tls import Tls, TlsFiles
from tests.certificates import Authority
from tests.integration.lan import Lan, needs_namespaces
from tests.spark_sessions import own_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [needs_namespaces, pytest.mark.timeout(300), pytest.mark.xdist_group("hosts")]

TEST, COORDINATOR, WORKERS = 0, 1, (2, 3)
PORT = 7400
RECORDS = 40_000
RATE = 8_000.0
"""So that a run lasts for five seconds."""
LOOK_S = 0.05
PATIENCE_S = 60.0
OUTAGE_S = 60.0
QUICK = NetworkConfig(rendezvous_timeout_ms=2_000.0, network_memory_bytes=1 << 20)


@dataclass(frozen=True)
class Prepared:
    """The flights, and Spark's answer."""

    spark: SparkSession
    workload: Workload
    expected: DataFrame

    def check(self, results: Path) -> None:
        """Compare what a run has written with that answer."""
        verification = verify(self.spark, self.expected, results / AGGREGATES)
        assert verification.passed, verification.differences[:5]
        assert verification.records == RECORDS


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    place = tmp_path_factory.mktemp("flights")
    with own_session(place / "spark.log") as spark:
        wanted = WorkloadParameters(scale=1, sources=2, limit=RECORDS)
        workload = prepare_workload(spark, place, wanted)
        yield Prepared(spark, workload, expected_aggregates(spark, workload))


class Hosts:
    """A coordinator and two workers, each on a host of its own, and a client on a fourth."""

    def __init__(self, lan: Lan, place: Path, *, tls: bool, **cluster: str) -> None:
        self.lan = lan
        self.token = new_token()
        self.authority = Authority(place / "authority")
        self._place = place
        self._is_secure = tls
        self._settings = {
            "FLINKNET_CLUSTER_WORKERS": "2",
            "FLINKNET_CLUSTER_SLOTS_PER_WORKER": "2",
            "FLINKNET_CLUSTER_COORDINATOR_PORT": str(PORT),
            **{f"FLINKNET_CLUSTER_{name.upper()}": value for name, value in cluster.items()},
        }
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.coordinator = f"{lan.address(COORDINATOR)}:{PORT}"
        self.authority.issue("coordinator", lan.address(COORDINATOR))
        self.authority.issue("client")
        for number in range(len(WORKERS)):
            self.authority.issue(f"worker-{number}")

    def start(self) -> None:
        """Start the workers first: they wait for their coordinator."""
        for number, host in enumerate(WORKERS):
            arguments = ("--coordinator", self.coordinator, "--worker-id", f"worker-{number}")
            self._start("worker", f"worker-{number}", host, "0.0.0.0", *arguments)
        address = self.lan.address(COORDINATOR)
        self._start("coordinator", "coordinator", COORDINATOR, address)

    def _start(self, module: str, name: str, host: int, bound: str, *arguments: str) -> None:
        environment = {
            **self._settings,
            "FLINKNET_CLUSTER_HOST": bound,
            TOKEN_VARIABLE: self.token,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        if self._is_secure:
            certificate, key, ca = map(str, self.authority.files(name))
            environment |= {
                "FLINKNET_CLUSTER_TLS_CERTIFICATE": certificate,
                "FLINKNET_CLUSTER_TLS_PRIVATE_KEY": key,
                "FLINKNET_CLUSTER_TLS_AUTHORITY": ca,
            }
        with self._log(name).open("w") as output:
            self._processes[name] = self.lan.start(
                host,
                "-m",
                f"flinknet.cluster.{module}",
                *arguments,
                environment=environment,
                output=output,
            )

    def _log(self, name: str) -> Path:
        return self._place / f"{name}.log"

    def said(self, name: str) -> str:
        """Return what a process has written."""
        return self._log(name).read_text()

    def stop(self) -> None:
        """Stop the coordinator, with which the workers end; no secret may be in what they said."""
        self.lan.set()
        self._processes["coordinator"].terminate()
        ended = {}
        for name, process in self._processes.items():
            try:
                ended[name] = process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                ended[name] = process.wait()
        said = {name: self.said(name) for name in ended}
        assert set(ended.values()) == {0}, (ended, said)
        assert not any(self.token in line for line in said.values())

    def tls_of(self, name: str) -> TlsConfig:
        """Return the configuration of a process."""
        if not self._is_secure:
            return TlsConfig()
        certificate, key, ca = map(str, self.authority.files(name))
        return TlsConfig(certificate, key, ca)

    def client(self) -> CoordinatorClient:
        """Return a client of the coordinator."""
        config = ClusterConfig(tls=self.tls_of("client"))
        return CoordinatorClient(self.coordinator, self.token, config, is_there=True)


@asynccontextmanager
async def hosts_on(
    place: Path, *, tls: bool, **cluster: str
) -> AsyncIterator[tuple[Hosts, CoordinatorClient]]:
    """Have a cluster whose workers have registered."""
    async with AsyncExitStack() as stack:
        lan = stack.enter_context(Lan(4))
        hosts = Hosts(lan, place, tls=tls, **cluster)
        stack.callback(hosts.stop)
        hosts.start()
        client = await stack.enter_async_context(hosts.client())
        await until_registered(client, 2)
        yield hosts, client


async def until_registered(client: CoordinatorClient, count: int) -> None:
    while [worker["loss"] for worker in await workers_of(client)].count(None) != count:
        await asyncio.sleep(LOOK_S)


async def address_of(client: CoordinatorClient, worker_id: str) -> str:
    [found] = [one for one in await workers_of(client) if one["worker_id"] == worker_id]
    return str(found["address"])


async def workers_of(client: CoordinatorClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.read("/api/v1/workers"))["workers"]
    return found


async def run(
    client: CoordinatorClient,
    prepared: Prepared,
    results: Path,
    *,
    rate: float | None = None,
    disturb: Callable[[JobProgress], None] = lambda progress: None,
) -> JobProgress:
    """Run the flights job, have Spark verify it, and return how it stood at its end."""
    job = FlightsJob(prepared.workload.source_files(), 2, results, rate, 200.0)
    job_id = await client.submit(Submission.of_graph(job.graph()))
    last: list[JobProgress] = []

    def see(progress: JobProgress) -> None:
        last[:] = [progress]
        disturb(progress)

    await client.follow(job_id, interval_ms=50, on_progress=see)
    prepared.check(results)
    return last[0]


def read_by_keyed(progress: JobProgress) -> int:
    return int(progress.vertices[1].records_in)


@pytest.mark.parametrize("tls", [True, False], ids=["TLS", "secret"])
async def test_a_slow_lossy_network_changes_no_result(
    tls: bool, prepared: Prepared, tmp_path: Path
) -> None:
    """Reliability 7: 50 ms of delay each way and 1 % of loss; and a cable pulled for a second."""
    async with hosts_on(tmp_path, tls=tls) as (hosts, client):
        hosts.lan.set(delay_ms=50.0, loss=0.01)
        await run(client, prepared, tmp_path / "slow")
        hosts.lan.set()
        loop = asyncio.get_running_loop()
        is_pulled = False

        def pull(progress: JobProgress) -> None:
            nonlocal is_pulled
            if not is_pulled and read_by_keyed(progress) > RECORDS // 4:
                is_pulled = True
                hosts.lan.set(pulled=(WORKERS[1],))
                loop.call_later(1.0, hosts.lan.set)

        ended = await run(client, prepared, tmp_path / "pulled", rate=RATE, disturb=pull)
        assert is_pulled
        assert ended.attempt == 0, "a second is no failure"


async def test_a_worker_that_is_cut_off_for_a_minute_is_done_without(
    prepared: Prepared, tmp_path: Path
) -> None:
    """Its job goes on elsewhere from a checkpoint, and it comes back as a fresh worker."""
    async with hosts_on(tmp_path, tls=True, heartbeat_timeout_ms="10s") as (hosts, client):
        loop = asyncio.get_running_loop()
        plugged = asyncio.Event()

        def plug() -> None:
            hosts.lan.set()
            plugged.set()

        is_pulled = False

        def pull(progress: JobProgress) -> None:
            nonlocal is_pulled
            if not is_pulled and read_by_keyed(progress) > RECORDS // 4:
                is_pulled = True
                hosts.lan.set(pulled=(WORKERS[1],))
                loop.call_later(OUTAGE_S, plug)

        ended = await run(client, prepared, tmp_path / "cut", rate=RATE, disturb=pull)
        assert is_pulled
        assert ended.attempt == 1
        await plugged.wait()
        await until_registered(client, 2)
        await run(client, prepared, tmp_path / "again")


# -- peers that are not let in ---------------------------------------------------------------------


async def refused_by(client: CoordinatorClient, worker: str) -> dict[str, int]:
    """Return how many sockets a worker has refused, by the reason."""
    statistics = await client.statistics(worker, fresh=True)
    return {one.reason: one.sockets for one in statistics.peers.refused}


async def error_of(hosts: Hosts, address: str, secret: bytes, tls: Tls | None, name: str) -> str:
    """Return why a stranger cannot read from a worker."""
    stranger = NetworkEnvironment(
        host=hosts.lan.address(TEST),
        worker_id=name,
        job=cluster_id(hosts.token),
        secret=secret,
        tls=tls,
        config=QUICK,
    )
    async with stranger as environment:
        gate = environment.create_input_gate([PartitionLocation(address, "p", 0)])
        with pytest.raises(FlinknetError) as refused:
            async for _ in environment.create_record_reader(gate):
                pass
        return str(refused.value)


async def test_strangers_are_refused_and_both_sides_are_told(tmp_path: Path) -> None:
    """Wrong authority, wrong name, expired, wrong secret, and no TLS at all: each is counted. The
    stranger learns no more than that."""
    async with hosts_on(tmp_path, tls=True) as (hosts, client):
        address = await address_of(client, "worker-0")
        assert split_address(address)[0] == hosts.lan.address(WORKERS[0])
        other = Authority(tmp_path / "other")
        other.issue("worker-7")
        hosts.authority.issue_expired("worker-8")
        hosts.authority.issue("worker-9")
        secret = data_plane_secret(hosts.token)
        ca = hosts.authority.files("client")[2]
        known, unknown = hosts.authority.files("worker-9"), other.files("worker-7")
        cases: list[tuple[bytes, Tls | None, str, str, str, str]] = [
            (
                secret,
                TlsFiles(*unknown[:2], ca),
                "worker-7",
                "does not accept the certificate of this side",
                "tls",
                "its certificate is not accepted: ",
            ),
            (
                secret,
                TlsFiles(*hosts.authority.files("worker-8")),
                "worker-8",
                "does not accept the certificate of this side",
                "tls",
                "",
            ),
            (
                secret,
                TlsFiles(*known),
                "worker-1",
                "its certificate is that of 'worker-9', it says 'worker-1'",
                "identity",
                "its certificate is that of 'worker-9', it says 'worker-1'",
            ),
            (
                b"wrong",
                TlsFiles(*known),
                "worker-9",
                "does not prove that it knows the secret",
                "",
                "",
            ),
            (secret, None, "worker-9", "it may want TLS", "tls", ""),
            (
                secret,
                TlsFiles(*known[:2], unknown[2]),
                "worker-9",
                "its certificate is not accepted: ",
                "",
                "",
            ),
        ]
        for given, tls, name, told, reason, logged in cases:
            before = await refused_by(client, "worker-0")
            error = await error_of(hosts, address, given, tls, name)
            assert told in error
            assert hosts.token not in error
            after = await refused_by(client, "worker-0")
            if reason:
                assert after[reason] > before.get(reason, 0), (name, before, after)
            assert logged in hosts.said("worker-0")


async def test_a_replayed_handshake_proves_nothing(tmp_path: Path) -> None:
    """What a worker has said to another one, word for word, over the secret alone."""
    async with hosts_on(tmp_path, tls=False) as (hosts, client):
        address = await address_of(client, "worker-0")
        heard: list[bytes] = []

        async def listen_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            to_worker, from_worker = None, None
            other_reader, other = await asyncio.open_connection(*split_address(address))

            async def carry(
                source: asyncio.StreamReader, target: asyncio.StreamWriter, kept: list[bytes]
            ) -> None:
                while data := await source.read(65_536):
                    kept.append(data)
                    target.write(data)
                target.close()

            to_worker = asyncio.create_task(carry(reader, other, heard))
            from_worker = asyncio.create_task(carry(other_reader, writer, []))
            await asyncio.wait([to_worker, from_worker])

        async with await asyncio.start_server(listen_in, "127.0.0.1", 0) as relay:
            port = relay.sockets[0].getsockname()[1]
            honest = NetworkEnvironment(
                worker_id="worker-1",
                job=cluster_id(hosts.token),
                secret=data_plane_secret(hosts.token),
                config=replace(QUICK, checksums="off"),
            )
            async with honest as environment:
                location = PartitionLocation(f"127.0.0.1:{port}", "p", 0)
                gate = environment.create_input_gate([location])
                while len(heard) < 2:
                    await asyncio.sleep(LOOK_S)
                gate.release()
        assert len(heard) >= 2, "an opening and a hello"
        before = await refused_by(client, "worker-0")
        reader, writer = await asyncio.open_connection(*split_address(address))
        for said in heard[:2]:
            writer.write(said)
            await reader.read(4096)
        assert await reader.read() == b""
        writer.close()
        after = await refused_by(client, "worker-0")
        assert after["refused"] == before.get("refused", 0) + 1
