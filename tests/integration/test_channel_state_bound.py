"""Stored in-flight data of unaligned checkpoints, and the bound of ``flinknet explain``."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import CheckpointMetadata, StateKind
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster import JobProgress, LocalCluster
from flinknet.cluster.launch.job_memory import JobMemory
from flinknet.common import Duration
from flinknet.config import CheckpointingConfig, ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    AsyncDataStream,
    DataStream,
    GeneratorSource,
    StreamExecutionEnvironment,
)
from flinknet.graph.graph import JobGraph
from tests.integration.cluster_runs import LOOK_S

SMALL, LARGE = 1_000, 30_000
"""Bytes of a record: many to a buffer, or one."""
BYTES = 40_000_000
"""More than ten times the most that can be in flight."""
CHECKPOINTS = 5


def slow(record: tuple[int, bytes]) -> list[int]:
    time.sleep(len(record[1]) / 1_000_000)
    return [record[0]]


def full_queues(exchange: str, record_bytes: int) -> JobGraph:
    """Return a job of one source and two slow subtasks, which work in threads."""
    payload = b"x" * record_bytes
    environment = StreamExecutionEnvironment().set_parallelism(2)
    environment.enable_checkpointing(100)
    environment.get_checkpoint_config().enable_unaligned_checkpoints()
    numbers = GeneratorSource(lambda number: (number, payload), BYTES // record_bytes)
    source = environment.from_source(numbers).set_parallelism(1)
    dealt: DataStream = source.broadcast() if exchange == "BROADCAST" else source.rebalance()
    minute = Duration.of_minutes(1)
    AsyncDataStream.unordered_wait(dealt, slow, minute, capacity=1, in_thread=True).print()
    return environment.job_graph("full queues")


def stored(metadata: CheckpointMetadata) -> int:
    """Return the bytes of in-flight data in a checkpoint."""
    kinds = (StateKind.INPUT, StateKind.OUTPUT)
    return sum(part.size_bytes for *_, kind, part in metadata.parts() if kind in kinds)


@pytest.mark.parametrize(
    ("exchange", "record_bytes", "large_record_buffers_max"),
    [("REBALANCE", SMALL, 0), ("BROADCAST", SMALL, 0), ("REBALANCE", LARGE, 32)],
)
async def test_checkpoints_store_no_more_than_can_be_in_flight(
    tmp_path: Path, exchange: str, record_bytes: int, large_record_buffers_max: int
) -> None:
    """The bound is the data that can be in flight at once, because a subtask has one channel here.

    So no data is added while further barriers are awaited. With full queues the largest checkpoint
    exceeds a quarter of the bound.
    """
    config = FlinknetConfig(
        network=NetworkConfig(
            network_memory_bytes=8 * 2**20,
            segment_bytes=32768,
            record_bytes_max=32768,
            large_record_buffers_max=large_record_buffers_max,
        ),
        cluster=ClusterConfig(progress_interval_ms=20.0),
        # Keep all checkpoints: the test reads each of them while the job completes others.
        checkpointing=CheckpointingConfig(directory=str(tmp_path), retained=1000),
    )
    graph = full_queues(exchange, record_bytes)
    bound = sum(one.at_once for one in JobMemory.of_graph(graph, config).channel_state().values())
    sizes: dict[int, int] = {}
    async with LocalCluster(config, on_output=lambda process, line: None) as cluster:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            if not started.done():
                started.set_result(progress.job_id)

        job = asyncio.create_task(cluster.execute(graph, watch))
        store = CheckpointStore(
            FileStorage(tmp_path, config.checkpointing), await started, config.checkpointing
        )
        while len(sizes) < CHECKPOINTS:
            for entry in await store.completed():
                if entry.number not in sizes:
                    sizes[entry.number] = stored(await store.read_metadata(entry.directory))
            await asyncio.wait((job,), timeout=LOOK_S)
        job.cancel()
        with suppress(asyncio.CancelledError):
            await job
    assert max(sizes.values()) <= bound
    assert max(sizes.values()) > bound // 4
