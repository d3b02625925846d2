"""200 subtasks in one worker: 100 sources and 100 keyed sinks.

Each source is connected with each sink, so there are 10,000 local channels.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from flinknet.cluster import LocalCluster
from flinknet.cluster.control.job_result import JobResult
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import CollectSink, GeneratorSource, StreamExecutionEnvironment
from flinknet.graph.graph import JobGraph

__all__ = ["SUBTASKS", "SubtasksOutcome", "job", "make_record", "measure_subtasks", "totals"]

PARALLELISM = 100
SUBTASKS = 2 * PARALLELISM
KEYS = 1_000
WORKER = "worker-0"

CONFIG = FlinknetConfig(
    network=NetworkConfig(segment_bytes=4096, network_memory_bytes=96 << 20),
    cluster=ClusterConfig(workers=1, slots_per_worker=PARALLELISM),
)
"""One worker with small buffers, of which each of the 10,000 channels has two."""

Total = tuple[int, int, int]
"""A key, its records, and the sum of their numbers."""


@dataclass(frozen=True, slots=True)
class SubtasksOutcome:
    """A completed job: seconds from its submission to its end, CPU seconds of the worker."""

    records: int
    seconds: float
    cpu_seconds: float
    subtasks: int
    verified: bool


def job(records: int) -> JobGraph:
    """Return the job, which sends numbers to the sink of their key, which counts and adds them."""
    environment = StreamExecutionEnvironment().set_parallelism(PARALLELISM)
    stream = environment.from_source(GeneratorSource(make_record, records)).key_by(itemgetter(0))
    stream.reduce(_add, emit="end_of_input").sink_to(CollectSink()).name("totals")
    return environment.job_graph(f"{SUBTASKS} subtasks")


def totals(records: int) -> list[Total]:
    """Return the expected totals, by key."""
    numbers_by_key = [range(key, records, KEYS) for key in range(min(KEYS, records))]
    return [(key, len(numbers), sum(numbers)) for key, numbers in enumerate(numbers_by_key)]


def measure_subtasks(records: int) -> SubtasksOutcome:
    """Run the job once on its own cluster."""
    return asyncio.run(_measure(records))


async def _measure(records: int) -> SubtasksOutcome:
    async with LocalCluster(CONFIG) as cluster:
        pid = cluster.pids()[WORKER]
        before = _cpu_seconds(pid)
        result: JobResult = await cluster.execute(job(records))
        cpu_seconds = _cpu_seconds(pid) - before
    workers = {vertex["worker_id"] for vertex in result.vertices}
    right = sorted(map(tuple, result.collected["totals"])) == totals(records)
    verified = right and len(result.vertices) == SUBTASKS and workers == {WORKER}
    return SubtasksOutcome(records, result.seconds, cpu_seconds, len(result.vertices), verified)


def make_record(number: int) -> Total:
    """Return a record: its key, a count of 1, and the number."""
    return number % KEYS, 1, number


def _add(left: Total, right: Total) -> Total:
    return left[0], left[1] + right[1], left[2] + right[2]


def _cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process."""
    # The fields follow the name of the process, which may contain any character.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
