"""The contract of launchers, with real processes on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

import flinknet.spark
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.credentials import TOKEN_VARIABLE, new_token
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.launch.cluster import Cluster
from flinknet.cluster.launch.process_output import COORDINATOR
from flinknet.cluster.launch.protocol import Launcher
from flinknet.cluster.launch.registry import LAUNCHERS, launcher_named
from flinknet.config import ClusterConfig, FlinknetConfig, SparkConfig
from flinknet.datastream import (
    CollectSink,
    MapFunction,
    RestartStrategies,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flinknet.errors import JobError
from tests.contract.cluster_processes import kill_process, processes_of
from tests.spark_sessions import own_session

LOOK_S = 0.01
"""Interval at which tests poll the state of processes."""


class Launched:
    """A launcher, and the messages of its coordinator."""

    def __init__(self, name: str, **cluster: object) -> None:
        options = {"workers": 1, "stop_timeout_ms": 500.0, **cluster}
        self.config = FlinknetConfig(
            cluster=ClusterConfig(**options),  # type: ignore[arg-type]
            spark=SparkConfig(tasks_timeout_ms=100_000.0),
        )
        self.token = new_token()
        self.written: list[tuple[str, str]] = []
        self.printed: list[str] = []
        self.news: asyncio.Queue[str] = asyncio.Queue()
        self.address = ""
        self.launcher: Launcher = launcher_named(name)(
            self.config, self.token, lambda *written: self.written.append(written), self.hear
        )

    def hear(self, line: str) -> None:
        self.printed.append(line)

    async def start(self) -> list[str]:
        """Start the cluster and wait until it is ready; return the names of its workers."""
        await self.start_coordinator()
        names = await self.launcher.start_workers(self.config.cluster.workers, self.address)
        assert json.loads(await self.news.get()) == {"event": "ready"}
        return list(names)

    async def start_coordinator(self, port: int | None = None) -> None:
        await self.launcher.start_coordinator(self.news.put_nowait, port)
        while True:
            news = json.loads(await self.news.get())
            if news["event"] == "listening":
                break
        self.address = news["address"]

    def processes(self) -> dict[int, str]:
        return processes_of(self.token)

    def kill_worker(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        kill_process(self.token, f"--worker-id={name}", number)

    def kill_coordinator(self) -> None:
        kill_process(self.token, "flinknet.cluster.coordinator")

    async def until_joined(self, worker: str) -> None:
        """Wait until the coordinator has registered a worker of that name."""
        client = CoordinatorClient(self.address, self.token, self.config.cluster, is_there=True)
        while worker not in str(await client.read("/api/v1/workers")):
            await asyncio.sleep(LOOK_S)


SPARK = pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.xdist_group("spark launcher")])
MASTER = "local-cluster[2,1,1024]"


@pytest.fixture(params=[SPARK if name == "spark" else name for name in LAUNCHERS], scope="module")
def name(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a launcher's name; open a Spark session with two executors for Spark's launcher."""
    if request.param != "spark":
        yield request.param
        return
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with own_session(log, MASTER) as session:
        flinknet.spark.use(session)
        yield request.param
        flinknet.spark.use(None)


Launch = Callable[..., Launched]


@pytest.fixture
async def launch(name: str) -> AsyncIterator[Launch]:
    """Return a function that makes launchers, which are stopped after the test."""
    made: list[Launched] = []

    def make(**cluster: object) -> Launched:
        made.append(Launched(name, **cluster))
        return made[-1]

    yield make
    for launched in made:
        await launched.launcher.stop()
        assert launched.processes() == {}


async def test_a_cluster_starts_and_stop_leaves_no_process(launch: Launch) -> None:
    launched = launch(workers=2)
    launched.launcher.check()
    names = await launched.start()
    assert len({*names, COORDINATOR}) == 3
    for worker in names:
        await launched.until_joined(worker)
    assert launched.processes()


async def test_a_launcher_that_was_never_started_can_be_stopped(launch: Launch) -> None:
    assert launch().processes() == {}


async def test_the_end_of_a_worker_is_reported_once_with_its_cause(launch: Launch) -> None:
    launched = launch(workers=2)
    first, second = await launched.start()
    launched.kill_worker(first)
    end = await launched.launcher.next_exit()
    assert (end.name, end.status) == (first, None)
    assert end.how.startswith("killed by signal 9 (SIGKILL)")
    launched.kill_worker(second, signal.SIGTERM)
    end = await launched.launcher.next_exit()
    assert (end.name, end.status) == (second, ExitStatus.STOPPED)
    assert end.how == "exited with status 0"


async def test_a_worker_that_cannot_work_says_why(launch: Launch) -> None:
    """The start of a worker that cannot work does not raise; its end carries the reason."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        launched = launch(data_port=port)
        await launched.start_coordinator()
        (worker,) = await launched.launcher.start_workers(1, launched.address)
        end = await launched.launcher.next_exit()
    assert (end.name, end.status) == (worker, ExitStatus.REFUSED)
    assert str(port) in end.last_line
    assert (worker, end.last_line) in launched.written


async def test_a_coordinator_that_cannot_work_says_why(launch: Launch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        launched = launch(coordinator_port=port)
        await launched.launcher.start_coordinator(launched.news.put_nowait)
        end = await launched.launcher.next_exit()
    assert (end.name, end.status) == (COORDINATOR, ExitStatus.REFUSED)
    assert str(port) in end.last_line
    # A message to a coordinator that has ended is no error.
    launched.launcher.tell_coordinator({"event": "nothing is there to hear it"})


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_worker_is_replaced_under_another_name(launch: Launch, is_stopped: bool) -> None:
    """A worker that has ended, or is stopped and then killed, is replaced under another name."""
    launched = launch(cause_grace_ms=1.0)
    (lost,) = await launched.start()
    launched.kill_worker(lost, signal.SIGSTOP if is_stopped else signal.SIGKILL)
    second = await launched.launcher.replace_worker(lost, launched.address)
    assert (await launched.launcher.next_exit()).name == lost
    await launched.until_joined(second)
    launched.kill_worker(second)
    assert (await launched.launcher.next_exit()).name == second
    third = await launched.launcher.replace_worker(second, launched.address)
    await launched.until_joined(third)
    assert len({lost, second, third}) == 3


async def test_a_coordinator_is_replaced_at_its_port_and_workers_join_it(launch: Launch) -> None:
    launched = launch()
    (worker,) = await launched.start()
    before = launched.address
    launched.kill_coordinator()
    end = await launched.launcher.next_exit()
    assert (end.name, end.status) == (COORDINATOR, None)
    await launched.start_coordinator(int(before.rpartition(":")[2]))
    assert launched.address == before
    await launched.until_joined(worker)


async def test_ends_that_stop_causes_are_not_reported(launch: Launch) -> None:
    launched = launch()
    await launched.start()
    end = asyncio.ensure_future(launched.launcher.next_exit())
    await launched.launcher.stop()
    await asyncio.sleep(0)
    assert not end.done()
    end.cancel()


async def test_stop_ends_an_unresponsive_worker_and_kill_hurries_it(launch: Launch) -> None:
    for stop_timeout_ms in (1.0, 3_600_000.0):
        launched = launch(stop_timeout_ms=stop_timeout_ms)
        (worker,) = await launched.start()
        launched.kill_worker(worker, signal.SIGSTOP)
        stopping = asyncio.ensure_future(launched.launcher.stop())
        if stop_timeout_ms > 1.0:
            await asyncio.sleep(0)
            launched.launcher.kill()
        await stopping
        assert launched.processes() == {}


PROGRAM = """\
import asyncio, json, os, sys
from flinknet.cluster.launch.registry import launcher_named
from flinknet.config import ClusterConfig, FlinknetConfig, SparkConfig

async def main(name, token):
    spark = SparkConfig(master="local[1]", tasks_timeout_ms=100_000.0)
    config, news = FlinknetConfig(cluster=ClusterConfig(workers=1), spark=spark), asyncio.Queue()
    launcher = launcher_named(name)(config, token, print, print)
    await launcher.start_coordinator(news.put_nowait)
    await launcher.start_workers(1, json.loads(await news.get())["address"])
    await news.get()
    os.kill(os.getpid(), 9)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_no_process_outlives_its_launcher(name: str) -> None:
    token = new_token()
    environment = {key: text for key, text in os.environ.items() if key != TOKEN_VARIABLE}
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", PROGRAM, name, token],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    while processes_of(token):
        await asyncio.sleep(LOOK_S)


async def test_a_start_that_fails_names_the_process_and_the_cause(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = launch()
    monkeypatch.setattr(sys, "executable", "/there/is/no/python")
    with pytest.raises(JobError, match=f"{COORDINATOR} .*no/python.*No such file"):
        await launched.launcher.start_coordinator(launched.news.put_nowait)


class KillOnce(MapFunction):
    """A map function that prints its attempt, and kills its worker in the first attempt."""

    def open(self, runtime_context: RuntimeContext) -> None:
        print(f"attempt {runtime_context.attempt}")
        if runtime_context.attempt == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def map(self, value: int) -> int:
        return value


async def test_a_job_goes_on_when_its_worker_is_lost(name: str) -> None:
    """The cluster restarts the job through the launcher's protocol alone."""
    environment = StreamExecutionEnvironment()
    environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0.0))
    numbers = environment.from_collection(range(10)).map(KillOnce())
    numbers.sink_to(CollectSink()).name("all")
    printed: list[str] = []
    config = FlinknetConfig(cluster=ClusterConfig(workers=1, start_timeout_ms=100_000.0))
    async with Cluster(config, launcher_named(name), on_printed=printed.append) as cluster:
        result = await cluster.execute(environment.job_graph("restarted"))
        token = cluster.token
    assert sorted(result.collected["all"]) == list(range(10))
    assert "attempt 1" in printed
    assert processes_of(token) == {}
