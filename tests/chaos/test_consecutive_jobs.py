"""Hundreds of jobs, one after the other, on one cluster: none is refused, and memory stays flat."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from flinknet.cluster import LocalCluster
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import CollectSink, GeneratorSource, StreamExecutionEnvironment
from flinknet.errors import JobFailedError
from flinknet.graph.graph import JobGraph

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

JOBS = 500
WARM_UP_JOBS = 100
GROWTH_BYTES_MAX = 8 * 2**20
"""Growth of one process in the 400 jobs after the warm-up; each job holds 4 MB of state."""

STATE_BYTES = 1_000_000
CONFIG = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
    cluster=ClusterConfig(progress_interval_ms=50.0),
)


def job(fatal: int | None) -> JobGraph:
    """Return a job that takes all slots of the cluster, with an optional fatal record."""
    environment = StreamExecutionEnvironment().set_parallelism(4)
    state = bytearray()

    def check(number: int) -> int:
        if not state:
            state.extend(bytes(STATE_BYTES))
        if number == fatal:
            raise ValueError("on purpose")
        return number

    numbers = environment.from_source(GeneratorSource(int, 200)).rebalance()
    numbers.map(check).sink_to(CollectSink()).name("out")
    return environment.job_graph("one of many")


def resident_bytes(pids: dict[str, int]) -> dict[str, int]:
    sizes = {}
    for name, pid in pids.items():
        status = Path(f"/proc/{pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        sizes[name] = int(found[1]) * 1024
    return sizes


async def test_500_consecutive_jobs_are_never_refused_and_memory_stays_flat(
    request: pytest.FixtureRequest,
) -> None:
    """No job is refused, and memory stays flat, although two thirds of the jobs fail.

    They fail at a random record.
    """
    chance = random.Random(request.config.getoption("--seed"))
    async with LocalCluster(CONFIG, on_output=lambda process, line: None) as cluster:
        before: dict[str, int] = {}
        for number in range(JOBS):
            if number == WARM_UP_JOBS:
                before = resident_bytes(cluster.pids())
            if number % 3 == 0:
                result = await cluster.execute(job(None))
                assert sorted(result.collected["out"]) == list(range(200))
            else:
                with pytest.raises(JobFailedError, match="on purpose"):
                    await cluster.execute(job(chance.randrange(200)))
        after = resident_bytes(cluster.pids())
    print(f"\n{'process':12} {'MB after ' + str(WARM_UP_JOBS):>14} {'after ' + str(JOBS):>10}")
    for name, size in sorted(after.items()):
        print(f"{name:12} {before[name] / 1e6:14.1f} {size / 1e6:10.1f}")
    assert all(after[name] - before[name] <= GROWTH_BYTES_MAX for name in after), (before, after)
