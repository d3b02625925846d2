"""Savepoints of jobs in real processes, and jobs that continue from them, also rescaled."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flinknet.cluster import JobProgress, LocalCluster
from flinknet.config import CheckpointingConfig, ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    CollectSink,
    GeneratorSource,
    RateLimitedSource,
    StreamExecutionEnvironment,
)
from flinknet.errors import (
    CheckpointCorruptedError,
    CheckpointError,
    CheckpointNotFoundError,
    JobError,
    StateError,
)
from flinknet.graph.graph import JobGraph
from tests.unit.checkpoint.checkpoints import change

KEYS = 101
RECORDS = 100_000
EXPECTED = [
    (key, len(range(key, RECORDS, KEYS)), sum(range(key, RECORDS, KEYS))) for key in range(KEYS)
]


def sums(parallelism: int = 2, *, checkpointed: bool = True, uid: str = "sums") -> JobGraph:
    """Return a job that counts and sums numbers by key for two seconds."""
    environment = StreamExecutionEnvironment().set_parallelism(2).set_max_parallelism(16)
    if checkpointed:
        environment.enable_checkpointing(200)
    numbers = GeneratorSource(lambda number: (number % KEYS, 1, number), RECORDS)
    stream = environment.from_source(RateLimitedSource(numbers, 50_000.0)).uid("numbers")
    totals = stream.key_by(lambda record: record[0]).reduce(
        lambda one, other: (one[0], one[1] + other[1], one[2] + other[2]), emit="end_of_input"
    )
    totals.set_parallelism(parallelism).uid(uid)
    totals.sink_to(CollectSink()).set_parallelism(parallelism).name("sums").uid("out")
    return environment.job_graph("sums")


def config_of(directory: Path) -> FlinknetConfig:
    return FlinknetConfig(
        network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
        cluster=ClusterConfig(progress_interval_ms=20.0, slots_per_worker=2),
        checkpointing=CheckpointingConfig(directory=str(directory)),
    )


class Running:
    """A running job; its id is known once it has read some records."""

    def __init__(self, cluster: LocalCluster, graph: JobGraph) -> None:
        self._underway: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.result = asyncio.create_task(cluster.execute(graph, self._watch))

    def _watch(self, progress: JobProgress) -> None:
        read = sum(vertex.records_in for vertex in progress.vertices)
        if read > RECORDS // 10 and not self._underway.done():
            self._underway.set_result(progress.job_id)

    async def underway(self) -> str:
        return await self._underway


def quiet(process: str, line: str) -> None:
    """Ignore a line of output."""


@pytest.mark.parametrize("checkpointed", [True, False])
async def test_a_job_continues_from_a_savepoint_at_another_parallelism(
    tmp_path: Path, checkpointed: bool
) -> None:
    """The saved job runs to its end; the other one starts from the savepoint, with more subtasks.

    Both have the same result. This holds without periodic checkpoints, too.
    """
    config = config_of(tmp_path / "checkpoints")
    async with LocalCluster(config, on_output=quiet) as cluster:
        job = Running(cluster, sums(checkpointed=checkpointed))
        location = await cluster.savepoint(await job.underway(), str(tmp_path / "saved"))
        assert Path(location).parent.parent == tmp_path / "saved"
        assert sorted((await job.result).collected["sums"]) == EXPECTED
        again = await cluster.execute(sums(3, checkpointed=checkpointed), from_checkpoint=location)
        assert sorted(again.collected["sums"]) == EXPECTED
        read = sum(row["records_in"] for row in again.vertices if row["vertex"] == 0)
        assert read < RECORDS, "it began at its start"


async def test_a_job_that_cannot_be_saved_or_continued_is_an_error(tmp_path: Path) -> None:
    """An unwritable directory fails the savepoint, and not the job.

    A directory that is no checkpoint, a damaged one, and one of another job are refused by name.
    """
    async with LocalCluster(config_of(tmp_path / "checkpoints"), on_output=quiet) as cluster:
        job = Running(cluster, sums())
        job_id = await job.underway()
        (tmp_path / "file").write_text("no directory")
        with pytest.raises(CheckpointError, match=f"the savepoint failed.*{tmp_path / 'file'}"):
            await cluster.savepoint(job_id, str(tmp_path / "file"))
        with pytest.raises(JobError, match="no job 4711"):
            await cluster.savepoint("4711")
        location = await cluster.savepoint(job_id)
        assert Path(location).parent == tmp_path / "checkpoints" / job_id
        assert sorted((await job.result).collected["sums"]) == EXPECTED
        with pytest.raises(JobError, match=r"is FINISHED: .* needs all subtasks of the job to run"):
            await cluster.savepoint(job_id)
        with pytest.raises(CheckpointNotFoundError, match="is not a checkpoint or savepoint"):
            await cluster.execute(sums(), from_checkpoint=str(tmp_path))
        with pytest.raises(StateError, match="does not have: sums; give its operators"):
            await cluster.execute(sums(uid="others"), from_checkpoint=location)
        metadata = Path(location) / "metadata"
        change(metadata, "a bit")
        with pytest.raises(CheckpointCorruptedError, match=str(metadata)):
            await cluster.execute(sums(), from_checkpoint=location)


async def test_a_job_is_suspended_and_goes_on_elsewhere(tmp_path: Path) -> None:
    """The job ends FINISHED without emitting its sums, which belong to the end of input.

    The job that continues from the savepoint has the whole sums.
    """
    async with LocalCluster(config_of(tmp_path / "checkpoints"), on_output=quiet) as cluster:
        job = Running(cluster, sums())
        location = await cluster.stop(await job.underway(), str(tmp_path / "saved"))
        ended = await job.result
        assert ended.state == "FINISHED"
        assert ended.collected.get("sums", []) == []
        read = sum(row["records_in"] for row in ended.vertices if row["vertex"] == 0)
        again = await cluster.execute(sums(3), from_checkpoint=location)
        assert sorted(again.collected["sums"]) == EXPECTED
        rest = sum(row["records_in"] for row in again.vertices if row["vertex"] == 0)
        assert read < RECORDS
        assert rest < RECORDS


async def test_a_job_is_drained(tmp_path: Path) -> None:
    """The job emits the sums of all records read, as at an end of input, before the savepoint."""
    async with LocalCluster(config_of(tmp_path / "checkpoints"), on_output=quiet) as cluster:
        job = Running(cluster, sums())
        await cluster.stop(await job.underway(), drain=True)
        ended = await job.result
        read = sum(row["records_out"] for row in ended.vertices if row["vertex"] == 0)
        assert 0 < read < RECORDS
        assert len(ended.collected["sums"]) == KEYS
        assert sum(count for _, count, _ in ended.collected["sums"]) == read
