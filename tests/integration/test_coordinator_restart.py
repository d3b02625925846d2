"""A killed coordinator is replaced, and jobs continue to the result of a run without failure."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster import JobProgress, LocalCluster
from flinknet.config import FlinknetConfig
from flinknet.config.restart_strategy import NO_RESTART
from flinknet.datastream import CollectSink, GeneratorSource, StreamExecutionEnvironment
from flinknet.errors import JobError, JobFailedError
from flinknet.graph.graph import JobGraph
from flinknet.operators.sink import CommitContext, Committer, TwoPhaseSink
from tests.integration.test_recovery import (
    EXPECTED,
    RECORDS,
    complete,
    config_of,
    numbers_in,
    sums,
    written,
)

CHECKPOINTS = "checkpoints"


class Run:
    """A job on a local cluster."""

    def __init__(self, config: FlinknetConfig) -> None:
        self.config = config
        self.attempts: set[int] = set()
        self.said: list[str] = []
        self._runs: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.cluster = LocalCluster(config, on_output=lambda process, line: self.said.append(line))

    def start(self, graph: JobGraph) -> asyncio.Task[Any]:
        return asyncio.create_task(self.cluster.execute(graph, self._watch))

    def _watch(self, progress: JobProgress) -> None:
        self.attempts.add(progress.attempt)
        if progress.state == "RUNNING" and not self._runs.done():
            self._runs.set_result(progress.job_id)

    async def runs(self) -> str:
        """Return the job's id once all subtasks run."""
        return await self._runs

    async def store(self) -> CheckpointStore:
        checkpointing = self.config.checkpointing
        storage = FileStorage(Path(checkpointing.directory), checkpointing)
        return CheckpointStore(storage, await self.runs(), checkpointing)

    def kill_coordinator(self) -> int:
        pid = self.cluster.pids()["coordinator"]
        os.kill(pid, signal.SIGKILL)
        return pid


async def test_a_job_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    """The coordinator is killed twice, the second time with a worker; counts and sums are exact."""
    run = Run(config_of(tmp_path / CHECKPOINTS))
    async with run.cluster as cluster:
        workers = {name: pid for name, pid in cluster.pids().items() if name != "coordinator"}
        job = run.start(sums(tmp_path / "go"))
        store = await run.store()
        newest = await complete(store, 0, job)
        pid = run.kill_coordinator()
        newest = await complete(store, newest + 1, job)
        assert {name: cluster.pids()[name] for name in workers} == workers, "they live on"
        os.kill(workers["worker-0"], signal.SIGKILL)
        run.kill_coordinator()
        await complete(store, newest + 1, job)
        (tmp_path / "go").touch()
        result = await job
    assert sorted(result.collected["sums"]) == EXPECTED
    assert max(run.attempts) >= 2
    (said,) = [line for line in run.said if "(restart 1 of 10" in line]
    assert said.startswith(f"the coordinator (pid {pid}) killed by signal 9 (SIGKILL): another")
    assert any('job "sums" (' in line and "is resumed, it was" in line for line in run.said)


async def test_without_a_complete_checkpoint_a_job_begins_again(tmp_path: Path) -> None:
    graph = sums(tmp_path / "go")
    assert graph.checkpointing is not None
    never = replace(graph.checkpointing, interval_ms=600_000.0)
    run = Run(config_of(tmp_path / CHECKPOINTS))
    async with run.cluster:
        job = run.start(replace(graph, checkpointing=never, restart=NO_RESTART))
        await run.runs()
        run.kill_coordinator()
        (tmp_path / "go").touch()
        result = await job
        store = await run.store()
        assert await store.completed() == []
    assert sorted(result.collected["sums"]) == EXPECTED
    assert max(run.attempts) == 1


async def test_a_job_without_checkpoints_fails_with_that(tmp_path: Path) -> None:
    graph = replace(sums(tmp_path / "go"), checkpointing=None, restart=NO_RESTART)
    run = Run(config_of(tmp_path / CHECKPOINTS))
    async with run.cluster:
        job = run.start(graph)
        await run.runs()
        pid = run.kill_coordinator()
        with pytest.raises(JobFailedError, match="has no checkpoints to continue from") as failed:
            await job
    assert f'job "sums" failed: the coordinator (pid {pid}) was lost' in str(failed.value)


async def test_readers_see_each_record_once_although_the_coordinator_dies(tmp_path: Path) -> None:
    output = tmp_path / "out"
    run = Run(config_of(tmp_path / CHECKPOINTS))
    async with run.cluster:
        job = run.start(written(output, tmp_path / "go"))
        store = await run.store()
        newest = 0
        for _ in range(2):
            newest = await complete(store, newest + 1, job)
            run.kill_coordinator()
        await complete(store, newest, job)
        (tmp_path / "go").touch()
        await job
    assert sorted(numbers_in(output)) == list(range(RECORDS))
    assert not [entry.name for entry in output.iterdir() if entry.name.startswith(".")]


class Slow(TwoPhaseSink):
    """A two-phase sink with a committer that waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0

    def write(self, records: list[Any]) -> None:
        self._count += len(records)

    def prepare_commit(self) -> int:
        return self._count

    def create_committer(self, context: CommitContext) -> Committer:
        return Waiting(self.folder)


class Waiting(Committer):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def commit(self, committables: list[int]) -> None:
        with (self._folder / "calls").open("a") as calls:
            calls.write("commit\n")
        while not (self._folder / "go").exists():
            time.sleep(0.01)
        (self._folder / "committed").write_text(f"{sum(committables)}")

    def abort(self) -> None:
        (self._folder / "aborted").touch()


async def test_a_commit_under_way_is_made_all_the_same(tmp_path: Path) -> None:
    """The new coordinator repeats a commit that was under way.

    All subtasks have finished, so the job succeeds without checkpoints, and without a restart,
    which its strategy does not allow.
    """
    environment = StreamExecutionEnvironment().set_parallelism(2)
    numbers = environment.from_source(GeneratorSource(lambda number: number, 1_000))
    numbers.sink_to(Slow(tmp_path))
    numbers.sink_to(CollectSink()).name("numbers")
    run = Run(config_of(tmp_path / CHECKPOINTS))
    async with run.cluster:
        job = run.start(environment.job_graph("committed"))
        calls = tmp_path / "calls"
        while not (calls.exists() and calls.read_text()):
            await asyncio.sleep(0.01)
        run.kill_coordinator()
        while not any("listening" in line for line in run.said[1:]):
            await asyncio.sleep(0.01)
        (tmp_path / "go").touch()
        result = await job
    assert sorted(result.collected["numbers"]) == list(range(1_000))
    assert (tmp_path / "committed").read_text() == "1000"
    assert calls.read_text().splitlines() == ["commit"] * 2
    assert not (tmp_path / "aborted").exists()
    assert run.attempts == {0}


async def test_a_coordinator_that_dies_now_and_then_is_replaced_each_time(tmp_path: Path) -> None:
    """A coordinator is replaced each time, because old failures do not count towards the limit."""
    config = config_of(tmp_path / CHECKPOINTS)
    rarely = replace(config.cluster, coordinator_restarts=1, coordinator_restarts_interval_ms=1.0)
    run = Run(replace(config, cluster=rarely))
    async with run.cluster:
        job = run.start(sums(tmp_path / "go"))
        store = await run.store()
        newest = -1
        for _ in range(3):
            newest = await complete(store, newest + 1, job)
            run.kill_coordinator()
        await complete(store, newest + 1, job)
        (tmp_path / "go").touch()
        result = await job
    assert sorted(result.collected["sums"]) == EXPECTED
    assert len([line for line in run.said if "(restart 1 of 1 " in line]) == 3


async def test_a_coordinator_that_dies_again_and_again_ends_the_cluster(tmp_path: Path) -> None:
    config = config_of(tmp_path / CHECKPOINTS)
    config = replace(config, cluster=replace(config.cluster, coordinator_restarts=1))
    run = Run(config)
    async with run.cluster as cluster:
        kept = cluster._launcher._children._jobs
        assert kept is not None
        jobs = kept.path
        assert list(jobs.iterdir())
        job = run.start(sums(tmp_path / "go"))
        await run.runs()
        pid = run.kill_coordinator()
        while not job.done() and cluster.pids()["coordinator"] == pid:
            await asyncio.sleep(0.01)
        last = run.kill_coordinator()
        with pytest.raises(JobError, match=rf"the coordinator \(pid {last}\) killed by signal 9"):
            await job
    assert not jobs.exists()
