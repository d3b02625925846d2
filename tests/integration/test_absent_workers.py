"""Workers that vanish and come back: stopped processes and cut connections."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cluster import JobProgress
from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.control.submission import Submission
from flinknet.graph.graph import JobGraph
from tests.integration.standalone import Relay, Standalone
from tests.integration.test_recovery import EXPECTED, complete, config_of, sums

BOTH = "one", "other"
SHORT_S = 0.3
"""Shorter than any heartbeat timeout here."""


class RunningJob:
    """The job of sums on a cluster, observed attempt by attempt."""

    def __init__(self, cluster: Standalone, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._newest = 0
        self.attempts: dict[int, set[str]] = {}
        """The workers of each attempt."""
        self._follow: asyncio.Task[JobResult]
        self._store: CheckpointStore

    async def start(self, graph: JobGraph | None = None) -> None:
        graph = graph or sums(self._folder / "go")
        client = self._cluster.client()
        job_id = await client.submit(Submission.of_graph(graph))
        checkpointing = self._cluster.config.checkpointing
        storage = FileStorage(Path(checkpointing.directory), checkpointing)
        self._store = CheckpointStore(storage, job_id, checkpointing)
        self._job_id = job_id
        self._follow = asyncio.create_task(self._followed(job_id))

    async def move(self) -> None:
        """Follow the job at the last coordinator."""
        await self.give_up()
        self._follow = asyncio.create_task(self._followed(self._job_id))

    async def _followed(self, job_id: str) -> JobResult:
        client = self._cluster.client()
        return await client.follow(job_id, interval_ms=20, on_progress=self._watch)

    def _watch(self, progress: JobProgress) -> None:
        if progress.state == "RUNNING":
            self.attempts.setdefault(progress.attempt, set()).update(progress.workers)

    async def goes_on(self) -> None:
        """Return when a checkpoint has completed after this call."""
        for _ in range(2):
            self._newest = await complete(self._store, self._newest, self._follow)

    async def is_on(self, *workers: str) -> None:
        """Return when the job runs on exactly these workers."""
        while self.attempts.get(max(self.attempts, default=0)) != set(workers):
            await asyncio.wait((self._follow,), timeout=0.01)
            assert not self._follow.done(), self._follow.result()

    async def runs_on(self, *workers: str) -> None:
        """Return when the job runs on exactly these workers, and takes checkpoints."""
        await self.is_on(*workers)
        await self.goes_on()

    async def give_up(self) -> None:
        """Stop following the job."""
        self._follow.cancel()
        await asyncio.gather(self._follow, return_exceptions=True)

    async def end(self) -> None:
        """Let the job end, and check that its result is that of a run without failure."""
        (self._folder / "go").touch()
        assert sorted((await self._follow).collected["sums"]) == EXPECTED


@asynccontextmanager
async def running(
    tmp_path: Path, *, heartbeat_timeout_ms: float, coordinator_timeout_ms: float
) -> AsyncIterator[tuple[Standalone, RunningJob, Relay]]:
    """Yield a cluster without workers, a job and a relay.

    The test starts the workers. Each has enough slots for the job; the relay stands before "other".
    """
    config = config_of(tmp_path / "checkpoints")
    cluster = replace(
        config.cluster,
        heartbeat_interval_ms=100.0,
        heartbeat_timeout_ms=heartbeat_timeout_ms,
        coordinator_timeout_ms=coordinator_timeout_ms,
        slots_per_worker=2,
    )
    async with Standalone(replace(config, cluster=cluster), tmp_path) as standalone:
        await standalone.coordinator()
        async with Relay(standalone.address) as relay:
            yield standalone, RunningJob(standalone, tmp_path), relay


async def test_a_short_absence_is_only_waited_for(tmp_path: Path) -> None:
    times = {"heartbeat_timeout_ms": 20_000.0, "coordinator_timeout_ms": 20_000.0}
    async with running(tmp_path, **times) as (cluster, job, relay):
        await cluster.worker("one")
        other = await cluster.worker("other", relay.address)
        await job.start()
        await job.goes_on()
        other.send_signal(signal.SIGSTOP)
        await asyncio.sleep(SHORT_S)
        other.send_signal(signal.SIGCONT)
        await job.goes_on()
        for directions in ((relay.to_coordinator,), (relay.to_worker,), ()):
            relay.cut(*directions)
            await asyncio.sleep(SHORT_S)
            relay.mend()
            await job.goes_on()
        await job.end()
        assert job.attempts.keys() == {0}
        assert await cluster.registered() == set(BOTH)


@pytest.mark.parametrize("how", ["stopped", "cut", "not heard", "deaf"])
async def test_a_lost_worker_comes_back_as_a_fresh_one(tmp_path: Path, how: str) -> None:
    """A lost worker that returns registers as a new one.

    The job continues on the other worker meanwhile, and later on the returned one alone.
    """
    times = {"heartbeat_timeout_ms": 1_500.0, "coordinator_timeout_ms": 1_500.0}
    async with running(tmp_path, **times) as (cluster, job, relay):
        # it has both slots that the job needs
        other = await cluster.worker("other", relay.address)
        await job.start()
        await job.runs_on("other")
        one = await cluster.worker("one")
        if how == "stopped":
            other.send_signal(signal.SIGSTOP)
        else:
            ways = {"not heard": (relay.to_coordinator,), "deaf": (relay.to_worker,)}
            relay.cut(*ways.get(how, ()))
        await cluster.until_registered("other", there=False)
        await job.runs_on("one")
        if how == "stopped":
            other.send_signal(signal.SIGCONT)
        else:
            relay.mend()
        await cluster.until_registered("other")
        await job.goes_on()
        assert other.returncode is None, "it is the same process"
        # The returned worker must be able to run all of the job.
        one.kill()
        await job.runs_on("other")
        await job.end()
        assert "the coordinator refuses this worker" not in cluster.log("other")
        assert "worker other has registered again" in cluster.log("other")


async def test_a_worker_whose_connection_is_lost_unseen_connects_again(tmp_path: Path) -> None:
    """A worker reconnects although the coordinator still considers the old connection alive."""
    times = {"heartbeat_timeout_ms": 600_000.0, "coordinator_timeout_ms": 1_500.0}
    async with running(tmp_path, **times) as (cluster, job, relay):
        await cluster.worker("other", relay.address)
        await job.start()
        await job.runs_on("other")
        await cluster.worker("one")
        relay.cut()
        await cluster.until_said("other", "lost the coordinator: ")
        relay.replace()
        await cluster.until_said("coordinator", "it has connected again")
        await job.goes_on()
        await job.end()
        assert len(job.attempts) == 2
        assert await cluster.registered() == set(BOTH)


async def test_an_id_is_free_again_when_its_process_has_ended(tmp_path: Path) -> None:
    """A new process may register under the id of one that has ended.

    A service manager restarts a worker under the name of its host.
    """
    times = {"heartbeat_timeout_ms": 60_000.0, "coordinator_timeout_ms": 60_000.0}
    async with running(tmp_path, **times) as (cluster, job, _):
        first = await cluster.worker("other")
        await job.start()
        await job.goes_on()
        first.kill()
        await first.wait()
        await cluster.until_registered("other", there=False)
        await cluster.worker("other")
        await job.goes_on()
        await job.end()
