"""Kills of the processes behind a job on Spark: executors, Python workers, flinknet's workers."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet import machine
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster import JobProgress, JobResult
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.launch.cluster import Cluster
from flinknet.cluster.launch.spark.launcher import SparkLauncher
from flinknet.config import (
    CheckpointingConfig,
    ClusterConfig,
    FlinknetConfig,
    NetworkConfig,
    SparkConfig,
)
from tests.chaos.audited_flights import AuditedFlights
from tests.contract.cluster_processes import processes_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EXECUTOR", "PYTHON", "VICTIMS", "WORKER", "SparkKills", "executors_of"]

EXECUTOR, PYTHON, WORKER = VICTIMS = ("an executor", "a Python worker", "a worker")

LOOK_S = 0.02
PATIENCE_S = 120.0
"""Seconds after which a hanging test fails with a message."""


def executors_of(application: str) -> list[int]:
    """Return the process ids of a Spark application's executors on this machine."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (directory / "cmdline").read_text(errors="replace").split("\0")
            if application in words and any("CoarseGrainedExecutorBackend" in one for one in words):
                found.append(int(directory.name))
    return found


@dataclass
class SparkKills:
    """One job on a session with local executors, and the kills during its run."""

    spark: SparkSession
    job: AuditedFlights
    chance: random.Random
    restarts_s: list[float] = field(default_factory=list)
    """Seconds from each kill until the next attempt runs."""
    _progress: JobProgress | None = None

    async def run(self, victims: Sequence[str]) -> list[tuple[Any, ...]]:
        """Kill the victims in turn, and return the job's result; check that no process is left."""
        checkpointing = CheckpointingConfig(directory=str(self.job.folder / "checkpoints"))
        config = FlinknetConfig(
            network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
            # one slot each, so that the job needs all workers
            cluster=ClusterConfig(
                slots_per_worker=1,
                progress_interval_ms=50.0,
                cancel_timeout_ms=1_500.0,
                start_timeout_ms=PATIENCE_S * 1000,
                restart_slots_timeout_ms=PATIENCE_S * 1000,
            ),
            spark=SparkConfig(tasks_timeout_ms=PATIENCE_S * 1000),
            checkpointing=checkpointing,
        )
        job_id = machine.unique_id()
        storage = FileStorage(Path(checkpointing.directory), checkpointing)
        store = CheckpointStore(storage, job_id, checkpointing)
        async with Cluster(config, SparkLauncher) as cluster:
            running = asyncio.create_task(
                cluster.execute(self.job.graph(), self._see, job_id=job_id)
            )
            try:
                for victim in victims:
                    await self._kill(victim, cluster.token, store, running)
                self.job.gate.touch()
                async with asyncio.timeout(PATIENCE_S):
                    result = await running
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        assert processes_of(cluster.token) == {}
        return self.job.rows(result)

    def _see(self, progress: JobProgress) -> None:
        self._progress = progress

    def _runs(self) -> bool:
        return self._progress is not None and self._progress.state == JobState.RUNNING.value

    async def _kill(
        self, victim: str, token: str, store: CheckpointStore, running: asyncio.Task[JobResult]
    ) -> None:
        await self._until(self._runs, running)
        seen = await self._newest(store)
        async with asyncio.timeout(PATIENCE_S):
            while await self._newest(store) <= seen:
                await asyncio.sleep(LOOK_S)
                assert not running.done(), running.result()
        await asyncio.sleep(self.chance.uniform(0.0, 0.3))
        assert self._progress is not None
        attempt, began = self._progress.attempt, time.monotonic()
        os.kill(self.chance.choice(self._found(victim, token)), signal.SIGKILL)
        await self._until(
            lambda: (
                self._runs() and self._progress is not None and self._progress.attempt > attempt
            ),
            running,
        )
        self.restarts_s.append(time.monotonic() - began)
        print(f"kill -9 of {victim}: the job goes on after {self.restarts_s[-1]:.1f} s", flush=True)

    def _found(self, victim: str, token: str) -> list[int]:
        if victim == EXECUTOR:
            return executors_of(str(self.spark.sparkContext.applicationId))
        processes = processes_of(token)
        keepers = [pid for pid, line in processes.items() if "keeper.py" in line]
        if victim == PYTHON:
            return [_parent_of(keeper) for keeper in keepers]
        return [
            pid for pid, line in processes.items() if "--worker-id=" in line and pid not in keepers
        ]

    async def _newest(self, store: CheckpointStore) -> int:
        completed = await store.completed()
        return completed[-1].directory.checkpoint_id if completed else 0

    async def _until(self, condition: Callable[[], bool], running: asyncio.Task[JobResult]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(LOOK_S)
                assert not running.done(), running.result()


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
