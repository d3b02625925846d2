"""The demo from end to end: Spark prepares, workers exchange, Spark evaluates and verifies.

All runs execute one job on one cluster. Its workers are children of this process, or tasks of the
same Spark session. The saturation run and the run in columns go at full speed and measure
throughput. The open-loop run sends on a schedule, at a share of the saturation run's throughput,
and measures latency. Spark's JVM is idle during the runs.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinknet.cluster import JobProgress
from flinknet.cluster.launch.cluster import Cluster
from flinknet.cluster.launch.registry import launcher_named
from flinknet.cluster.launch.spark.preflight import wait_for_slots
from flinknet.cluster.launch.spark.session import find_java, is_local, use
from flinknet.cluster.launch.spark.stage import Spark
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.demo.analysis import RunFacts, RunFigures, analyse
from flinknet.demo.flight_totals import AGGREGATES
from flinknet.demo.flights_job import FlightsJob
from flinknet.demo.kill import CHECKPOINT_INTERVAL_MS, RUN_S, Kill, WorkerKiller
from flinknet.demo.progress import DemoProgress
from flinknet.demo.result import (
    COLUMNS,
    KILLED,
    OPEN_LOOP,
    SATURATION,
    DemoParameters,
    DemoResult,
    KilledRun,
    Run,
    machine_facts,
)
from flinknet.demo.spark_session import require_extra, spark_session
from flinknet.demo.verification import expected_aggregates, verify
from flinknet.demo.workload import Workload, claim_directory, load_workload, prepare_workload
from flinknet.errors import ConfigurationError, InsufficientSlotsError, JobFailedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["run_demo"]

SOURCE_VERTEX, KEYED_VERTEX = 0, 1


@dataclass(frozen=True, slots=True)
class _Exchange:
    """Results of the runs, apart from their files."""

    saturation: RunFigures
    columns: RunFigures
    offered_records_per_s: float
    open_loop_facts: RunFacts
    kill: Kill | None


def run_demo(
    parameters: DemoParameters, config: FlinknetConfig, progress: DemoProgress
) -> DemoResult:
    """Run the demo and return its result; the caller must check whether it was verified.

    Raises ConfigurationError before anything starts if Java, the extra or a usable output directory
    is missing, and JobError if a run fails. No process is left afterwards.
    """
    require_extra()
    find_java()
    master = _master(config)
    output = parameters.output
    claim_directory(output)
    for name in (SATURATION, COLUMNS, OPEN_LOOP, KILLED):
        shutil.rmtree(output / name, ignore_errors=True)
    with ExitStack() as stack:
        with progress.phase("Spark starts"):
            spark = stack.enter_context(spark_session(output / "spark.log", master))
        if _is_on_spark(config.cluster):
            _check_slots(spark, config)
            use(spark)
            stack.callback(use, None)
        workload = _workload(spark, parameters, progress)
        exchange = asyncio.run(_exchange(spark, workload, parameters, config, progress))
        with progress.phase("Spark evaluates the open-loop run"):
            open_loop = analyse(spark, output / OPEN_LOOP, exchange.open_loop_facts)
        with progress.phase("Spark verifies the runs"):
            expected = expected_aggregates(spark, workload)
            verified = {
                name: verify(spark, expected, output / name / AGGREGATES)
                for name in (SATURATION, COLUMNS, OPEN_LOOP, *([KILLED] if exchange.kill else []))
            }
    return DemoResult(
        parameters,
        machine_facts(),
        progress.phases,
        Run(SATURATION, None, exchange.saturation, verified[SATURATION]),
        Run(COLUMNS, None, exchange.columns, verified[COLUMNS]),
        Run(OPEN_LOOP, exchange.offered_records_per_s, open_loop, verified[OPEN_LOOP]),
        None if exchange.kill is None else KilledRun(exchange.kill, verified[KILLED]),
    )


def _is_on_spark(cluster: ClusterConfig) -> bool:
    return cluster.launcher == "spark"


def _master(config: FlinknetConfig) -> str:
    """Return the master of the Spark session.

    Executors that run workers need additional slots for evaluations.
    """
    if not _is_on_spark(config.cluster):
        return "local[2]"
    master = config.spark.master or f"local-cluster[{config.cluster.workers},2,1024]"
    if not is_local(master):
        raise ConfigurationError(
            f"the demo reads files and compares clocks of one machine, but the master {master} may "
            "use other machines: choose local[4] or local-cluster[2,2,1024], or run a job of your "
            "own there with flinknet run --on spark"
        )
    return master


def _check_slots(spark: SparkSession, config: FlinknetConfig) -> None:
    wanted = config.cluster.workers + 1
    slots = wait_for_slots(Spark(spark), config.spark, wanted)
    if slots < wanted:
        raise InsufficientSlotsError(
            f"the demo needs {wanted} slots of Spark, one for each of {wanted - 1} workers "
            f"and one to evaluate their runs, but Spark has {slots}: use --master local[{wanted}]"
        )


def _workload(spark: SparkSession, parameters: DemoParameters, progress: DemoProgress) -> Workload:
    wanted = parameters.workload
    prepared = load_workload(parameters.output, wanted)
    if prepared is not None:
        progress.say(f"An earlier demo has prepared the workload of {wanted.records:,} records")
        return prepared
    with progress.phase("Spark prepares the workload", f"{wanted.records:,} records"):
        return prepare_workload(spark, parameters.output, wanted)


async def _exchange(
    spark: SparkSession,
    workload: Workload,
    parameters: DemoParameters,
    config: FlinknetConfig,
    progress: DemoProgress,
) -> _Exchange:
    files, keyed, output = workload.source_files(), parameters.parallelism, parameters.output
    launcher = "spark" if _is_on_spark(config.cluster) else "local"
    async with Cluster(config, launcher_named(launcher)) as cluster:
        progress.say(f"Web page: {cluster.page}")
        with progress.phase("Saturation run"):
            job = FlightsJob(files, keyed, output / SATURATION)
            facts = await _run(cluster, job, workload, progress)
        with progress.phase("Spark evaluates the saturation run"):
            figures = await asyncio.to_thread(analyse, spark, output / SATURATION, facts)
        with progress.phase("Saturation run in columns"):
            job = FlightsJob(files, keyed, output / COLUMNS, in_columns=True)
            facts = await _run(cluster, job, workload, progress)
        with progress.phase("Spark evaluates the run in columns"):
            in_columns = await asyncio.to_thread(analyse, spark, output / COLUMNS, facts)
        offered = figures.records_per_s * parameters.load
        with progress.phase("Open-loop run", f"{parameters.load:.0%} = {offered:,.0f} records/s"):
            job = FlightsJob(files, keyed, output / OPEN_LOOP, offered)
            facts = await _run(cluster, job, workload, progress)
        kill = None
        if parameters.kill:
            # Slow enough for a checkpoint and a kill before the end.
            rate = min(offered, workload.parameters.records / RUN_S)
            with progress.phase("Run with a worker killed", f"{rate:,.0f} records/s"):
                job = FlightsJob(files, keyed, output / KILLED, rate, CHECKPOINT_INTERVAL_MS)
                kill = await _run_and_kill(cluster, config, job, progress)
    return _Exchange(figures, in_columns, offered, facts, kill)


async def _run_and_kill(
    cluster: Cluster, config: FlinknetConfig, job: FlightsJob, progress: DemoProgress
) -> Kill:
    killer = WorkerKiller(cluster, config.cluster, job, progress)
    killing = asyncio.create_task(killer.kill())
    try:
        await cluster.execute(job.graph(), on_progress=killer.see)
    finally:
        if not killing.done():
            killing.cancel()
        await asyncio.wait([killing])
    if killing.cancelled():
        raise JobFailedError("the run ended before a worker could be killed: raise --scale")
    return killing.result()


async def _run(
    cluster: Cluster, job: FlightsJob, workload: Workload, progress: DemoProgress
) -> RunFacts:
    total = workload.parameters.records

    def show(job_progress: JobProgress) -> None:
        progress.records(job_progress.vertices[KEYED_VERTEX].records_in, total)

    result = await cluster.execute(job.graph(), on_progress=show)
    rows: dict[int, list[dict[str, Any]]] = {SOURCE_VERTEX: [], KEYED_VERTEX: []}
    for row in result.vertices:
        rows[row["vertex"]].append(row)
    return RunFacts(
        source_workers=tuple(row["worker_id"] for row in rows[SOURCE_VERTEX]),
        keyed_workers=tuple(row["worker_id"] for row in rows[KEYED_VERTEX]),
        bytes_exchanged=sum(row["bytes_in"] for row in rows[KEYED_VERTEX]),
    )
