"""Stack samples of a vertex's subtasks: taken on demand, and cached.

Theory of operation (Flink's VertexThreadInfoTracker). A request gets the last samples. If there are
none, or they are older than ``stack_sample_refresh_ms``, all workers that run the vertex start to
take new ones. Concurrent requests for a vertex share one sampling. A worker that is lost, or does
not answer, contributes no samples. Samples are dropped at ``KEPT_REFRESHES`` times the refresh
time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from flinknet.cluster.control.messages import SampleStacks
from flinknet.cluster.coordinator.jobs.job_execution import Part
from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.workers.inquiries import Inquiries
from flinknet.config import ClusterConfig
from flinknet.graph.graph import JobVertex
from flinknet.metrics.stack_samples import StackSamples

__all__ = ["SampledVertex", "StackSampleStore"]

KEPT_REFRESHES = 10

PATIENCE = 4
"""Time limit of a sampling, as a multiple of the number of its looks times their delay. The worker
ends it after twice that product, and it may first wait for others on the same worker."""

log = logging.getLogger("flinknet.coordinator")

Key: TypeAlias = tuple[str, int, int]
"""Job, number of the attempt or restart, and vertex."""


class SampledVertex(NamedTuple):
    """The samples of a vertex."""

    samples: StackSamples
    at: float
    """Time of the samples, in the coordinator's clock."""
    taken_ms: int
    """The same time in milliseconds since 1970, by the machine's clock at that moment. It
    identifies the samples, so it does not follow later corrections of that clock."""


class StackSampleStore:
    """The samples of one coordinator's jobs. Used from its event loop only."""

    def __init__(
        self,
        answers: Inquiries[bytes],
        config: ClusterConfig,
        now: Callable[[], float],
        wall_ms: Callable[[float], int],
    ) -> None:
        self._answers = answers
        self._config = config
        self._now = now
        self._wall_ms = wall_ms
        self._latest: dict[Key, SampledVertex] = {}
        self._under_way: dict[Key, asyncio.Task[None]] = {}

    def latest(self, record: JobRecord, vertex: JobVertex) -> SampledVertex | None:
        """Return the last samples of a vertex in the present attempt, if any.

        Starts a new sampling if they are missing or too old.
        """
        self._forget_old()
        key = record.job_id, record.present.last_number, vertex.id
        sampled = self._latest.get(key)
        refresh_s = self._config.stack_sample_refresh_ms / 1000
        if sampled is None or self._now() - sampled.at >= refresh_s:
            self.sample(record, vertex)
        return sampled

    def sample(self, record: JobRecord, vertex: JobVertex) -> asyncio.Task[None]:
        """Start a sampling unless one is under way; the task ends when the samples are stored."""
        key = record.job_id, record.present.last_number, vertex.id
        if key not in self._under_way:
            execution = record.present.execution
            subtasks = [(vertex.id, index) for index in range(vertex.parallelism)]
            parts = {(execution.worker_of(one), execution.number_of(one)) for one in subtasks}
            task = asyncio.create_task(self._sample(key, sorted(parts)))
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key))
        return self._under_way[key]

    async def close(self) -> None:
        """Cancel all samplings."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _sample(self, key: Key, parts: list[Part]) -> None:
        job_id, _, vertex = key
        seen = await asyncio.gather(
            *(self._ask(worker_id, (job_id, number, vertex)) for worker_id, number in parts)
        )
        samples = StackSamples(self._config.stacks_distinct_max)
        for one in seen:
            if one is not None:
                samples.add_all(one)
        now = self._now()
        self._latest[key] = SampledVertex(samples, now, self._wall_ms(now))

    async def _ask(self, worker_id: str, key: Key) -> StackSamples | None:
        config = self._config
        delay_ms, looks = config.stack_sample_delay_ms, config.stack_samples
        timeout_s = (PATIENCE * looks * delay_ms + config.coordinator_timeout_ms) / 1000
        try:
            body = await self._answers.ask(
                worker_id, lambda number: SampleStacks(number, *key, looks, delay_ms), timeout_s
            )
            if body is None:
                return None
            return StackSamples.unpack(body, config.stacks_distinct_max)
        except TimeoutError:
            log.warning("worker %s sent no stacks within %.0f s", worker_id, timeout_s)
        except ValueError as error:
            log.warning("worker %s sent malformed stacks: %s", worker_id, error)
        return None

    def _forget_old(self) -> None:
        kept_s = KEPT_REFRESHES * self._config.stack_sample_refresh_ms / 1000
        now = self._now()
        self._latest = {key: one for key, one in self._latest.items() if now - one.at < kept_s}
