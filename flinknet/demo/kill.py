"""Killing of a worker during a run, and the checkpoint from which the job resumes."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass

from flinknet import machine
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.metadata import CheckpointDirectory
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster import JobProgress
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.launch.cluster import Cluster
from flinknet.config import CheckpointingConfig, ClusterConfig
from flinknet.demo.flights_job import FlightsJob
from flinknet.demo.progress import DemoProgress
from flinknet.errors import JobFailedError

__all__ = ["CHECKPOINT_INTERVAL_MS", "RUN_S", "Kill", "WorkerKiller", "last_of_first_attempt"]

CHECKPOINT_INTERVAL_MS = 200.0

RUN_S = 4.0
"""Minimum duration of the run by its schedule, so that there is time for a kill."""

DELAY_S_MAX = 1.0
"""Maximum time from the first complete checkpoint to the kill; the time is random."""

KEYED_VERTEX = 1


@dataclass(frozen=True, slots=True)
class Kill:
    """The kill of a worker in a run, and the checkpoint of the next attempt."""

    worker: str
    pid: int
    restored_from: str
    """The checkpoint from which the next attempt resumed."""
    attempts: int


class WorkerKiller:
    """Kills a worker of one job after its first checkpoint; ``see`` receives the job's progress."""

    def __init__(
        self, cluster: Cluster, config: ClusterConfig, job: FlightsJob, progress: DemoProgress
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._job = job
        self._progress = progress
        self._seen: asyncio.Queue[JobProgress] = asyncio.Queue()

    def see(self, job_progress: JobProgress) -> None:
        """Record the job's progress, as reported by its client."""
        self._seen.put_nowait(job_progress)

    async def kill(self) -> Kill:
        """Kill a worker, and return when the job resumes; to be cancelled if the job ends."""
        seen = await self._seen.get()
        config = CheckpointingConfig()
        storage = FileStorage(self._job.checkpoints, config)
        store = CheckpointStore(storage, seen.job_id, config)
        while not await store.completed():
            seen = await self._seen.get()
        await asyncio.sleep(machine.uniform(0, DELAY_S_MAX))
        pids = await self._workers()
        worker = machine.choice(list(pids))
        while not self._seen.empty():  # Report the newest progress, not that of the checkpoint.
            seen = self._seen.get_nowait()
        os.kill(pids[worker], signal.SIGKILL)
        self._progress.say(
            f"kill -9 {pids[worker]}: killed {worker} after about "
            f"{seen.vertices[KEYED_VERTEX].records_in:,} records"
        )
        while seen.attempt == 0:
            seen = await self._seen.get()
        restored_from = await last_of_first_attempt(store)
        self._progress.say(f"attempt {seen.attempt} continues from {restored_from}")
        return Kill(worker, pids[worker], str(restored_from), seen.attempt + 1)

    async def _workers(self) -> dict[str, int]:
        """Return the process id of each worker by name; all run on this machine."""
        client = CoordinatorClient(
            self._cluster.address, self._cluster.token, self._config, is_there=True
        )
        rows = (await client.read("/api/v1/workers"))["workers"]
        return {row["worker_id"]: row["pid"] for row in rows if row["state"] == "REGISTERED"}


async def last_of_first_attempt(store: CheckpointStore) -> CheckpointDirectory:
    """Return the last checkpoint of a job's attempt 0; JobFailedError if none is kept any more."""
    directories = [entry.directory for entry in await store.completed()]
    before = [directory for directory in directories if directory.attempt == 0]
    if not before:
        raise JobFailedError(
            "the checkpoints of the attempt with the killed worker are no longer kept: the machine "
            "was too busy to read them in time"
        )
    return before[-1]
