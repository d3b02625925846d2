"""A cluster over three hosts, with TLS and with the secret alone, on a bad network.

Spark verifies the flights job while the network delays, loses and is cut. Peers without access are
refused.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
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
from flinknet.net.address import split_address
from tests.certificates import Authority
from tests.integration.lan import Lan, needs_namespaces
from tests.spark_sessions import own_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [needs_namespaces, pytest.mark.timeout(300), pytest.mark.xdist_group("hosts")]

TEST, COORDINATOR, WORKERS, FIRST_STRANGER = 0, 1, (2, 3), 4
PORT = 7400
RECORDS = 40_000
RATE = 8_000.0
"""Records per second, so that a run takes five seconds."""
LOOK_S = 0.05
PATIENCE_S = 60.0
OUTAGE_S = 60.0
QUICK = NetworkConfig(rendezvous_timeout_ms=2_000.0, network_memory_bytes=1 << 20)


@dataclass(frozen=True)
class Prepared:
    """The flights, and Spark's result."""

    spark: SparkSession
    workload: Workload
    expected: DataFrame

    def check(self, results: Path) -> None:
        """Compare the output of a run with Spark's result."""
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
    """A coordinator and two workers, each on its own host; the test is a client on a fourth."""

    def __init__(
        self, lan: Lan, place: Path, authority: Authority, *, tls: bool, **cluster: str
    ) -> None:
        self.lan = lan
        self.token = new_token()
        self.authority = authority
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
        """Start the workers first, which wait for the coordinator, and then the coordinator."""
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
        }
        if self._is_secure:
            certificate, key, ca = map(str, self.authority.files(name))
            environment |= {
                "FLINKNET_CLUSTER_TLS_CERTIFICATE": certificate,
                "FLINKNET_CLUSTER_TLS_PRIVATE_KEY": key,
                "FLINKNET_CLUSTER_TLS_AUTHORITY": ca,
            }
        self.run(name, host, "-m", f"flinknet.cluster.{module}", *arguments, **environment)

    def run(self, name: str, host: int, *arguments: str, **environment: str) -> None:
        """Start a Python process on a host."""
        environment["PYTHONPATH"] = str(Path(__file__).parents[2])
        with self._log(name).open("w") as output:
            self._processes[name] = self.lan.start(
                host, *arguments, environment=environment, output=output
            )

    def ended(self, name: str) -> int:
        """Wait for the end of a process, and return its status."""
        return self._processes[name].wait(PATIENCE_S)

    def _log(self, name: str) -> Path:
        return self._place / f"{name}.log"

    def said(self, name: str) -> str:
        """Return the output of a process."""
        return self._log(name).read_text()

    def stop(self) -> None:
        """Stop the coordinator, and the workers with it; check that no output contains a secret."""
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
        self.check_secrets()

    def check_secrets(self) -> None:
        """Check that no process has printed a secret of the cluster."""
        secret = data_plane_secret(self.token)
        secrets = {self.token, secret.hex(), b64encode(secret).decode(), repr(secret)[2:-1]}
        for key in self.authority.directory.glob("*.key"):
            secrets.update(key.read_text().splitlines()[1:-1])
        for name in self._processes:
            said = self.said(name)
            assert not any(one in said for one in secrets), name

    def tls_of(self, name: str) -> TlsConfig:
        """Return the TLS configuration of a process."""
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
    place: Path,
    authority: Authority | None = None,
    *,
    tls: bool,
    strangers: int = 0,
    **cluster: str,
) -> AsyncIterator[tuple[Hosts, CoordinatorClient]]:
    """Yield a cluster with registered workers and its client, on hosts with some for strangers."""
    async with AsyncExitStack() as stack:
        lan = stack.enter_context(Lan(FIRST_STRANGER + strangers))
        given = authority or Authority(place / "authority")
        hosts = Hosts(lan, place, given, tls=tls, **cluster)
        stack.callback(hosts.stop)
        hosts.start()
        client = hosts.client()
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
    """Run the flights job, let Spark verify it, and return its last progress."""
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
    """Reliability 7: 50 ms of delay each way and 1 % of loss; then a cable pulled for a second."""
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


async def test_the_job_continues_without_a_worker_that_is_cut_off_for_a_minute(
    prepared: Prepared, tmp_path: Path
) -> None:
    """The job continues elsewhere from a checkpoint, and the worker returns as a fresh one."""
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


# -- refused peers ---------------------------------------------------------------------------------


async def refused_by(client: CoordinatorClient, worker: str) -> dict[str, int]:
    """Return the number of sockets that a worker has refused, by reason."""
    statistics = await client.statistics(worker, fresh=True)
    return {one.reason: one.sockets for one in statistics.peers.refused}


STRANGER = """
import asyncio, json, logging, os
from flinknet import NetworkEnvironment, PartitionLocation
from flinknet.config import NetworkConfig
from flinknet.errors import FlinknetError
from flinknet.net.tls import TlsFiles

async def read(location, files, secret, **identity):
    tls = TlsFiles(*files) if files else None
    config = NetworkConfig(rendezvous_timeout_ms=2_000.0, network_memory_bytes=1 << 20)
    secret = bytes.fromhex(secret)
    async with NetworkEnvironment(secret=secret, tls=tls, config=config, **identity) as environment:
        gate = environment.create_input_gate([PartitionLocation(*location)])
        async for _ in environment.create_record_reader(gate):
            pass

logging.basicConfig()
try:
    asyncio.run(read(**json.loads(os.environ["STRANGER"])))
except FlinknetError as error:
    print(type(error).__name__, error)
"""


@dataclass(frozen=True)
class Refused:
    """A stranger on a host of its own, and the expected reports of both sides."""

    name: str
    files: Sequence[Path]
    its_own: str
    """A text in the stranger's log."""
    reason: str
    """The reason under which the worker counts it."""
    at_worker: str
    """A text in the worker's log, on a line with the stranger's address; empty for no line."""
    has_secret: bool = True


async def test_strangers_are_refused_and_both_sides_are_told(tmp_path: Path) -> None:
    """Each stranger is counted, and each side that can know the reason logs one line about it.

    A stranger learns no more than that, and no log contains a secret.
    """
    other = Authority(tmp_path / "other")
    other.issue("worker-7")
    ours = Authority(tmp_path / "authority")
    ours.issue_expired("worker-8")
    ours.issue("worker-9")
    known, unknown = ours.files("worker-9"), other.files("worker-7")
    not_ours = "it does not accept this side's certificate: see its log"
    cases = {
        "wrong authority": Refused(
            "worker-7",
            (*unknown[:2], known[2]),
            not_ours,
            "tls",
            "its certificate is not accepted: unable to get local issuer certificate",
        ),
        "expired": Refused(
            "worker-8",
            ours.files("worker-8"),
            not_ours,
            "tls",
            "its certificate is not accepted: certificate has expired",
        ),
        "wrong name": Refused(
            "worker-1",
            known,
            "its certificate is for 'worker-9', but its id is 'worker-1'",
            "identity",
            "its certificate is for 'worker-9', but its id is 'worker-1'",
        ),
        # The worker proves itself first, so the stranger closes, and the worker cannot know why.
        "wrong secret": Refused(
            "worker-9",
            known,
            "does not prove that it knows the secret of this side",
            "left",
            "",
            has_secret=False,
        ),
        "no TLS": Refused("worker-9", (), "it may require TLS", "tls", "it does not speak TLS 1.3"),
        # the stranger closes here, too
        "does not know the authority": Refused(
            "worker-9",
            (*known[:2], unknown[2]),
            "its certificate is not accepted: self-signed certificate in certificate chain",
            "left",
            "",
        ),
    }
    async with hosts_on(tmp_path, ours, tls=True, strangers=len(cases)) as (hosts, client):
        address = await address_of(client, "worker-0")
        assert split_address(address)[0] == hosts.lan.address(WORKERS[0])
        before = await refused_by(client, "worker-0")
        secret = data_plane_secret(hosts.token)
        for host, (what, case) in enumerate(cases.items(), FIRST_STRANGER):
            given = {
                "host": hosts.lan.address(host),
                "worker_id": case.name,
                "job": cluster_id(hosts.token),
                "files": [str(file) for file in case.files],
                "secret": (secret if case.has_secret else b"wrong").hex(),
                "location": [address, "p", 0],
            }
            hosts.run(what, host, "-c", STRANGER, STRANGER=json.dumps(given))
        for what in cases:
            assert await asyncio.to_thread(hosts.ended, what) == 0, hosts.said(what)
        after = await refused_by(client, "worker-0")
        for host, (what, case) in enumerate(cases.items(), FIRST_STRANGER):
            assert case.its_own in hosts.said(what), what
            assert after[case.reason] > before.get(case.reason, 0), (what, before, after)
            from_there = f" {hosts.lan.address(host)}"
            lines = [line for line in hosts.said("worker-0").splitlines() if from_there in line]
            if case.at_worker:
                (line,) = lines
                assert f"refused ({case.reason}): " in line, what
                assert case.at_worker in line, what
            else:
                assert lines == [], what
        await say_plainly(*split_address(hosts.coordinator))
        told = f"refused (tls): {hosts.lan.address(TEST)}: it does not speak TLS 1.3"
        while told not in hosts.said("coordinator"):  # it closes the socket first
            await asyncio.sleep(LOOK_S)


async def say_plainly(host: str, port: int) -> None:
    """Send an HTTP request to a TLS port."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET / HTTP/1.1\r\nHost: there\r\n\r\n")
    with suppress(ConnectionError):
        assert b"HTTP" not in await reader.read()
    writer.close()


async def test_a_replayed_handshake_proves_nothing(tmp_path: Path) -> None:
    """The replay repeats a worker's messages to another worker byte for byte, without TLS."""
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
        told = f"refused (refused): {hosts.lan.address(TEST)}:"
        (line,) = [line for line in hosts.said("worker-0").splitlines() if told in line]
        assert "does not prove that it knows the secret of this side" in line
