"""A job with tiny and huge records, under constant checkpoints, kills and restarts as a new job."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster import JobProgress, JobResult, LocalCluster
from flinknet.config import CheckpointingConfig, ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    CollectSink,
    GeneratorSource,
    KeyedProcessFunction,
    ProcessContext,
    RateLimitedSource,
    RestartStrategies,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from flinknet.graph.graph import JobGraph
from tests.integration.test_recovery import Held, complete

KEYS = 7
RECORDS = 20_000
PER_SECOND = 8_000.0
ROUNDS = 4


def payload(number: int) -> bytes:
    """Return a few bytes, or for one record in a hundred, enough for a dozen buffers."""
    size = 50_000 if number % 100 == 41 else number % 20
    return bytes([number % 251]) * size


class Audited(KeyedProcessFunction):
    """A count that fails if a record is missing, duplicated, out of order or changed."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state."""
        self._count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
        """Check one record."""
        number, content = value
        count = self._count.value() or 0
        if number != number % KEYS + count * KEYS or content != payload(number):
            raise ValueError(f"record {number} with {len(content)} bytes behind {count} others")
        self._count.update(count + 1)
        yield number % KEYS, count + 1


def audited(go: Path) -> JobGraph:
    """Return a job with two exchanges by key, the second one to the maximum of each count."""
    environment = StreamExecutionEnvironment().set_parallelism(2)
    environment.enable_checkpointing(20)
    config = environment.get_checkpoint_config().enable_unaligned_checkpoints()
    config.set_tolerable_checkpoint_failure_number(1000)
    environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(100, 0.0))
    numbers = GeneratorSource(lambda number: (number, payload(number)), RECORDS)
    source = environment.from_source(Held(RateLimitedSource(numbers, PER_SECOND), go))
    records = source.set_parallelism(1).uid("numbers").key_by(lambda record: record[0] % KEYS)
    counts = records.process(Audited()).uid("counts").key_by(lambda count: count[0])
    last = counts.reduce(max, emit="end_of_input").uid("last")
    last.sink_to(CollectSink()).name("counts").uid("sink")
    return environment.job_graph("audited")


class Runs:
    """The job, and the jobs that continue it in turn."""

    def __init__(self, cluster: LocalCluster, config: FlinknetConfig, folder: Path) -> None:
        self._cluster = cluster
        self._config = config.checkpointing
        self._storage = FileStorage(folder / "checkpoints", config.checkpointing)
        self._go = folder / "go"
        self._store: CheckpointStore | None = None
        self.newest = 0
        """The last known journal entry of the present job."""

    async def begin(self, location: str | None = None) -> None:
        """Start the job, or continue it from a checkpoint of the one before."""
        begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            if not begun.done():
                begun.set_result(progress.job_id)

        run = self._cluster.execute(audited(self._go), watch, from_checkpoint=location)
        self.job = asyncio.create_task(run)
        await asyncio.wait((begun, self.job), return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            raise AssertionError(f"the job was not begun: {self.job.result()}")
        self._job_id = begun.result()
        self._store = CheckpointStore(self._storage, self._job_id, self._config)
        self.newest = 0

    async def take(self, checkpoints: int) -> None:
        """Wait until ``checkpoints`` more are complete."""
        assert self._store is not None
        self.newest = await complete(self._store, self.newest + checkpoints - 1, self.job)

    async def begin_anew(self) -> None:
        """Cancel the job, and continue from its last checkpoint as a new job."""
        assert self._store is not None
        self.job.cancel()
        with suppress(asyncio.CancelledError):
            await self.job
        (*_, entry) = await self._store.completed()
        await self.begin(f"{self._storage.location}/{self._job_id}/{entry.directory}")

    async def end(self) -> JobResult:
        """Let the job end, and return its result."""
        self._go.touch()
        return await self.job


@pytest.mark.parametrize("seed", [1, 2])
async def test_it_stays_consistent_under_stress(tmp_path: Path, seed: int) -> None:
    """N8: after two to ten checkpoints a worker is killed, or the job continues as a new one."""
    random = Random(seed)
    config = FlinknetConfig(
        network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
        cluster=ClusterConfig(workers=3, slots_per_worker=2, progress_interval_ms=20.0),
        checkpointing=CheckpointingConfig(directory=str(tmp_path / "checkpoints")),
    )
    async with LocalCluster(config, on_output=lambda process, line: None) as cluster:
        runs = Runs(cluster, config, tmp_path)
        await runs.begin()
        for number in range(ROUNDS):
            await runs.take(random.randint(2, 10))
            if number % 2:
                await runs.begin_anew()
                continue
            workers = [pid for name, pid in cluster.pids().items() if name.startswith("worker")]
            # The list may still have a worker that has ended.
            with suppress(ProcessLookupError):
                os.kill(random.choice(workers), signal.SIGKILL)
        result = await runs.end()
    counts = {key: len(range(key, RECORDS, KEYS)) for key in range(KEYS)}
    assert dict(result.collected["counts"]) == counts
