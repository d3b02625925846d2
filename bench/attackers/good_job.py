"""The good job: records from one worker to another over TLS, while attackers besiege the cluster.

It sends the block of ``tuple``, as fast as it can or at a pace. The siege begins before the job and
lasts until the job has ended.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

from bench.attackers.siege import besieged, join
from bench.errors import BenchError
from bench.exchange.cases import small_tuples
from bench.harness.case import Case
from bench.harness.side import Round
from bench.harness.trial import Measurement, Plan
from bench.peers.flinknet_job import SINK, SOURCE, BlockSource, CountingSink, Stage, measurement_of
from flinknet.cli import certs
from flinknet.cluster import LocalCluster
from flinknet.cluster.control.job_result import JobResult
from flinknet.config import ClusterConfig, FlinknetConfig, TlsConfig
from flinknet.datastream import RateLimitedSource, StreamExecutionEnvironment
from flinknet.errors import FlinknetError
from flinknet.graph.graph import JobGraph

__all__ = ["ATTACKERS", "CONFIG", "FULL_SPEED", "PACED", "measure_besieged"]

ATTACKERS = 100
JOINS = 5
CONFIG = FlinknetConfig(cluster=ClusterConfig(workers=2, slots_per_worker=1))

FULL_SPEED = replace(
    small_tuples.CASE, name="full-speed", summary="small tuples over TLS, as fast as it goes"
)
PACE = 100_000.0
PACED = replace(
    small_tuples.CASE, name="paced", summary=f"small tuples over TLS, {PACE:,.0f} a second"
)


def measure_besieged(kinds: Mapping[str, int], case: Case, plan: Plan) -> Measurement:
    """Run once. Raises BenchError if the job fails."""
    with tempfile.TemporaryDirectory() as directory, redirect_stdout(StringIO()):
        ours, theirs = Path(directory) / "ours", Path(directory) / "theirs"
        for place in (ours, theirs):
            certs.init(place)
            certs.issue(place, "worker-*", host=["127.0.0.1"])
        tls = TlsConfig(
            str(ours / "worker-any.pem"),
            str(ours / "worker-any.key"),
            str(ours / "ca.pem"),
            http_clients="token",
        )
        config = replace(CONFIG, cluster=replace(CONFIG.cluster, tls=tls))
        foreign = (theirs / "worker-any.pem", theirs / "worker-any.key")
        try:
            result, join_s = asyncio.run(_run(kinds, case, plan, config, foreign))
        except FlinknetError as error:
            raise BenchError(f"{case.name}: {error}") from error
    return measurement_of(result, join_s=join_s)


async def _run(
    kinds: Mapping[str, int],
    case: Case,
    plan: Plan,
    config: FlinknetConfig,
    foreign: tuple[Path, Path],
) -> tuple[JobResult, float]:
    """Return the result of the job, and the longest time that a worker took to join."""
    async with (
        LocalCluster(config, on_output=lambda *_: None) as cluster,
        besieged(cluster, config, kinds, foreign),
    ):
        executing = asyncio.create_task(cluster.execute(_graph(case, plan, config)))
        times = [await join(cluster, config) for _ in range(JOINS)]
        return await executing, max(times)


def _graph(case: Case, plan: Plan, config: FlinknetConfig) -> JobGraph:
    stage = Stage(case, Round(plan.warm_up_s + plan.seconds), plan.warm_up_s, (None,), (None,))
    environment = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(1)
    source = BlockSource(stage)
    sent = environment.from_source(
        RateLimitedSource(source, PACE) if case.name == PACED.name else source, name=SOURCE
    ).slot_sharing_group(SOURCE)
    sent.forward().sink_to(CountingSink(stage)).name(SINK).slot_sharing_group(SINK)
    return environment.job_graph(case.name)
