"""How backpressure propagates: a source, a middle stage and a slow last one, two exchanges.

The pool usage of each task is read from the coordinator while the job starts. The input pool of the
last stage becomes full first, then the output pool of the middle stage, then its input pool, and
finally the output pool of the source. From then on, the source makes no more than the last stage
processes.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any, NamedTuple

from bench.errors import BenchError
from flinknet.cluster import LocalCluster
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.submission import Submission
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import GeneratorSource, RateLimitedSource, StreamExecutionEnvironment
from flinknet.errors import FlinknetError
from flinknet.graph.graph import JobGraph

__all__ = ["FULL", "POOLS", "ThreeStages", "run_three_stages"]

RECORD_BYTES = 1_000
SOURCE_PER_S = 8_000
LAST_PER_S = 500
READ_S = 0.05
PATIENCE_S = 60.0
STAGES = 3

POOLS = ("last, in", "middle, out", "middle, in", "source, out")
"""The pools in the order in which they become full."""

FULL = 0.9
"""Share of a pool in use above which it counts as full."""

CONFIG = FlinknetConfig(
    network=NetworkConfig(
        segment_bytes=32 * 1024, floating_buffers_per_gate=30, buffers_per_subpartition_max=32
    ),
    cluster=ClusterConfig(workers=3, slots_per_worker=1, statistics_interval_ms=1000 * READ_S),
)
"""A worker for each stage; 32 buffers of 32 KiB at each end of an exchange."""


class ThreeStages(NamedTuple):
    """The usage of each pool at each time, in seconds since the first time."""

    times_s: list[float]
    usage: dict[str, list[float]]
    records_per_s: float
    """Rate of the last stage, at the end."""

    def full_s(self, pool: str) -> float | None:
        """Return when a pool was full for the first time; None if it never was."""
        full = (at for at, part in zip(self.times_s, self.usage[pool], strict=True) if part >= FULL)
        return next(full, None)


async def slowly(record: bytes) -> None:
    """Process a record slowly, as a function that waits for a service."""
    await asyncio.sleep(1 / LAST_PER_S)


def job() -> JobGraph:
    """Return the job, which is endless."""
    environment = StreamExecutionEnvironment()
    source = RateLimitedSource(GeneratorSource(lambda number: bytes(RECORD_BYTES)), SOURCE_PER_S)
    made = environment.from_source(source).name("source").slot_sharing_group("source")
    middle = made.rebalance().map(lambda record: record).name("middle")
    last = middle.slot_sharing_group("middle").rebalance().sink_to(slowly)
    last.name("last").slot_sharing_group("last")
    return environment.job_graph("three stages")


def run_three_stages(seconds: float) -> ThreeStages:
    """Run once, for ``seconds``. Raises BenchError if the job fails."""
    try:
        return asyncio.run(_run(seconds))
    except (FlinknetError, TimeoutError) as error:
        raise BenchError(f"three stages: {error}") from error


async def _run(seconds: float) -> ThreeStages:
    async with LocalCluster(CONFIG) as cluster:
        client = CoordinatorClient(cluster.address, cluster.token, CONFIG.cluster)
        job_id = await client.submit(Submission.of_graph(job()))
        times_s: list[float] = []
        tasks: list[dict[str, Any]] = []
        usage: dict[str, list[float]] = {pool: [] for pool in POOLS}
        async with asyncio.timeout(PATIENCE_S + seconds):
            begun: float | None = None
            while begun is None or monotonic() - begun < seconds:
                tasks = (await client.read(f"/api/v1/jobs/{job_id}/diagnosis"))["tasks"]
                if len(tasks) == STAGES:
                    begun = begun or monotonic()
                    times_s.append(round(monotonic() - begun, 3))
                    for pool, part in _usage(tasks).items():
                        usage[pool].append(part)
                await asyncio.sleep(READ_S)
        last = next(task for task in tasks if task["task"]["vertex"] == 2)
        await client.cancel(job_id)
    return ThreeStages(times_s, usage, last["throughput"]["records_in_per_s"])


def _usage(tasks: list[dict[str, Any]]) -> dict[str, float]:
    source, middle, last = sorted(tasks, key=lambda task: int(task["task"]["vertex"]))
    parts = (last["in_pool"], middle["out_pool"], middle["in_pool"], source["out_pool"])
    return {pool: round(part, 3) for pool, part in zip(POOLS, parts, strict=True)}
