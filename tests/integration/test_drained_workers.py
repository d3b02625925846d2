"""SIGTERM to the processes of a cluster without a launcher."""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from flinknet.config.restart_strategy import NO_RESTART
from flinknet.graph.graph import JobGraph
from tests.integration.standalone import PATIENCE_S, Standalone
from tests.integration.test_absent_workers import RunningJob
from tests.integration.test_recovery import config_of, sums

PATIENT_MS = 600_000.0
"""Longer than any test, so that no timeout ends a process in place of the test."""


@asynccontextmanager
async def standalone(tmp_path: Path) -> AsyncIterator[Standalone]:
    config = config_of(tmp_path / "checkpoints")
    cluster = replace(
        config.cluster,
        slots_per_worker=2,
        drain_timeout_ms=PATIENT_MS,
        stop_timeout_ms=PATIENT_MS,
    )
    async with Standalone(replace(config, cluster=cluster), tmp_path) as started:
        await started.coordinator()
        yield started


async def status_of(process: Process) -> int:
    async with asyncio.timeout(PATIENCE_S):
        return await process.wait()


def without_restarts(graph: JobGraph) -> JobGraph:
    """Return the graph with no periodic checkpoint and no permitted failure."""
    assert graph.checkpointing is not None
    rarely = replace(graph.checkpointing, interval_ms=PATIENT_MS)
    return replace(graph, checkpointing=rarely, restart=NO_RESTART)


async def test_a_job_goes_on_elsewhere_from_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    """The job moves from worker to worker, although its strategy permits no restart."""
    async with standalone(tmp_path) as cluster:
        job = RunningJob(cluster, tmp_path)
        worker = await cluster.worker("worker-0")
        await job.start(without_restarts(sums(tmp_path / "go")))
        for number in (1, 2):
            await job.is_on(f"worker-{number - 1}")
            following = await cluster.worker(f"worker-{number}")
            worker.send_signal(signal.SIGTERM)
            assert await status_of(worker) == 0
            worker = following
        await job.is_on("worker-2")
        await job.end()
        assert job.attempts.keys() == {0, 1, 2}
        for number in (0, 1):
            told = f"attempt {number} ends, and the job restarts: worker worker-{number} (pid "
            assert told in cluster.log("coordinator")
        worker.send_signal(signal.SIGTERM)
        assert await status_of(worker) == 0, "nothing runs there"


async def test_the_second_signal_ends_a_worker_at_once(tmp_path: Path) -> None:
    """A second SIGTERM ends a worker, though its job has no checkpoints and does not end."""
    async with standalone(tmp_path) as cluster:
        job = RunningJob(cluster, tmp_path)
        worker = await cluster.worker("worker-0")
        await job.start(replace(sums(tmp_path / "never"), checkpointing=None))
        await job.is_on("worker-0")
        worker.send_signal(signal.SIGTERM)
        await cluster.until_said("worker-0", "a second signal ends it at once")
        assert worker.returncode is None
        worker.send_signal(signal.SIGTERM)
        assert await status_of(worker) == 0
        await job.give_up()


async def test_a_worker_that_is_told_again_and_again_ends_in_order(tmp_path: Path) -> None:
    """Repeated SIGTERMs do not disturb a worker's end, up to the closing of its event loop."""
    async with standalone(tmp_path) as cluster:
        worker = await cluster.worker("worker-0")
        while worker.returncode is None:
            worker.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.0001)
        assert worker.returncode == 0


async def test_the_second_signal_ends_a_coordinator_at_once(tmp_path: Path) -> None:
    """A second SIGTERM ends a coordinator that waits for a stopped worker."""
    async with standalone(tmp_path) as cluster:
        coordinator = await cluster.coordinator("second")
        worker = await cluster.worker("worker-0")
        worker.send_signal(signal.SIGSTOP)
        coordinator.send_signal(signal.SIGTERM)
        while (await asyncio.wait([asyncio.create_task(coordinator.wait())], timeout=0.2))[1]:
            coordinator.send_signal(signal.SIGTERM)
        assert coordinator.returncode == 0
