"""``execute_and_collect`` in jobs with checkpoints: each record once, and no needless restart."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.launch.job_control import JobControl
from flinknet.cluster.launch.local.local_cluster import LocalCluster
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.datastream import (
    DataStream,
    GeneratorSource,
    RateLimitedSource,
    StreamExecutionEnvironment,
)
from flinknet.datastream.executor import set_executor
from flinknet.graph.graph import JobGraph

EventLoop = Literal["uvloop", "asyncio"]


@asynccontextmanager
async def cluster(event_loop: EventLoop, said: list[str]) -> AsyncIterator[None]:
    """Run the jobs of this process on a local cluster."""
    config = FlinknetConfig(
        cluster=ClusterConfig(workers=2, slots_per_worker=3, event_loop=event_loop)
    )
    loop = asyncio.get_running_loop()
    async with LocalCluster(config, on_output=lambda who, line: said.append(line)) as running:

        def execute(graph: JobGraph, control: JobControl | None) -> JobResult:
            result: Future[JobResult] = Future()

            async def run() -> None:
                task = asyncio.create_task(running.execute(graph))
                assert control is not None
                control.start(lambda: loop.call_soon_threadsafe(task.cancel))
                await asyncio.wait([task])
                if task.cancelled():
                    result.set_exception(asyncio.CancelledError())
                elif (error := task.exception()) is not None:
                    result.set_exception(error)
                else:
                    result.set_result(task.result())

            asyncio.run_coroutine_threadsafe(run(), loop)
            return result.result()

        set_executor(execute)
        try:
            yield
        finally:
            await asyncio.to_thread(set_executor, None)


class Jobs:
    """The common part of the test's jobs."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)

    def numbers(
        self,
        count: int | None = None,
        rate: float | None = None,
        *,
        parallelism: int = 1,
        interval_ms: float = 100.0,
    ) -> DataStream:
        """Return the numbers from 0 on, ``rate`` of them a second."""
        environment = StreamExecutionEnvironment().set_parallelism(parallelism)
        environment.enable_checkpointing(interval_ms)
        environment.get_checkpoint_config().set_checkpoint_storage_dir(self._directory)
        source = GeneratorSource(lambda number: number, count=count)
        return environment.from_source(
            source if rate is None else RateLimitedSource(source, rate), name="numbers"
        )

    def once(self, at: int, act: Callable[[], None]) -> Callable[[int], int]:
        """Return a function that calls ``act`` when a number comes for the first time."""
        flag = f"{self._directory}/did-{act.__name__}"

        def check(number: int) -> int:
            if number == at:
                try:
                    os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    return number
                act()
            return number

        return check


def fail() -> None:
    """Let a subtask fail."""
    raise ValueError("once")


def kill() -> None:
    """Kill a worker."""
    os.kill(os.getpid(), signal.SIGKILL)


def slowly(records: Iterator[Any]) -> Iterator[Any]:
    """Yield records slowly, as a program with other work reads them."""
    for place, record in enumerate(records):
        if place % 4_000 == 0:
            time.sleep(0.1)
        yield record


def calm(jobs: Jobs) -> None:
    """Run jobs in which nothing fails."""
    assert list(jobs.numbers(10, interval_ms=60_000.0).execute_and_collect()) == [*range(10)]
    assert list(jobs.numbers(10).filter(lambda number: False).execute_and_collect()) == []
    assert jobs.numbers().execute_and_collect(limit=3) == [0, 1, 2]
    paced = jobs.numbers(60, 300.0, parallelism=3).rebalance().map(lambda number: number)
    assert sorted(paced.execute_and_collect()) == [*range(60)]
    assert list(slowly(jobs.numbers(30_000).execute_and_collect())) == [*range(30_000)]
    with jobs.numbers(rate=1_000.0).execute_and_collect() as records:
        assert [next(records) for _ in range(20)] == [*range(20)]


def failing(jobs: Jobs) -> None:
    """Run jobs that restart behind records that were already given out."""
    for act in (fail, kill):
        stream = jobs.numbers(300, 300.0, parallelism=2, interval_ms=50.0)
        stream = stream.map(jobs.once(200, act)).rebalance().map(lambda number: number)
        assert sorted(slowly(stream.execute_and_collect())) == [*range(300)]


@pytest.mark.parametrize("event_loop", ["uvloop", "asyncio"])
async def test_each_record_is_given_out_once(tmp_path: Path, event_loop: EventLoop) -> None:
    """Every record is given out once, and calm jobs have no restart.

    Calm jobs run at full speed or a limited rate, have no records, or an exchange and several
    subtasks. Their programs read slowly, stop at a limit, or close the iterator. A failing function
    and a killed worker cause one restart each.
    """
    said: list[str] = []
    async with cluster(event_loop, said):
        await asyncio.to_thread(calm, Jobs(tmp_path))
        assert not [line for line in said if "failed" in line]
        await asyncio.to_thread(failing, Jobs(tmp_path))
    restarts = [line for line in said if "attempt 0 failed, and the job restarts" in line]
    assert len(restarts) == 2, said
