"""``LocalCluster`` and ``run_job`` inside a user's program, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from flinknet.cluster import JobProgress, LocalCluster, run_job
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.credentials import authorization_headers, cluster_id
from flinknet.cluster.control.job_state import JobState
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    CollectSink,
    GeneratorSource,
    MapFunction,
    RateLimitedSource,
    RestartStrategies,
    RuntimeContext,
    Source,
    StreamExecutionEnvironment,
)
from flinknet.errors import (
    InsufficientSlotsError,
    JobFailedError,
    LocalProtocolError,
    WorkerLostError,
)
from flinknet.graph.graph import JobGraph
from flinknet.wire.handshake_messages import Hello, Opening, Refusal, Verdict, WorkerIdentity

CONFIG = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
    cluster=ClusterConfig(progress_interval_ms=10.5),
)

ENDLESS_RATE = 2_000.0
"""Records per second of an endless source, which leave the processors to other tests."""


def sums(count: int | None, name: str = "sums", parallelism: int = 2) -> JobGraph:
    """Return a job that sums the numbers below ``count`` by last digit; None is an endless job."""
    environment = StreamExecutionEnvironment().set_parallelism(parallelism)
    source: Source = GeneratorSource(lambda number: (number % 10, number), count)
    if count is None:
        source = RateLimitedSource(source, ENDLESS_RATE)
    numbers = environment.from_source(source)
    totals = numbers.key_by(lambda record: record[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    totals.sink_to(CollectSink() if count else lambda record: None)
    return environment.job_graph(name)


def failing(how: str) -> JobGraph:
    environment = StreamExecutionEnvironment()

    def fail(record: int) -> int:
        if how == "raise":
            raise ValueError("on purpose")
        os.kill(os.getpid(), signal.SIGKILL)
        return record

    environment.from_collection([1]).rebalance().map(fail).set_parallelism(2).print()
    return environment.job_graph("failing")


class Output(list[tuple[str, str]]):
    """The output of the processes; the coordinator's first line says that it listens."""

    def __init__(self) -> None:
        super().__init__()
        self.has_come = asyncio.Event()

    def __call__(self, process: str, line: str) -> None:
        self.append((process, line))
        self.has_come.set()


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster(CONFIG, on_output=Output()) as cluster:
        yield cluster


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_jobs_run_one_after_the_other(cluster: LocalCluster) -> None:
    """A failed job between two others does no harm."""
    seen: list[JobProgress] = []
    first = await cluster.execute(sums(1000), on_progress=seen.append)
    with pytest.raises(JobFailedError, match="on purpose"):
        await cluster.execute(failing("raise"))
    second = await cluster.execute(sums(100))
    for result, count in ((first, 1000), (second, 100)):
        (collected,) = result.collected.values()
        assert len(collected) == count
        assert max(collected) == (9, sum(range(9, count, 10)))
        assert set(result.workers) == {"worker-0", "worker-1"}
    assert seen[-1].state == "FINISHED"
    assert seen[-1].vertices[-1].records_in == 1000
    assert set(cluster.pids()) == {"coordinator", "worker-0", "worker-1"}


async def test_consecutive_jobs_are_never_refused(cluster: LocalCluster) -> None:
    """Consecutive jobs that each take all slots of the cluster are never refused."""
    for count in range(100, 200):
        environment = StreamExecutionEnvironment().set_parallelism(4)
        numbers = environment.from_source(GeneratorSource(int, count)).rebalance()
        numbers.map(lambda number: number + 1).sink_to(CollectSink()).name("out")
        result = await cluster.execute(environment.job_graph("tiny"))
        assert sorted(result.collected["out"]) == list(range(1, count + 1))


async def test_cancelling_execute_cancels_the_job_and_keeps_the_cluster(
    cluster: LocalCluster,
) -> None:
    running = asyncio.Event()

    def on_progress(progress: JobProgress) -> None:
        if progress.vertices[-1].records_in:
            running.set()

    endless = asyncio.create_task(cluster.execute(sums(None, "endless"), on_progress))
    await running.wait()
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    headers = authorization_headers(cluster.token)
    async with aiohttp.ClientSession(f"http://{cluster.address}", headers=headers) as session:
        state = ""
        while state != "CANCELED":
            async with session.get("/api/v1/jobs") as response:
                (job,) = (await response.json())["jobs"]
            path = f"/api/v1/jobs/{job['job_id']}?wait_ms=10000"
            async with session.get(path) as response:
                state = (await response.json())["state"]
    assert (await cluster.execute(sums(10))).state == "FINISHED"


@pytest.mark.parametrize("how", ["in a job", "idle", "hung"])
async def test_a_lost_worker_is_replaced_and_the_next_job_waits_for_it(how: str) -> None:
    """A lost worker is replaced also if no job uses it, because the next job may need all slots."""
    quick = replace(
        CONFIG.cluster,
        heartbeat_interval_ms=50.0,
        heartbeat_timeout_ms=1000.0,
        stop_timeout_ms=500.0,
    )
    async with LocalCluster(replace(CONFIG, cluster=quick), on_output=Output()) as cluster:
        before = cluster.pids()
        if how == "in a job":
            with pytest.raises(WorkerLostError, match=r"killed by signal 9 \(SIGKILL\)"):
                await cluster.execute(failing("kill"))
        else:
            os.kill(before["worker-0"], signal.SIGKILL if how == "idle" else signal.SIGSTOP)
            while "worker-0" in cluster.pids():
                await asyncio.sleep(0.001)
        result = await cluster.execute(sums(10, parallelism=4))
        assert result.state == "FINISHED"
        assert len(result.workers) == 2
        assert len(cluster.pids()) == len(before)


async def test_a_job_is_restarted_and_the_lost_worker_replaced(cluster: LocalCluster) -> None:
    """The first attempt kills its worker; the second runs on a new worker beside the other one."""
    environment = StreamExecutionEnvironment()
    environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0.0))

    class KillOnce(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            if runtime_context.attempt == 0 and runtime_context.index == 1:
                os.kill(os.getpid(), signal.SIGKILL)

        def map(self, value: int) -> int:
            return value

    numbers = environment.from_collection(range(10)).rebalance()
    numbers.map(KillOnce()).set_parallelism(4).sink_to(CollectSink()).name("all")
    result = await cluster.execute(environment.job_graph("restarted"))
    assert sorted(result.collected["all"]) == list(range(10))
    assert len(result.workers) == 2
    assert sum(worker_id.endswith(".1") for worker_id in result.workers) == 1
    assert len(cluster.pids()) == 3


async def test_a_job_that_does_not_fit_leaves_the_cluster_as_it_was(cluster: LocalCluster) -> None:
    environment = StreamExecutionEnvironment().set_parallelism(5)
    environment.from_collection([1]).rebalance().map(lambda record: record).print()
    with pytest.raises(InsufficientSlotsError, match="needs 5 slots"):
        await cluster.execute(environment.job_graph("wide"))
    assert (await cluster.execute(sums(10))).state == "FINISHED"


async def test_every_process_has_ended_when_the_block_is_left() -> None:
    async with LocalCluster(CONFIG, on_output=Output()) as cluster:
        pids = cluster.pids()
        assert all(map(is_running, pids.values()))
    assert not any(map(is_running, pids.values()))
    with pytest.raises(LocalProtocolError, match="async with"):
        await cluster.execute(sums(10))


async def test_an_error_in_the_block_ends_every_process() -> None:
    cluster = LocalCluster(CONFIG, on_output=Output())
    with pytest.raises(ZeroDivisionError):
        async with cluster:
            raise ZeroDivisionError
    assert not any(map(is_running, cluster.pids().values()))


async def test_a_call_that_is_cancelled_returns_when_its_job_has_ended() -> None:
    """A cancelled call returns when its job has ended.

    A caller that continues from the last checkpoint can rely on it: no later one replaces it.
    """
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def watch(progress: JobProgress) -> None:
        if progress.state == JobState.RUNNING.value and not started.done():
            started.set_result(progress.job_id)

    environment = StreamExecutionEnvironment().set_parallelism(2)
    endless = RateLimitedSource(GeneratorSource(lambda number: number), ENDLESS_RATE)
    numbers = environment.from_source(endless)
    numbers.rebalance().sink_to(lambda record: None)
    async with LocalCluster(CONFIG, on_output=Output()) as cluster:
        job = asyncio.create_task(cluster.execute(environment.job_graph("endless"), watch))
        job_id = await started
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        client = CoordinatorClient(cluster.address, cluster.token, CONFIG.cluster)
        assert (await client.progress(job_id)).state == JobState.CANCELED.value


async def test_a_call_that_is_cancelled_while_it_submits_leaves_no_job() -> None:
    """A call that is cancelled at any moment of its submission leaves no job."""
    environment = StreamExecutionEnvironment().set_parallelism(2)
    endless = RateLimitedSource(GeneratorSource(lambda number: number), ENDLESS_RATE)
    numbers = environment.from_source(endless)
    numbers.rebalance().sink_to(lambda record: None)
    graph = environment.job_graph("endless")
    async with LocalCluster(CONFIG, on_output=Output()) as cluster:
        for turns in range(8):
            job = asyncio.create_task(cluster.execute(graph, job_id=f"{turns:032x}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
        client = CoordinatorClient(cluster.address, cluster.token, CONFIG.cluster)
        jobs = (await client.read("/api/v1/jobs"))["jobs"]
        assert len(jobs) >= 6
        assert {job["state"] for job in jobs} == {JobState.CANCELED.value}


async def test_two_cancellations_end_every_process() -> None:
    """The first cancellation asks the processes to stop, the second kills them."""
    cluster = LocalCluster(CONFIG, on_output=Output())
    entered = asyncio.Event()

    async def hold() -> None:
        async with cluster:
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await entered.wait()
    for pid in cluster.pids().values():
        os.kill(pid, signal.SIGSTOP)  # stopped processes do not react to SIGTERM
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(is_running, cluster.pids().values()))


async def test_cancelling_the_start_ends_every_process() -> None:
    output = Output()
    cluster = LocalCluster(CONFIG, on_output=output)
    task = asyncio.create_task(cluster.__aenter__())
    await output.has_come.wait()  # the coordinator listens, and no worker has registered
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(is_running, cluster.pids().values()))


async def test_a_worker_that_cannot_start_says_why() -> None:
    """A worker reports a data port that another process took after the check of the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    config = FlinknetConfig(cluster=ClusterConfig(workers=1, data_port=port))
    output = Output()
    cluster = LocalCluster(config, on_output=output)
    task = asyncio.create_task(cluster.__aenter__())
    await output.has_come.wait()
    with socket.create_server(("127.0.0.1", port)):
        message = rf"worker-0 .*exited with status 2 .*cannot listen on 127\.0\.0\.1:{port}"
        with pytest.raises(WorkerLostError, match=message):
            await task
    assert any(process == "worker-0" and str(port) in line for process, line in output)
    assert not any(map(is_running, cluster.pids().values()))


async def test_the_control_plane_reveals_no_token(cluster: LocalCluster) -> None:
    for pid in cluster.pids().values():
        assert cluster.token not in command_line(pid)
    async with aiohttp.ClientSession(f"http://{cluster.address}") as session:
        for path in ("overview", "workers", "jobs"):
            async with session.get(f"/api/v1/{path}") as response:
                assert response.status == 401
                assert cluster.token not in await response.text()
        async with session.post("/api/v1/jobs", data=b"\x90") as response:
            assert response.status == 401


async def test_a_stranger_without_the_token_has_no_part_in_a_job(cluster: LocalCluster) -> None:
    """A stranger can find the workers' ports, as any local user can, and guess an identity.

    It learns no name and no job, and jobs continue.
    """
    headers = authorization_headers(cluster.token)
    async with (
        aiohttp.ClientSession(f"http://{cluster.address}", headers=headers) as session,
        session.get("/api/v1/workers") as response,
    ):
        workers = (await response.json())["workers"]
    running = asyncio.create_task(cluster.execute(sums(20_000)))
    for worker in workers:
        said = await guess_at(worker["address"], cluster_id(cluster.token))
        assert said.endswith(Refusal(Verdict.REFUSED).encode())
        for known in (worker["worker_id"], worker["address"], cluster_id(cluster.token)):
            assert known.encode() not in said
    result = await running
    assert sum(dict(result.collected["Collect"]).values()) == sum(range(20_000))


async def guess_at(address: str, job: str) -> bytes:
    """Dial a worker as another worker would, with a wrong secret; return the bytes received."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    opening = Opening(bytes(16)).encode()
    writer.write(opening)
    challenge = await reader.readexactly(66)
    identity = WorkerIdentity("worker-9", "127.0.0.1:9", job, 0, CONFIG.network.segment_bytes)
    writer.write(Hello.encode(identity, b"a guess", opening + challenge))
    said = challenge + await reader.read()
    writer.close()
    await writer.wait_closed()
    return said


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_run_job_needs_no_event_loop() -> None:
    result = run_job(sums(100), CONFIG, on_output=Output())
    assert result.state == "FINISHED"


def test_run_job_leaves_the_signals_of_the_program_alone() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    run_job(sums(10), CONFIG, on_output=Output())
    assert {number: signal.getsignal(number) for number in before} == before
