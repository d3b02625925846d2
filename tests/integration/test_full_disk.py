"""A job with a full disk runs on without checkpoints, and with them when there is room again.

A limit on the size of files stands for the full disk: the kernel refuses the rest of a file.
Raising the limit makes room.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp

from flinknet.cluster import JobProgress, LocalCluster
from flinknet.cluster.control.credentials import authorization_headers
from flinknet.config import CheckpointingConfig, ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    GeneratorSource,
    KeyedProcessFunction,
    ProcessContext,
    RateLimitedSource,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)

FILE_BYTES_MAX = 50_000
STATE_BYTES = 500
KEYS = 200


class Kept(KeyedProcessFunction):
    """A function with more state than there is room for, until a file exists."""

    def __init__(self, room: Path) -> None:
        self._room = room

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state, and limit the size of files."""
        self._text = runtime_context.get_state(ValueStateDescriptor("text"))
        _, self._hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, self._hard_limit))

    def process_element(self, value: int, ctx: ProcessContext) -> Iterable[int]:
        """Keep state for one record."""
        self._text.update("x" * STATE_BYTES)
        if self._room.exists():
            resource.setrlimit(resource.RLIMIT_FSIZE, (self._hard_limit, self._hard_limit))
        yield value


async def test_a_full_disk_fails_checkpoints_and_not_the_job(tmp_path: Path) -> None:
    """A full disk fails checkpoints, and the job keeps its attempt, which may not fail.

    The same attempt takes checkpoints once there is room.
    """
    environment = StreamExecutionEnvironment().enable_checkpointing(50)
    numbers = RateLimitedSource(GeneratorSource(lambda number: number % KEYS), 2_000.0)
    stream = environment.from_source(numbers).key_by(lambda number: number)
    stream.process(Kept(tmp_path / "room")).sink_to(lambda record: None)
    attempts: set[int] = set()
    config = FlinknetConfig(
        network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
        cluster=ClusterConfig(workers=1, progress_interval_ms=20.0),
        checkpointing=CheckpointingConfig(directory=str(tmp_path / "checkpoints")),
    )
    said: list[str] = []
    async with LocalCluster(config, on_output=lambda process, line: said.append(line)) as cluster:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            attempts.add(progress.attempt)
            if not started.done():
                started.set_result(progress.job_id)

        job = asyncio.create_task(cluster.execute(environment.job_graph("full"), watch))
        job_id = await started
        # the first checkpoints fit, because only few keys have state yet
        await until_failed(cluster, job_id, 3)
        (tmp_path / "room").touch()
        completed = (await checkpoints_of(cluster, job_id))["counts"]["completed"]
        while (await checkpoints_of(cluster, job_id))["counts"]["completed"] < completed + 2:
            assert not job.done()
        await cluster.stop(job_id)
        assert (await job).state == "FINISHED"
    assert attempts == {0}
    assert any("failed: the storage has no space left" in line for line in said), said


async def until_failed(cluster: LocalCluster, job_id: str, count: int) -> None:
    """Wait for ``count`` failures, and check that the message says what to do."""
    while (answer := await checkpoints_of(cluster, job_id))["counts"]["failed"] < count:
        pass
    message = answer["latest"]["failed"]["failure_message"]
    assert message.startswith("the storage has no space left: subtask ")
    assert "File too large; make room there" in message


async def checkpoints_of(cluster: LocalCluster, job_id: str) -> dict[str, Any]:
    """Return the statistics of the job's checkpoints."""
    headers = authorization_headers(cluster.token)
    url = f"http://{cluster.address}/v1/jobs/{job_id}/checkpoints"
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as response:
        answer: dict[str, Any] = await response.json()
        return answer
