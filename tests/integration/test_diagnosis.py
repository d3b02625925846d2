"""Problems that are produced for real on two worker processes, and the culprit of each.

Slow operators wait, as for a remote service. So they do not block an event loop, and the speed of
the machine does not matter.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import queue
import re
import signal
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flinknet.cluster import LocalCluster
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.submission import Submission
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    DataStream,
    GeneratorSource,
    MapFunction,
    RateLimitedSource,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flinknet.graph.graph import JobGraph
from flinknet.records.key_groups import key_group
from tests.integration.cluster_runs import LOOK_S

pytestmark = pytest.mark.xdist_group("diagnosis")

PATIENCE_S = 60.0
"""Seconds after which a hanging test fails with the last findings; no result depends on it."""

CONFIG = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
    cluster=ClusterConfig(
        workers=2,
        slots_per_worker=4,
        statistics_interval_ms=100.0,
        heartbeat_interval_ms=200.0,
    ),
)

Diagnose = Callable[[], Awaitable[Any]]


class Started(NamedTuple):
    """A running cluster."""

    address: str
    token: str
    pids: dict[str, int]


@contextmanager
def started_cluster(config: FlinknetConfig) -> Iterator[Started]:
    """Run a cluster in an event loop in a thread."""
    started: queue.Queue[Started] = queue.Queue()
    ended: list[Callable[[], object]] = []

    async def live() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        ended.append(lambda: loop.call_soon_threadsafe(stop.set))
        async with LocalCluster(config) as cluster:
            started.put(Started(cluster.address, cluster.token, cluster.pids()))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    try:
        yield started.get(timeout=PATIENCE_S)
    finally:
        ended[0]()
        thread.join()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Started]:
    """One cluster for all tests."""
    with started_cluster(CONFIG) as started:
        yield started


@asynccontextmanager
async def running(cluster: Started, graph: JobGraph) -> AsyncIterator[Diagnose]:
    """Run an endless job; yield a function that returns its diagnosis."""
    client = CoordinatorClient(cluster.address, cluster.token, CONFIG.cluster)
    job_id = await client.submit(Submission.of_graph(graph))

    async def diagnose() -> Any:
        return await client.read(f"/api/v1/jobs/{job_id}/diagnosis")

    try:
        yield diagnose
    finally:
        await client.cancel(job_id)
        await client.until_ended(job_id)


async def until_named(diagnose: Diagnose, kind: str, *tasks: str) -> Any:
    """Wait until the worst finding is of this kind about these tasks, and return it."""
    told: Any = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                told = await diagnose()
                for worst in told["findings"][:1]:
                    if (worst["kind"], culprits(worst)) == (kind, set(tasks)):
                        return worst
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        said = [(one["kind"], one["sentence"]) for one in told["findings"]]
        raise AssertionError(
            f"{kind} of {tasks} is not named, but {said}; the job is {told['state']}"
        ) from None


async def named(cluster: Started, graph: JobGraph, kind: str, *tasks: str) -> Any:
    """Run a job until it has this diagnosis, and return the finding."""
    async with running(cluster, graph) as diagnose:
        return await until_named(diagnose, kind, *tasks)


def culprits(finding: Any) -> set[str]:
    return {task["name"] for task in finding["culprit"]["tasks"]}


def losers(finding: Any) -> set[str]:
    return {one["task"]["name"] for one in finding["lost"]}


async def slowly(record: Any) -> Any:
    await asyncio.sleep(0.002)
    return record


def at_once(record: Any) -> Any:
    return record


def nothing(record: Any) -> None:
    """Discard a record."""


def numbers(rate: float | None = None, parallelism: int = 1) -> DataStream:
    """Return endless numbers, in a slot sharing group of their own."""
    environment = StreamExecutionEnvironment()
    source: Any = GeneratorSource(lambda number: (number, number))
    if rate is not None:
        source = RateLimitedSource(source, rate)
    stream = environment.from_source(source).set_parallelism(parallelism)
    return stream.name("numbers").slot_sharing_group("sources")


def graph(stream: DataStream) -> JobGraph:
    environment: Any = stream.get_execution_environment()
    built: JobGraph = environment.job_graph("situation")
    return built


def three_stages(middle: Callable[[Any], Any], last: Callable[[Any], Any]) -> JobGraph:
    """Return a job with a source, a map on the other worker, and a sink beside the source."""
    stream = numbers().rebalance().map(middle).name("middle").slot_sharing_group("middle")
    stream.rebalance().sink_to(last).name("last").slot_sharing_group("sources")
    return graph(stream)


SOURCE = "Source: numbers (1/1)"


async def test_a_slow_sink(cluster: Started) -> None:
    finding = await named(
        cluster, three_stages(at_once, slowly), "SLOW_OPERATOR", "Sink: last (1/1)"
    )
    assert {SOURCE, "middle (1/1)"} >= losers(finding) != set()


async def test_a_slow_operator_in_the_middle(cluster: Started) -> None:
    finding = await named(cluster, three_stages(slowly, nothing), "SLOW_OPERATOR", "middle (1/1)")
    assert losers(finding) == {SOURCE}


async def test_two_culprits(cluster: Started) -> None:
    source = numbers()
    for name in ("one", "other"):
        source.rebalance().sink_to(slowly).name(name).slot_sharing_group(name)
    async with running(cluster, graph(source)) as diagnose, asyncio.timeout(PATIENCE_S):
        while True:
            findings = (await diagnose())["findings"]
            both = {name for finding in findings for name in culprits(finding)}
            # Loading the job blocks a worker's loop for a moment, which is a finding of its own.
            kinds = {finding["kind"] for finding in findings}
            if both == {"Sink: one (1/1)", "Sink: other (1/1)"} and kinds == {"SLOW_OPERATOR"}:
                break
            await asyncio.sleep(LOOK_S)


async def test_skew_by_key_names_the_key_group(cluster: Started) -> None:
    hot = 7
    keyed = numbers().key_by(lambda record: hot if record[0] % 20 else record[0])
    stream = keyed.map(slowly).name("keyed").set_parallelism(2).slot_sharing_group("keyed")
    stream.sink_to(nothing).set_parallelism(2).name("out")
    group = key_group(hot, 128)
    hot_one = f"keyed -> Sink: out ({group * 2 // 128 + 1}/2)"
    finding = await named(cluster, graph(stream), "SKEW_BY_KEY", hot_one)
    assert finding["culprit"]["key_groups"] == [group]
    assert f"of key group {group}:" in finding["sentence"]


async def test_skew_by_source(cluster: Started) -> None:
    """One subtask of the source makes all records, and one consumer gets them."""
    stream = numbers(parallelism=2).filter(lambda record: record[0] % 2 == 0).name("even")
    stream.set_parallelism(2).slot_sharing_group("sources")
    sink = stream.rescale().sink_to(slowly).set_parallelism(2).name("out")
    sink.slot_sharing_group("out")
    finding = await named(cluster, graph(stream), "SKEW_BY_SOURCE", "Sink: out (1/2)")
    assert "because Source: numbers -> even (1/2) makes most of them" in finding["sentence"]


async def test_an_operator_that_makes_a_thousand_records_of_each_one(cluster: Started) -> None:
    """Its input records are so large that a buffer has few of them."""

    def work(record: Any) -> None:
        for _ in range(300):
            pass

    stream = numbers().map(lambda record: "x" * 2_000).slot_sharing_group("sources").rebalance()
    many = stream.flat_map(lambda record: range(1_000)).name("multiply")
    many = many.slot_sharing_group("multiply")
    many.rebalance().sink_to(work).name("out").slot_sharing_group("out")
    finding = await named(cluster, graph(stream), "AMPLIFICATION", "multiply (1/1)")
    assert finding["throughput"]["records_out_per_s"] > finding["throughput"]["records_in_per_s"]


class Pacing(MapFunction):
    """A limit on the send rate of each connection of this process, set in the kernel."""

    # The socket module lacks these constants of Linux.
    SO_MAX_PACING_RATE = 47
    NO_LIMIT = 2**32 - 1

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s

    def close(self) -> None:
        self._limit(self.NO_LIMIT)

    def map(self, value: Any) -> Any:
        if value[0] % 10_000 == 0:  # there may be new connections by now
            self._limit(self._bytes_per_s)
        return value

    def _limit(self, bytes_per_s: int) -> None:
        rate = struct.pack("=I", bytes_per_s)
        for file in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                if str(file.readlink()).startswith("socket:"):
                    with socket.socket(fileno=os.dup(int(file.name))) as connection:
                        connection.setsockopt(socket.SOL_SOCKET, self.SO_MAX_PACING_RATE, rate)


async def test_a_slow_link(cluster: Started) -> None:
    stream = numbers().map(Pacing(200_000)).slot_sharing_group("sources")
    stream.rebalance().sink_to(nothing).name("out").slot_sharing_group("out")
    finding = await named(cluster, graph(stream), "SLOW_LINK")
    assert finding["culprit"]["worker_ids"] == ["worker-0", "worker-1"]


async def test_a_starved_pool() -> None:
    """A worker has only four buffers, so that a writer waits for each to return."""
    network = NetworkConfig(network_memory_bytes=4 * 4096, segment_bytes=4096)
    with started_cluster(replace(CONFIG, network=network)) as starved:
        numbered = numbers()
        environment: Any = numbered.get_execution_environment()
        # A thread for each buffer with its one record could keep the sink busy.
        environment.get_config().disable_task_threads()
        stream = numbered.map(lambda record: b"x" * 3_000).slot_sharing_group("sources")
        stream.rebalance().sink_to(nothing).name("out").slot_sharing_group("out")
        writer = "Source: numbers -> Map (1/1)"
        finding = await named(starved, graph(stream), "STARVED_POOL", writer)
    assert "has given out all of its 4 (raise network.network_memory_bytes)" in finding["sentence"]
    assert losers(finding) == {writer}


@pytest.mark.parametrize(
    ("timeout_ms", "course"), [(600_000, "has been under way"), (300, "was given up")]
)
async def test_a_checkpoint_that_backpressure_holds_up(
    cluster: Started, timeout_ms: int, course: str, tmp_path: Path
) -> None:
    """A barrier arrives only after all records that wait for the slow sink."""
    stream = numbers()
    environment: Any = stream.get_execution_environment()
    environment.enable_checkpointing(100)
    checkpoints = environment.get_checkpoint_config().set_checkpoint_timeout(timeout_ms)
    checkpoints.set_checkpoint_storage_dir(str(tmp_path))
    checkpoints.set_tolerable_checkpoint_failure_number(1_000)
    stream.rebalance().sink_to(slowly).name("out").slot_sharing_group("out")
    async with running(cluster, graph(stream)) as diagnose:
        said = await until_checkpoint(diagnose, course, "Sink: out is the bottleneck")
    assert culprits(said) == {"Sink: out (1/1)"}
    assert "waited for" in said["sentence"]
    assert "Sink: out (1/1) has not taken part" in said["evidence"]


async def test_a_checkpoint_with_much_in_flight_data_of_a_slow_sink(tmp_path: Path) -> None:
    """Barriers overtake the waiting records, which become part of the checkpoint.

    These are megabytes, beside next to no state.
    """
    network = NetworkConfig(network_memory_bytes=16 * 2**20, segment_bytes=64 * 2**10)
    stream = numbers().map(lambda record: "x" * 2_000).slot_sharing_group("sources")
    environment: Any = stream.get_execution_environment()
    environment.enable_checkpointing(500)
    checkpoints = environment.get_checkpoint_config().set_checkpoint_storage_dir(str(tmp_path))
    checkpoints.enable_unaligned_checkpoints()
    out = stream.rebalance().sink_to(slowly).set_parallelism(4).name("out")
    out.slot_sharing_group("out")
    with started_cluster(replace(CONFIG, network=network)) as roomy:
        async with running(roomy, graph(stream)) as diagnose:
            said = await until_checkpoint(diagnose, "of in-flight data", "because Sink: out")
    assert any(name.startswith("Sink: out (") for name in culprits(said))
    held = r"holds ([\d.]+) MB of in-flight data in addition to ([\d.]+) MB"
    found = re.search(held, said["sentence"])
    assert found is not None
    in_flight, state = map(float, found.groups())
    assert in_flight >= 1.0 > state
    assert any(re.search(r"[1-9]\d* MB stored|0\.[1-9] MB stored", one) for one in said["evidence"])


async def until_checkpoint(diagnose: Diagnose, course: str, cause: str) -> Any:
    """Wait for a checkpoint finding with this course and cause, and return it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for finding in (await diagnose())["findings"]:
                said = finding["sentence"]
                if finding["kind"] == "CHECKPOINT" and course in said and cause in said:
                    return finding
            await asyncio.sleep(LOOK_S)


async def test_pauses_of_the_whole_process(cluster: Started) -> None:
    """Only C code runs, and it keeps the interpreter lock, as a garbage collection does."""

    class Collect(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self._standing_still = ctypes.PyDLL(None).usleep

        def map(self, value: Any) -> Any:
            if value[0] % 50 == 0:
                self._standing_still(600_000)
            return value

    stream = numbers(rate=50.0).rebalance().map(Collect()).name("middle")
    stream.slot_sharing_group("middle").sink_to(nothing)
    finding = await named(cluster, graph(stream), "PAUSED_PROCESS")
    assert finding["culprit"]["worker_ids"] == ["worker-1"]


async def test_a_blocked_loop(cluster: Started) -> None:
    def block(record: Any) -> Any:
        if record[0] % 50 == 0:
            time.sleep(0.6)
        return record

    stream = numbers(rate=50.0).rebalance().map(block).name("middle")
    stream.slot_sharing_group("middle").sink_to(nothing).name("out")
    environment: Any = stream.get_execution_environment()
    # The function must block the worker's loop, not a thread of its own.
    environment.get_config().disable_task_threads()
    finding = await named(cluster, graph(stream), "BLOCKED_LOOP", "middle -> Sink: out (1/1)")
    assert any("block (test_diagnosis.py:" in line for line in finding["evidence"])


async def test_a_stopped_worker(cluster: Started) -> None:
    async with running(cluster, three_stages(at_once, nothing)) as diagnose:
        while len((await diagnose())["tasks"]) < 3:
            await asyncio.sleep(LOOK_S)
        os.kill(cluster.pids["worker-1"], signal.SIGSTOP)
        try:
            finding = await until_named(diagnose, "SILENT_WORKER")
        finally:
            os.kill(cluster.pids["worker-1"], signal.SIGCONT)
    assert finding["culprit"]["worker_ids"] == ["worker-1"]


async def test_a_wait_that_goes_on_counts(cluster: Started) -> None:
    """The wait is longer than the diagnosed period."""

    async def never(record: Any) -> None:
        await asyncio.get_running_loop().create_future()

    finding = await named(
        cluster, three_stages(at_once, never), "SLOW_OPERATOR", "Sink: last (1/1)"
    )
    (worst, *_) = finding["lost"]
    assert worst["is_ongoing"]


async def test_a_job_that_is_busy_but_keeps_up_is_healthy(cluster: Started) -> None:
    async def work(record: Any) -> Any:
        await asyncio.sleep(0.002)
        return record

    stream = numbers(rate=100.0).rebalance().map(work).name("middle")
    stream.slot_sharing_group("middle").sink_to(nothing)
    async with running(cluster, graph(stream)) as diagnose, asyncio.timeout(PATIENCE_S):
        while True:
            told = await diagnose()
            busiest = max((task["busy"] for task in told["tasks"]), default=0.0)
            if told["seconds"] >= 0.9 and busiest > 0.2 and told["verdict"] == "healthy":
                return
            await asyncio.sleep(LOOK_S)
