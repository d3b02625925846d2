"""Repeated faults, at random moments, on one running job.

Workers are killed or stopped, the coordinator is killed, and the job continues at another
parallelism.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster import JobProgress, JobResult
from flinknet.cluster.control.job_state import JobState
from flinknet.cluster.control.submission import RestoreSettings, Submission
from flinknet.config import CheckpointingConfig, ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.errors import InsufficientSlotsError, JobCancelledError
from tests.chaos.audited_flights import AuditedFlights
from tests.chaos.standalone_cluster import StandaloneCluster

__all__ = ["SETTINGS", "KillLoop", "Outcome", "Setting", "print_table"]

KILL, STOP, COORDINATOR = "kill -9", "SIGSTOP", "kill -9 of the coordinator"
RESCALE = "at another parallelism"

WORKERS = PARALLELISM = 2

PROGRESS_MS = 20
LOOK_S = 0.02
PATIENCE_S = 240.0
"""Seconds after which a hanging test fails with a message."""


def config_of(folder: Path, parallelism_max: int) -> FlinknetConfig:
    """Return a configuration in which the job needs every worker.

    So half of the channels are connections.
    """
    return FlinknetConfig(
        network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
        cluster=ClusterConfig(
            workers=WORKERS,
            slots_per_worker=-(-parallelism_max // WORKERS),
            metrics=False,
            heartbeat_interval_ms=200.0,
            heartbeat_timeout_ms=1_500.0,
            cause_grace_ms=200.0,
            cancel_timeout_ms=1_500.0,
            progress_interval_ms=50.0,
            state_directory=str(folder / "state"),
        ),
        checkpointing=CheckpointingConfig(directory=str(folder / "checkpoints")),
    )


def faults_in(count: int, chance: random.Random, *, rescaled: bool) -> list[str]:
    """Draw ``count`` faults in any order.

    Every seventh is a stop, which takes longer than all others together, and every seventh kills
    the coordinator. If ``rescaled``, every seventh changes the parallelism.
    """
    rare = count // 7
    counts = [count - (2 + rescaled) * rare, rare, rare, rescaled * rare]
    return chance.sample([KILL, STOP, COORDINATOR, RESCALE], count, counts=counts)


@dataclass(frozen=True, slots=True)
class Setting:
    """Checkpoint settings of a job, and its changes of parallelism."""

    name: str
    under_pressure: bool = False
    unaligned: bool = False
    aligned_timeout_ms: float = 0.0
    parallelisms: tuple[int, ...] = ()
    """Parallelisms of the keyed subtasks, in turn; empty if the job keeps its own."""
    only_long: bool = False
    """Whether the short form of the loop omits it."""

    def __str__(self) -> str:
        return self.name


SETTINGS = (
    Setting("aligned"),
    Setting("aligned, pressed", under_pressure=True, only_long=True),
    Setting("unaligned", under_pressure=True, unaligned=True),
    Setting("alternating", under_pressure=True, unaligned=True, aligned_timeout_ms=50.0),
    Setting("aligned, rescaled", parallelisms=(3, 1, 4, 2), only_long=True),
    Setting("rescaled", under_pressure=True, unaligned=True, parallelisms=(3, 1, 4, 2)),
)


@dataclass
class Outcome:
    """The faults that a job survived, and its result."""

    setting: Setting
    records: int
    faults: Counter[str] = field(default_factory=Counter)
    while_running: int = 0
    """Faults that met a running attempt, and not one that was still starting."""
    attempts: int = 0
    checkpoints: int = 0
    """Number of the last completed checkpoint."""
    seconds: float = 0.0
    rows: list[tuple[Any, ...]] = field(default_factory=list, repr=False)
    """The job's result."""


class KillLoop:
    """One job on a cluster of its own, and the faults applied to it."""

    def __init__(self, setting: Setting, job: AuditedFlights, chance: random.Random) -> None:
        self._job = job = replace(
            job,
            under_pressure=setting.under_pressure,
            unaligned=setting.unaligned,
            aligned_timeout_ms=setting.aligned_timeout_ms,
        )
        self._parallelisms = cycle(setting.parallelisms)
        self._faults = faults_in(job.faults, chance, rescaled=bool(setting.parallelisms))
        self._chance = chance
        self._config = config_of(job.folder, max(setting.parallelisms, default=PARALLELISM))
        self._progress: JobProgress | None = None
        self._store: CheckpointStore
        self._follow: asyncio.Task[JobResult]
        self.outcome = Outcome(setting, job.records)

    async def run(self) -> Outcome:
        """Return when the job has finished; raises the JobError of a failed job."""
        began, outcome = time.monotonic(), self.outcome
        log = self._job.folder / "processes.log"
        async with StandaloneCluster(self._config, log) as cluster:
            await self._submit(cluster, PARALLELISM)
            try:
                await self._torment(cluster)
                self._job.gate.touch()
                async with asyncio.timeout(PATIENCE_S):
                    outcome.rows = self._job.rows(await self._follow)
            finally:
                self._follow.cancel()
                await asyncio.gather(self._follow, return_exceptions=True)
        assert self._progress is not None
        outcome.attempts += self._progress.attempt + 1
        outcome.seconds = time.monotonic() - began
        return outcome

    async def _submit(
        self, cluster: StandaloneCluster, parallelism: int, checkpoint: str | None = None
    ) -> None:
        restore = None if checkpoint is None else RestoreSettings(checkpoint)
        submission = Submission.of_graph(self._job.graph(parallelism), restore)
        job_id = await cluster.client.submit(submission)
        checkpointing = self._config.checkpointing
        storage = FileStorage(Path(checkpointing.directory), checkpointing)
        self._store = CheckpointStore(storage, job_id, checkpointing)
        self._follow = asyncio.create_task(
            cluster.client.follow(job_id, interval_ms=PROGRESS_MS, on_progress=self._watch)
        )

    async def _go_on_at(self, cluster: StandaloneCluster, parallelism: int) -> None:
        """Cancel the job, and continue from its last checkpoint at another parallelism."""
        await self._until(self._runs)
        while not await self._newest():
            await self._look()
        await cluster.client.cancel(self._store.job_id)
        # Following a cancelled job raises; a result means that the job has ended by itself.
        with suppress(JobCancelledError):
            raise AssertionError(f"the job has ended before its faults: {await self._follow}")
        assert self._progress is not None
        self.outcome.attempts += self._progress.attempt + 1
        self._progress = None
        newest = await self._store.latest_valid()
        place = self._store.location(newest.checkpoint.directory)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                # The replacement of a killed worker may not have registered yet.
                with suppress(InsufficientSlotsError):
                    return await self._submit(cluster, parallelism, place)

    def _watch(self, progress: JobProgress) -> None:
        self._progress = progress

    async def _torment(self, cluster: StandaloneCluster) -> None:
        for fault in self._faults:
            await self._let_it_go_on()
            if fault == COORDINATOR:
                self.outcome.faults[fault] += 1
                self.outcome.while_running += self._runs()
                await cluster.kill_coordinator()
                self._progress = None  # the progress of the old coordinator is out of date
                continue
            if fault == RESCALE:
                self.outcome.faults[fault] += 1
                self.outcome.while_running += 1
                await self._go_on_at(cluster, next(self._parallelisms))
                continue
            if fault == STOP:
                # A worker that is still starting is not missed, and would join after all.
                await self._until(lambda: self._runs() and self._used(cluster))
            await self._until(lambda: self._used(cluster) or cluster.workers())
            victim = self._chance.choice(self._used(cluster) or cluster.workers())
            self.outcome.faults[fault] += 1
            self.outcome.while_running += self._runs()
            if fault == KILL:
                cluster.kill(victim)
            else:
                await self._come_back(cluster, victim)

    def _used(self, cluster: StandaloneCluster) -> list[str]:
        """Return the running workers of the present attempt, as far as known."""
        progress = self._progress
        return [name for name in cluster.workers() if progress and name in progress.workers]

    async def _let_it_go_on(self) -> None:
        """Wait for a random moment: within a checkpoint, between two, or while the job starts."""
        chance = self._chance
        # The other quarter comes soon after the last fault, while the job may still restart.
        if chance.random() < 0.75:
            enough = await self._newest() + chance.randrange(1, 3)
            async with asyncio.timeout(PATIENCE_S):
                while await self._newest() < enough:
                    await self._look()
        await asyncio.sleep(chance.uniform(0.0, 0.3))

    async def _come_back(self, cluster: StandaloneCluster, victim: str) -> None:
        """Stop a worker until the job runs without it, and then continue the worker.

        It must find out by itself that the cluster has given it up, and register again.
        """
        zombie = await cluster.stop(victim)
        async with asyncio.timeout(PATIENCE_S):
            while victim in await cluster.registered():
                await self._look()
        await self._until(lambda: self._runs() and not self._has(victim))
        await self._let_it_go_on()
        await cluster.resume(victim, zombie)

    def _runs(self) -> bool:
        return self._progress is not None and self._progress.state == JobState.RUNNING.value

    def _has(self, worker: str) -> bool:
        return self._progress is not None and worker in self._progress.workers

    async def _until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await self._look()

    async def _look(self) -> None:
        """Wait a moment; fail if the job ends meanwhile."""
        await asyncio.sleep(LOOK_S)
        if self._follow.done():
            raise AssertionError(f"the job has ended before its faults: {self._follow.result()}")

    async def _newest(self) -> int:
        """Return the number of the last checkpoint; a finished job leaves none."""
        completed = await self._store.completed()
        newest = completed[-1].directory.checkpoint_id if completed else 0
        self.outcome.checkpoints = max(self.outcome.checkpoints, newest)
        return newest


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Print one row for each job."""
    print(
        f"\n{'setting':24} {'records':>9} {'kill -9':>7} {'SIGSTOP':>7} "
        f"{'coordinator':>11} {'rescaled':>8} {'running':>7} "
        f"{'attempts':>8} {'checkpoints':>11} {'s':>5}"
    )
    for one in outcomes:
        print(
            f"{one.setting.name:24} {one.records:9,} {one.faults[KILL]:7} {one.faults[STOP]:7} "
            f"{one.faults[COORDINATOR]:11} {one.faults[RESCALE]:8} {one.while_running:7} "
            f"{one.attempts:8} "
            f"{one.checkpoints:11} {one.seconds:5.0f}"
        )
