"""Jobs that continue from an unaligned checkpoint in another shape lose no in-flight record."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import CheckpointDirectory, StateKind
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster import JobProgress, LocalCluster
from flinknet.config import CheckpointingConfig, ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    CollectSink,
    GeneratorSource,
    KeyedProcessFunction,
    ProcessContext,
    RestartStrategies,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from flinknet.graph.graph import JobGraph
from tests.integration.cluster_runs import LOOK_S

KEYS = 101
RECORDS = 10_000
FLINKNET = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
    cluster=ClusterConfig(progress_interval_ms=20.0, slots_per_worker=2),
)


class Numbered(KeyedProcessFunction):
    """A slow count of the records of a key, which fails at one out of order."""

    def open(self, context: RuntimeContext) -> None:
        self._count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
        key, number = value
        count = self._count.value() or 0
        if number != key + count * KEYS:
            raise ValueError(f"{number} of key {key} behind {count} others")
        self._count.update(count + 1)
        time.sleep(0.0002)
        yield key, count + 1


def job(
    *, counted: int = 2, mapped: int = 1, ordered: bool = True, checkpointed: bool = True
) -> JobGraph:
    """Return a job that counts by key behind full queues.

    With one subtask, the map operator is in the source's chain.
    """
    environment = StreamExecutionEnvironment().set_parallelism(2).set_max_parallelism(16)
    if checkpointed:
        environment.enable_checkpointing(50)
        environment.get_checkpoint_config().enable_unaligned_checkpoints()
    environment.set_restart_strategy(RestartStrategies.no_restart())
    source = environment.from_source(GeneratorSource(lambda number: number, RECORDS))
    numbers = source.set_parallelism(1).uid("source")
    pairs = numbers.map(lambda number: (number % KEYS, number)).set_parallelism(mapped).uid("map")
    keyed = pairs.key_by(lambda record: record[0])
    counts = keyed.process(Numbered()) if ordered else keyed.process(Counted())
    counts.set_parallelism(counted).uid("counts")
    last = counts.key_by(lambda record: record[0]).reduce(max, emit="end_of_input").uid("last")
    last.sink_to(CollectSink()).name("counts").uid("out")
    return environment.job_graph("full queues")


class Counted(Numbered):
    """The same for records in any order."""

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        time.sleep(0.0002)
        yield value[0], count


async def checkpoint_of(cluster: LocalCluster, graph: JobGraph, directory: Path, to: Path) -> None:
    """Copy a checkpoint of a job that has records in flight on both sides of its channels."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def watch(progress: JobProgress) -> None:
        if not started.done():
            started.set_result(progress.job_id)

    running = asyncio.create_task(cluster.execute(graph, watch))
    store = CheckpointStore(
        FileStorage(directory, FLINKNET.checkpointing), await started, FLINKNET.checkpointing
    )
    found: CheckpointDirectory | None = None
    looked_at = -1
    while found is None:
        for entry in await store.completed():
            if entry.number <= looked_at:
                continue
            looked_at = entry.number
            kinds = {kind for *_, kind, _ in (await store.read_metadata(entry.directory)).parts()}
            if {StateKind.INPUT, StateKind.OUTPUT} <= kinds:
                found = entry.directory
        await asyncio.wait((running,), timeout=LOOK_S)
        assert not running.done(), running.result()
    shutil.copytree(directory / await started / str(found), to)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


def config_of(directory: Path) -> FlinknetConfig:
    # Keep all checkpoints: the job completes others while the test reads and copies one.
    checkpointing = CheckpointingConfig(directory=str(directory), retained=1000)
    return FlinknetConfig(FLINKNET.network, cluster=FLINKNET.cluster, checkpointing=checkpointing)


COUNTS = {key: len(range(key, RECORDS, KEYS)) for key in range(KEYS)}


@pytest.mark.parametrize("counted", [1, 3])
async def test_in_flight_data_is_redistributed_at_another_parallelism(
    tmp_path: Path, counted: int
) -> None:
    """N6: each record counts once, and in the order of its key."""
    async with LocalCluster(
        config_of(tmp_path / "all"), on_output=lambda process, line: None
    ) as cluster:
        await checkpoint_of(cluster, job(), tmp_path / "all", tmp_path / "one")
        again = job(counted=counted)
        result = await cluster.execute(again, from_checkpoint=str(tmp_path / "one"))
    assert dict(result.collected["counts"]) == COUNTS
    read = sum(row["records_out"] for row in result.vertices if row["vertex"] == 0)
    assert read < RECORDS, "it began at its start"


async def test_the_output_of_a_chain_is_not_mapped_again_if_it_is_split(
    tmp_path: Path,
) -> None:
    """N6: at another parallelism of the map, the exchange behind it has another number."""
    async with LocalCluster(
        config_of(tmp_path / "all"), on_output=lambda process, line: None
    ) as cluster:
        old = job(ordered=False)
        await checkpoint_of(cluster, old, tmp_path / "all", tmp_path / "one")
        new = job(mapped=3, ordered=False)
        assert len(new.vertices) == len(old.vertices) + 1
        result = await cluster.execute(new, from_checkpoint=str(tmp_path / "one"))
    assert dict(result.collected["counts"]) == COUNTS
