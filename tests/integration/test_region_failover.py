"""A failure restarts the part of a job that exchanges records with it; the rest continues."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, Literal, Self

import pytest

from flinknet.cluster import JobProgress, LocalCluster
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.config import CheckpointingConfig, ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    CollectSink,
    GeneratorSource,
    KeyedProcessFunction,
    ProcessContext,
    RateLimitedSource,
    RestartStrategies,
    StreamExecutionEnvironment,
)
from flinknet.graph.graph import JobGraph
from tests.integration.cluster_runs import LOOK_S
from tests.integration.test_recovery import EXPECTED, KEYS, RATE, RECORDS, Held

SIDES = ("left", "right")


class FailsOnce(KeyedProcessFunction):
    """A function that fails once when a file exists."""

    def __init__(self, asked: Path) -> None:
        self._asked = asked

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
        if self._asked.exists():
            with suppress(FileNotFoundError):
                self._asked.unlink()
                raise ValueError("as it was asked to")
        yield value


def two_pipelines(directory: Path, parallelism: int, *, apart: bool) -> JobGraph:
    """Return a job that counts and sums numbers by key on two independent sides.

    With ``apart``, the sides share no slots. They end once the file "go" exists.
    """
    environment = StreamExecutionEnvironment().set_parallelism(parallelism)
    environment.enable_checkpointing(100)
    environment.get_checkpoint_config().set_tolerable_checkpoint_failure_number(1000)
    environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(100, 0.0))
    for side in SIDES:
        numbers = GeneratorSource(lambda number: (number % KEYS, 1, number), RECORDS)
        source = Held(RateLimitedSource(numbers, RATE), directory / "go")
        stream = environment.from_source(source).name(f"{side} source")
        if apart:
            stream = stream.slot_sharing_group(side)
        checked = stream.key_by(lambda record: record[0]).process(FailsOnce(directory / side))
        totals = checked.key_by(lambda record: record[0]).reduce(
            lambda one, other: (one[0], one[1] + other[1], one[2] + other[2]), emit="end_of_input"
        )
        totals.sink_to(CollectSink()).name(side)
    return environment.job_graph("two pipelines")


class Story:
    """A job, as the coordinator's REST API shows it."""

    def __init__(self, client: CoordinatorClient, job_id: str) -> None:
        self._client = client
        self.job_id = job_id

    async def subtasks(self, side: str) -> list[dict[str, Any]]:
        """Return all subtasks of a side."""
        vertices = (await self._client.read(f"/v1/jobs/{self.job_id}"))["vertices"]
        half = len(vertices) // 2
        paths = [f"/v1/jobs/{self.job_id}/vertices/{vertex['id']}" for vertex in vertices]
        mine = paths[:half] if side == "left" else paths[half:]
        told = [(await self._client.read(path))["subtasks"] for path in mine]
        return [subtask for subtasks in told for subtask in subtasks]

    async def begun(self, side: str) -> set[tuple[int, int]]:
        """Return the attempt numbers and start times of a side's subtasks."""
        return {(one["attempt"], one["start-time"]) for one in await self.subtasks(side)}

    async def workers(self, side: str) -> set[str]:
        """Return the workers of a side's subtasks."""
        return {one["taskmanager-id"] for one in await self.subtasks(side)}

    async def restarted(self, side: str, more_than: int) -> int:
        """Wait until a side runs under a larger attempt number; return that number."""
        while True:
            subtasks = await self.subtasks(side)
            numbers = {one["attempt"] for one in subtasks}
            if min(numbers) > more_than and {one["status"] for one in subtasks} == {"RUNNING"}:
                (number,) = numbers
                return int(number)
            await asyncio.sleep(LOOK_S)

    async def checkpointed(self) -> None:
        """Wait for a checkpoint that begins after this call."""
        path = f"/v1/jobs/{self.job_id}/checkpoints"
        counts = (await self._client.read(path))["counts"]
        enough = counts["completed"] + counts["in_progress"] + 1
        while (await self._client.read(path))["counts"]["completed"] < enough:
            await asyncio.sleep(LOOK_S)

    async def failures(self) -> list[str]:
        """Return the stack traces of failures, the latest first."""
        told = await self._client.read(f"/v1/jobs/{self.job_id}/exceptions")
        return [one["stacktrace"] for one in told["exceptionHistory"]["entries"]]

    async def restarts(self) -> int:
        """Return the metric ``numRestarts``."""
        path = f"/v1/jobs/{self.job_id}/metrics?get=numRestarts"
        return int((await self._client.read(path))[0]["value"])


class Running:
    """A job of two pipelines on two workers."""

    def __init__(
        self,
        directory: Path,
        *,
        parallelism: int,
        apart: bool,
        strategy: Literal["region", "full"] = "region",
    ) -> None:
        self.directory = directory
        self.config = FlinknetConfig(
            network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
            cluster=ClusterConfig(
                slots_per_worker=1, progress_interval_ms=20.0, failover_strategy=strategy
            ),
            checkpointing=CheckpointingConfig(directory=str(directory / "checkpoints")),
        )
        self._graph = two_pipelines(directory, parallelism, apart=apart)
        self.said: list[str] = []
        self.attempts: set[int] = set()
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.cluster = await self._resources.enter_async_context(
            LocalCluster(self.config, on_output=lambda process, line: self.said.append(line))
        )
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(progress: JobProgress) -> None:
            self.attempts.add(progress.attempt)
            if not started.done():
                started.set_result(progress.job_id)

        self._job = asyncio.create_task(self.cluster.execute(self._graph, watch))
        client = CoordinatorClient(self.cluster.address, self.cluster.token, self.config.cluster)
        self.story = Story(client, await started)
        await self.story.checkpointed()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._resources.aclose()

    def kill(self, worker_id: str) -> None:
        """Kill a process of the cluster with SIGKILL."""
        os.kill(self.cluster.pids()[worker_id], signal.SIGKILL)

    async def check_result(self) -> None:
        """Let the job end, and check that each side has counted each record once."""
        (self.directory / "go").touch()
        result = await self._job
        for side in SIDES:
            assert sorted(result.collected[side]) == EXPECTED


@pytest.mark.parametrize("seed", [1, 2])
async def test_only_regions_on_a_killed_worker_restart(tmp_path: Path, seed: int) -> None:
    """A worker of either side is killed, three times.

    The other side's subtasks stay as they are. Checkpoints then cover both sides again, and both
    results are exact.
    """
    random = Random(seed)
    async with Running(tmp_path, parallelism=1, apart=True) as running:
        story = running.story
        assert await story.workers("left") != await story.workers("right")
        number = 0
        for _ in range(3):
            side, other = random.sample(SIDES, 2)
            before = await story.begun(other)
            (worker_id,) = await story.workers(side)
            ((last, _),) = await story.begun(side)
            running.kill(worker_id)
            number = await story.restarted(side, max(last, number))
            await story.checkpointed()
            assert await story.begun(other) == before, "it has not noticed"
        assert await story.restarts() == number == 3
        assert len(await story.failures()) == 3
        await running.check_result()
    assert running.attempts == {0}, "all of it is one attempt"
    assert sum("failed and restart, the others go on" in line for line in running.said) == 3


async def test_a_function_that_fails_takes_only_its_side_with_it(tmp_path: Path) -> None:
    """A failing function restarts only its side, though both sides are in the same slots."""
    async with Running(tmp_path, parallelism=2, apart=False) as running:
        story = running.story
        before = await story.begun("left")
        (tmp_path / "right").touch()
        assert await story.restarted("right", 0) == 1
        await story.checkpointed()
        assert await story.begun("left") == before
        assert await story.workers("left") == await story.workers("right")
        assert "as it was asked to" in (await story.failures())[0]
        (tmp_path / "left").touch()
        assert await story.restarted("left", 1) == 2
        await running.check_result()
    assert running.attempts == {0}


async def test_the_loss_of_a_worker_with_all_regions_restarts_all(tmp_path: Path) -> None:
    async with Running(tmp_path, parallelism=2, apart=False) as running:
        running.kill("worker-0")
        assert await running.story.restarted("left", 0) == 1
        assert {number for number, _ in await running.story.begun("right")} == {1}
        await running.check_result()
    assert running.attempts == {0, 1}


async def test_the_strategy_full_restarts_the_whole_job(tmp_path: Path) -> None:
    async with Running(tmp_path, parallelism=1, apart=True, strategy="full") as running:
        (worker_id,) = await running.story.workers("right")
        running.kill(worker_id)
        assert await running.story.restarted("left", 0) == 1
        await running.check_result()
    assert running.attempts == {0, 1}


async def test_the_next_coordinator_restarts_the_whole_of_a_partly_restarted_job(
    tmp_path: Path,
) -> None:
    async with Running(tmp_path, parallelism=1, apart=True) as running:
        story = running.story
        (worker_id,) = await story.workers("right")
        running.kill(worker_id)
        assert await story.restarted("right", 0) == 1
        await story.checkpointed()
        running.kill("coordinator")
        assert await story.restarted("left", 0) == 2, "a number that has never been"
        await running.check_result()
