"""``execute_and_collect`` in jobs with checkpoints: each record once, and no restart in vain."""

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
    """One that runs the jobs of this process."""
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
    """What the jobs of a program have in common."""

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
        """The numbers from 0 on, some of them a second."""
        environment = StreamExecutionEnvironment().set_parallelism(parallelism)
        environment.enable_checkpointing(interval_ms)
        environment.get_checkpoint_config().set_checkpoint_storage_dir(self._directory)
        source = GeneratorSource(lambda number: number, count=count)
        return environment.from_source(
            source if rate is None else RateLimitedSource(source, rate), name="numbers"
        )

    def once(self, at: int, act: Callable[[], None]) -> Callable[[int], int]:
        """Something happens at a number, the first time that it comes."""
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
    """Fail a subtask."""
    raise ValueError("once")


def kill() -> None:
    """Kill a worker."""
    os.kill(os.getpid(), signal.SIGKILL)


def slowly(records: Iterator[Any]) -> Iterator[Any]:
    """Read as a program does that has something else to do."""
    for place, record in enumerate(records):
        if place % 4_000 == 0:
            time.sleep(0.1)
        yield record


def calm(jobs: Jobs) -> None:
    """Jobs in which nothing fails."""
    assert list(jobs.numbers(10, interval_ms=60_000.0).execute_and_collect()) == [*range(10)]
    assert list(jobs.numbers(10).filter(lambda number: False).execute_and_collect()) == []
    assert jobs.numbers().execute_and_collect(limit=3) == [0, 1, 2]
    paced = jobs.numbers(60, 300.0, parallelism=3).rebalance().map(lambda number: number)
    assert sorted(paced.execute_and_collect()) == [*range(60)]
    assert list(slowly(jobs.numbers(30_000).execute_and_collect())) == [*range(30_000)]
    with jobs.numbers(rate=1_000.0).execute_and_collect() as records:
        assert [next(records) for _ in range(20)] == [*range(20)]


def failing(jobs: Jobs) -> None:
    """Jobs that begin again behind records that were given out."""
    for act in (fail, kill):
        stream = jobs.numbers(300, 300.0, parallelism=2, interval_ms=50.0)
        stream = stream.map(jobs.once(200, act)).rebalance().map(lambda number: number)
        assert sorted(slowly(stream.execute_and_collect())) == [*range(300)]


@pytest.mark.parametrize("event_loop", ["uvloop", "asyncio"])
async def test_each_record_is_given_out_once(tmp_path: Path, event_loop: EventLoop) -> None:
    """At once and paced, none at all, with an exchange and several sinks, to a program that reads
    slowly, wants no more or closes the iterator: without any restart. With a function that fails
    and a worker that is killed in the middle: with one each."""
    said: list[str] = []
    async with cluster(event_loop, said):
        await asyncio.to_thread(calm, Jobs(tmp_path))
        assert not [line for line in said if "failed" in line]
        await asyncio.to_thread(failing, Jobs(tmp_path))
    restarts = [line for line in said if "attempt 0 failed, and another one follows" in line]
    assert len(restarts) == 2, said
