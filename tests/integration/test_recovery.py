"""Jobs with checkpoints and killed workers give the result of a run without failure."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import StateKind
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster import JobProgress, LocalCluster
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.config import CheckpointingConfig, ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.config.restart_strategy import FixedDelayRestart
from flinknet.datastream import (
    CheckpointingMode,
    CollectSink,
    CsvSink,
    GeneratorSource,
    KeyedProcessFunction,
    ParquetSink,
    ProcessContext,
    RateLimitedSource,
    RestartStrategies,
    RuntimeContext,
    Sink,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.graph.graph import JobGraph
from flinknet.operators.source import Source, read
from tests.integration.cluster_runs import LOOK_S
from tests.unit.checkpoint.checkpoints import change

KEYS = 101
RECORDS = 100_000
RATE = 50_000.0
"""Records per second of each job: two seconds, in which checkpoints and kills fall."""
KILLS = 3


def sums(go: Path, mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE) -> JobGraph:
    """Return a job that sums numbers by key for two seconds, and ends once ``go`` exists.

    The key contains the hash of a text, which must be equal on all workers and their replacements.
    """
    environment = StreamExecutionEnvironment().set_parallelism(2)
    environment.enable_checkpointing(100, mode)
    environment.get_checkpoint_config().set_tolerable_checkpoint_failure_number(1000)
    environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(100, 0.0))
    numbers = GeneratorSource(lambda number: (number % KEYS, 1, number), RECORDS)
    stream = environment.from_source(Held(RateLimitedSource(numbers, RATE), go))
    totals = stream.key_by(lambda record: hash(str(record[0]))).reduce(
        lambda one, other: (one[0], one[1] + other[1], one[2] + other[2]), emit="end_of_input"
    )
    totals.sink_to(CollectSink()).name("sums")
    return environment.job_graph("sums")


class Held(Source):
    """Another source that does not end before a file exists.

    So the job takes checkpoints until the test is done, however slow the machine is.
    """

    replayable = True

    def __init__(self, source: Source, go: Path) -> None:
        self.parallelism = source.parallelism
        self._source = source
        self._go = go

    def batches(self, context: RuntimeContext) -> AsyncIterator[Any]:
        return self.batches_after(context, 0)

    async def batches_after(self, context: RuntimeContext, position: int) -> AsyncIterator[Any]:
        async for batch in read(self._source, context, position):
            yield batch
        while not self._go.exists():
            await asyncio.sleep(LOOK_S)


EXPECTED = [
    (key, len(range(key, RECORDS, KEYS)), sum(range(key, RECORDS, KEYS))) for key in range(KEYS)
]


def config_of(directory: Path) -> FlinknetConfig:
    return FlinknetConfig(
        network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
        cluster=ClusterConfig(progress_interval_ms=20.0),
        checkpointing=CheckpointingConfig(directory=str(directory)),
    )


async def complete(store: CheckpointStore, more_than: int, job: asyncio.Task[Any]) -> int:
    """Wait until a checkpoint's entry exceeds ``more_than``; return the newest entry's number.

    Raises the error of a job that fails meanwhile.
    """
    while True:
        completed = await store.completed()
        if completed and completed[-1].number > more_than:
            return completed[-1].number
        if job.done():
            raise AssertionError(f"the job has ended by itself: {job.result()}")
        await asyncio.wait((job,), timeout=LOOK_S)


@pytest.mark.parametrize("seed", [1, 2])
async def test_killed_workers_change_nothing(tmp_path: Path, seed: int) -> None:
    """Workers are killed one at a time, each after some checkpoints of the attempt before.

    No record is lost or counted twice.
    """
    random = Random(seed)
    config = config_of(tmp_path)
    attempts: set[int] = set()
    async with LocalCluster(config, on_output=lambda process, line: None) as cluster:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            attempts.add(progress.attempt)
            if not started.done():
                started.set_result(progress.job_id)

        job = asyncio.create_task(cluster.execute(sums(tmp_path / "go"), watch))
        storage = FileStorage(tmp_path, config.checkpointing)
        store = CheckpointStore(storage, await started, config.checkpointing)
        newest = 0
        for _ in range(KILLS):
            newest = await complete(store, newest + random.randrange(3), job)
            workers = [name for name in cluster.pids() if name.startswith("worker")]
            # The list may still have a worker that has ended.
            with suppress(ProcessLookupError):
                os.kill(cluster.pids()[random.choice(workers)], signal.SIGKILL)
        (tmp_path / "go").touch()
        result = await job
    assert sorted(result.collected["sums"]) == EXPECTED
    assert max(attempts) > 0


class Numbered(KeyedProcessFunction):
    """A count of each key that takes 100 us for a record, and fails if one is missing."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state."""
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
        """Count one record."""
        key, number = value
        count = self._count.value() or 0
        if number != key + count * KEYS:
            raise ValueError(f"{number} of key {key} behind {count} others")
        self._count.update(count + 1)
        time.sleep(0.0001)
        yield key, count + 1


SLOW_RECORDS = 20_000


def backpressured(go: Path, aligned_timeout_ms: float) -> JobGraph:
    """Return a job that sends numbers by key through full queues for a second."""
    environment = StreamExecutionEnvironment().set_parallelism(2)
    environment.enable_checkpointing(50)
    config = environment.get_checkpoint_config().enable_unaligned_checkpoints()
    config.set_aligned_checkpoint_timeout(aligned_timeout_ms)
    config.set_tolerable_checkpoint_failure_number(1000)
    environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(100, 0.0))
    numbers = GeneratorSource(lambda number: (number % KEYS, number), SLOW_RECORDS)
    source = environment.from_source(Held(numbers, go)).set_parallelism(1)
    counted = source.key_by(lambda record: record[0]).process(Numbered())
    last = counted.key_by(lambda record: record[0]).reduce(max, emit="end_of_input")
    last.sink_to(CollectSink()).name("counts")
    return environment.job_graph("backpressured")


@pytest.mark.parametrize("aligned_timeout_ms", [0.0, 20.0], ids=["unaligned", "alternating"])
async def test_in_flight_data_is_neither_lost_nor_counted_twice(
    tmp_path: Path, aligned_timeout_ms: float
) -> None:
    """N7: checkpoints store the full queues of a slow function, and killed workers lose none of it.

    The function checks the order of each key, too.
    """
    config = config_of(tmp_path)
    # Keep all checkpoints: the job completes others while the test reads one.
    config = replace(config, checkpointing=replace(config.checkpointing, retained=1000))
    attempts: set[int] = set()
    async with LocalCluster(config, on_output=lambda process, line: None) as cluster:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            attempts.add(progress.attempt)
            if not started.done():
                started.set_result(progress.job_id)

        job = asyncio.create_task(
            cluster.execute(backpressured(tmp_path / "go", aligned_timeout_ms), watch)
        )
        storage = FileStorage(tmp_path, config.checkpointing)
        store = CheckpointStore(storage, await started, config.checkpointing)
        newest = await complete(store, await complete(store, 0, job), job)
        (entry,) = (one for one in await store.completed() if one.number == newest)
        metadata = await store.read_metadata(entry.directory)
        in_flight = sum(
            part.size_bytes
            for *_, kind, part in metadata.parts()
            if kind in (StateKind.INPUT, StateKind.OUTPUT)
        )
        assert in_flight > 0
        assert not await store.verify(entry.directory)
        for _ in range(2):
            workers = [name for name in cluster.pids() if name.startswith("worker")]
            # The list may still have a worker that has ended.
            with suppress(ProcessLookupError):
                os.kill(cluster.pids()[workers[0]], signal.SIGKILL)
            newest = await complete(store, newest, job)
        (tmp_path / "go").touch()
        result = await job
    counts = {key: len(range(key, SLOW_RECORDS, KEYS)) for key in range(KEYS)}
    assert dict(result.collected["counts"]) == counts
    assert max(attempts) > 0


def written(path: Path, go: Path, as_lines_in_a_store: bool = False) -> JobGraph:
    """Return a job that writes numbers into files for two seconds, and ends once ``go`` exists."""
    environment = StreamExecutionEnvironment().set_parallelism(2)
    environment.enable_checkpointing(100)
    environment.get_checkpoint_config().set_tolerable_checkpoint_failure_number(1000)
    environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(100, 0.0))
    numbers = GeneratorSource(lambda number: (number, number * 2), RECORDS)
    stream = environment.from_source(Held(RateLimitedSource(numbers, RATE), go)).rebalance()
    sink: Sink = ParquetSink(path, {"number": "int64", "double": "int64"})
    if as_lines_in_a_store:
        sink = CsvSink(f"local://{path}", ["number", "double"])
    stream.sink_to(sink).name("files")
    return environment.job_graph("written")


def numbers_in(path: Path) -> list[int]:
    """Return the numbers in visible files; hidden names begin with a dot or an underscore."""
    numbers = []
    for file in path.glob("[!._]*"):
        if file.suffix == ".parquet":
            numbers += pq.read_table(file)["number"].to_pylist()
        else:
            numbers += [int(line.partition(",")[0]) for line in file.read_text().split()[1:]]
    return numbers


@pytest.mark.parametrize(("seed", "as_lines_in_a_store"), [(1, False), (2, True)])
async def test_readers_see_each_record_once_after_any_kill(
    tmp_path: Path, seed: int, as_lines_in_a_store: bool
) -> None:
    """Files become visible with their checkpoints, once each.

    At the end all records are there, and nothing else is left in the directory. The store is one of
    fsspec.
    """
    random, config, output = Random(seed), config_of(tmp_path / "checkpoints"), tmp_path / "out"
    attempts: set[int] = set()
    seen: list[int] = []
    async with LocalCluster(config, on_output=lambda process, line: None) as cluster:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            attempts.add(progress.attempt)
            if not started.done():
                started.set_result(progress.job_id)

        graph = written(output, tmp_path / "go", as_lines_in_a_store)
        job = asyncio.create_task(cluster.execute(graph, watch))
        storage = FileStorage(tmp_path / "checkpoints", config.checkpointing)
        store = CheckpointStore(storage, await started, config.checkpointing)
        newest = 0
        for _ in range(2):
            newest = await complete(store, newest + 1 + random.randrange(3), job)
            now = await asyncio.to_thread(numbers_in, output)
            assert len(now) == len(set(now))
            assert set(seen) <= set(now) <= set(range(RECORDS)), "what was visible stays so"
            seen = now
            workers = [name for name in cluster.pids() if name.startswith("worker")]
            # The list may still have a worker that has ended.
            with suppress(ProcessLookupError):
                os.kill(cluster.pids()[random.choice(workers)], signal.SIGKILL)
        (tmp_path / "go").touch()
        await job
    assert seen, "nothing was visible before the end"
    assert sorted(numbers_in(output)) == list(range(RECORDS))
    assert not [entry.name for entry in output.iterdir() if entry.name.startswith(".")]
    assert max(attempts) > 0


FEW = 5_000


def beside_another(path: Path, go: Path) -> JobGraph:
    """Return a job that writes some numbers, beside a pipeline that ends once ``go`` exists."""
    environment = StreamExecutionEnvironment().set_parallelism(2)
    environment.enable_checkpointing(100)
    environment.get_checkpoint_config().set_tolerable_checkpoint_failure_number(1000)
    environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(100, 0.0))
    numbers = environment.from_source(GeneratorSource(lambda number: (number, number * 2), FEW))
    sink = ParquetSink(path, {"number": "int64", "double": "int64"})
    numbers.rebalance().sink_to(sink).name("files").uid("files")
    others = environment.from_source(Held(GeneratorSource(lambda number: number, 10), go))
    others.rebalance().sink_to(CollectSink()).name("others").uid("others")
    return environment.job_graph("beside another")


async def test_the_output_of_a_finished_sink_stays_if_another_job_continues(
    tmp_path: Path,
) -> None:
    """O2: the last files of a sink become visible while the rest of the job still runs.

    A killed worker does not change that. A new job that continues from a later checkpoint writes
    none of them again.
    """
    config, output = config_of(tmp_path / "checkpoints"), tmp_path / "out"
    go = tmp_path / "go"
    async with LocalCluster(config, on_output=lambda process, line: None) as cluster:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            if not started.done():
                started.set_result(progress.job_id)

        job = asyncio.create_task(cluster.execute(beside_another(output, go), watch))
        storage = FileStorage(tmp_path / "checkpoints", config.checkpointing)
        store = CheckpointStore(storage, await started, config.checkpointing)
        newest = 0
        while not output.exists() or len(await asyncio.to_thread(numbers_in, output)) < FEW:
            newest = await complete(store, newest, job)
        os.kill(cluster.pids()["worker-0"], signal.SIGKILL)
        newest = await complete(store, newest + 1, job)
        job.cancel()
        with suppress(asyncio.CancelledError):
            await job
        (*_, entry) = await store.completed()
        go.touch()
        location = f"{storage.location}/{await started}/{entry.directory}"
        again = await cluster.execute(beside_another(output, go), from_checkpoint=location)
    assert sorted(numbers_in(output)) == list(range(FEW))
    assert sorted(again.collected["others"]) == list(range(10))


async def test_a_savepoint_commits_nothing(tmp_path: Path) -> None:
    """A savepoint commits nothing, because a job continues from an earlier point after a failure.

    Records that sinks had committed with the savepoint would be written again.
    """
    config, output = config_of(tmp_path / "checkpoints"), tmp_path / "out"
    graph = written(output, tmp_path / "go")
    assert graph.checkpointing is not None
    graph = replace(graph, checkpointing=replace(graph.checkpointing, interval_ms=600_000.0))
    async with LocalCluster(config, on_output=lambda process, line: None) as cluster:
        runs: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            if progress.vertices[-1].records_in and not runs.done():
                runs.set_result(progress.job_id)

        job = asyncio.create_task(cluster.execute(graph, watch))
        await cluster.savepoint(await runs, str(tmp_path / "saved"))
        os.kill(cluster.pids()["worker-0"], signal.SIGKILL)
        (tmp_path / "go").touch()
        await job
    assert sorted(numbers_in(output)) == list(range(RECORDS))


@pytest.mark.parametrize("how", ["torn", "a bit", "removed"])
async def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, how: str) -> None:
    """The newest checkpoint is damaged, and then a worker killed: the job uses the one before."""
    config = config_of(tmp_path)
    graph = sums(tmp_path / "go")
    assert graph.checkpointing is not None
    pause = replace(graph.checkpointing, min_pause_ms=700.0)
    graph = replace(graph, checkpointing=pause)
    said: list[str] = []
    async with LocalCluster(config, on_output=lambda process, line: said.append(line)) as cluster:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            if not started.done():
                started.set_result(progress.job_id)

        job = asyncio.create_task(cluster.execute(graph, watch))
        storage = FileStorage(tmp_path, config.checkpointing)
        store = CheckpointStore(storage, await started, config.checkpointing)
        await complete(store, await complete(store, 0, job), job)
        workers = [name for name in cluster.pids() if name.startswith("worker")]
        # The next checkpoint begins after a pause, and needs this worker.
        os.kill(cluster.pids()[workers[0]], signal.SIGSTOP)
        newest = (await store.completed())[-1].directory
        change(tmp_path / store.path(newest, "metadata"), how)
        # On a busy machine a newer checkpoint may be complete nevertheless.
        overtaken = (await store.completed())[-1].directory.checkpoint_id > newest.checkpoint_id
        os.kill(cluster.pids()[workers[0]], signal.SIGKILL)
        (tmp_path / "go").touch()
        result = await job
    assert sorted(result.collected["sums"]) == EXPECTED
    if how != "removed" and not overtaken:
        assert any(
            f"{newest} cannot be restored, so an earlier one is used" in line for line in said
        )


async def test_damage_that_is_found_while_state_is_restored_leads_to_the_checkpoint_before(
    tmp_path: Path,
) -> None:
    """Damage that a restore finds leads to the checkpoint before.

    The files have the right size, and only the attempt that restores them reads them. The restart
    strategy permits only the failure that the kill causes.
    """
    config = config_of(tmp_path)
    config = replace(config, checkpointing=replace(config.checkpointing, inline_bytes_max=0))
    graph = sums(tmp_path / "go")
    assert graph.checkpointing is not None
    pause = replace(graph.checkpointing, min_pause_ms=700.0)
    graph = replace(graph, checkpointing=pause, restart=FixedDelayRestart(1, 0.0))
    said: list[str] = []
    async with LocalCluster(config, on_output=lambda process, line: said.append(line)) as cluster:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            if not started.done():
                started.set_result(progress.job_id)

        job = asyncio.create_task(cluster.execute(graph, watch))
        storage = FileStorage(tmp_path, config.checkpointing)
        store = CheckpointStore(storage, await started, config.checkpointing)
        await complete(store, await complete(store, 0, job), job)
        workers = [name for name in cluster.pids() if name.startswith("worker")]
        # The next checkpoint begins after a pause, and needs this worker.
        os.kill(cluster.pids()[workers[0]], signal.SIGSTOP)
        newest = (await store.completed())[-1].directory
        metadata = await store.read_metadata(newest)
        for *_, part in metadata.parts():
            assert part.name is not None
            change(tmp_path / store.path(newest, part.name), "a bit")
        # On a busy machine a newer checkpoint may be complete nevertheless.
        overtaken = (await store.completed())[-1].directory.checkpoint_id > newest.checkpoint_id
        os.kill(cluster.pids()[workers[0]], signal.SIGKILL)
        (tmp_path / "go").touch()
        result = await job
    assert sorted(result.collected["sums"]) == EXPECTED
    if not overtaken:
        assert any(
            f"{newest} cannot be restored, so an earlier one is used" in line for line in said
        )
        assert any("attempt 1 failed, and the job restarts" in line for line in said)


async def test_a_job_whose_checkpoints_are_gone_fails_with_their_place(tmp_path: Path) -> None:
    """A job whose checkpoints are gone fails, because a new beginning would hide the loss."""
    config = config_of(tmp_path / "checkpoints")
    graph = sums(tmp_path / "never")
    assert graph.checkpointing is not None
    graph = replace(
        graph,
        checkpointing=replace(graph.checkpointing, min_pause_ms=60_000.0),
        restart=FixedDelayRestart(2, 0.0),
    )
    attempts: set[int] = set()
    async with LocalCluster(config, on_output=lambda process, line: None) as cluster:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            attempts.add(progress.attempt)
            if not started.done():
                started.set_result(progress.job_id)

        job = asyncio.create_task(cluster.execute(graph, watch))
        storage = FileStorage(tmp_path / "checkpoints", config.checkpointing)
        store = CheckpointStore(storage, await started, config.checkpointing)
        # A checkpoint's files exist a moment before the coordinator counts it as complete.
        client = CoordinatorClient(cluster.address, cluster.token, config.cluster)
        path = f"/v1/jobs/{store.job_id}/checkpoints"
        while not (await client.read(path))["counts"]["completed"]:
            await asyncio.wait((job,), timeout=LOOK_S)
            assert not job.done()
        (tmp_path / "checkpoints").rename(tmp_path / "elsewhere")
        os.kill(cluster.pids()["worker-0"], signal.SIGKILL)
        with pytest.raises(JobFailedError, match="does not restart from its start") as failed:
            await job
    assert f"{tmp_path}/checkpoints/{store.job_id} has no checkpoint" in str(failed.value)
    assert max(attempts) <= 2


async def test_a_job_with_checkpoints_needs_a_place_for_them(tmp_path: Path) -> None:
    async with LocalCluster(FlinknetConfig(), on_output=lambda process, line: None) as cluster:
        with pytest.raises(ConfigurationError, match="checkpointing.directory"):
            await cluster.execute(sums(tmp_path / "go"))
