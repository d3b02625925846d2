"""Failed jobs leave nothing behind: neither their memory nor the records about them grow."""

from __future__ import annotations

import gc
import linecache
import weakref
from dataclasses import replace
from typing import Any

import pytest

from flinknet.cluster.control.submission import Submission
from flinknet.datastream import (
    GeneratorSource,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flinknet.errors import JobFailedError
from flinknet.graph.graph import JobGraph
from tests.traced_memory import TracedMemory, traced_memory
from tests.unit.cluster.running_cluster import CONFIG, running_cluster

FAILED_JOBS = 250
"""Failures at each of two places."""

WARM_UP_JOBS = 150
"""More than the coordinator remembers, and than the caches of the HTTP client hold."""

KEPT_BYTES_MAX = 2048
"""Bytes kept of a failed job: the names of its partitions, and a line of text for each.

Its state has 200 times as much, and the two ends of one connection exceed the limit for all jobs
together.
"""

STATES_OF_A_JOB = 4

CALM = replace(CONFIG, heartbeat_interval_ms=1_000.0, progress_interval_ms=1_000.0)
"""Hardly any messages except those of jobs, as no test of this module waits for others."""

STATES: weakref.WeakSet[State] = weakref.WeakSet()


class State:
    """State of a subtask."""

    def __init__(self) -> None:
        self.memory = bytearray(100_000)
        STATES.add(self)


class FailsOn(MapFunction):
    """Has state, and fails on one record, or on none."""

    def __init__(self, fatal: int | None) -> None:
        self._fatal = fatal

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = State()

    def map(self, value: Any) -> Any:
        if value == self._fatal:
            raise ValueError("on purpose")
        return value


def failing(place: str) -> JobGraph:
    """Return a job of two producers and two consumers on two workers; a producer or a consumer
    fails."""
    environment = StreamExecutionEnvironment().set_parallelism(2)
    numbers = environment.from_source(GeneratorSource(int, 100))
    produced = numbers.map(FailsOn(50 if place == "producer" else None))
    produced.rebalance().map(FailsOn(50 if place == "consumer" else None)).sink_to(
        lambda number: None
    )
    return environment.job_graph("failing")


def kept_bytes(traced: TracedMemory) -> int:
    """Return the bytes in use, without garbage and without Python's cache of source files.

    Python keeps source files for tracebacks. Which job's error is the first to show a source file
    depends on timing.
    """
    gc.collect()
    linecache.clearcache()
    return traced.now


@pytest.mark.timeout(400)  # minutes on a busy machine
@pytest.mark.parametrize("place", ["producer", "consumer"])
async def test_500_failed_jobs_leave_nothing_behind(place: str) -> None:
    """Only a line of text is kept of a failed partition."""
    submission = Submission.of_graph(failing(place))
    async with running_cluster(config=CALM) as cluster:
        client = cluster.served.client()

        async def fail(times: int) -> None:
            for _ in range(times):
                with pytest.raises(JobFailedError, match="on purpose"):
                    await client.follow(await client.submit(submission), interval_ms=10_000)
                assert len(STATES) <= STATES_OF_A_JOB, "a job's end means that its state is gone"

        with traced_memory() as traced:
            await fail(WARM_UP_JOBS)
            before = kept_bytes(traced)
            await fail(FAILED_JOBS - WARM_UP_JOBS)
            assert kept_bytes(traced) - before <= (FAILED_JOBS - WARM_UP_JOBS) * KEPT_BYTES_MAX
        assert not STATES
        assert cluster.nothing_is_held()
        assert [worker.statistics().peers.lost_total for worker in cluster.environments] == [0, 0]
