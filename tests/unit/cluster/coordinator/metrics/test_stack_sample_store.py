"""When samples are taken, how long they are shown, and when they are forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from flinknet.cluster.control.messages import Message, SampleStacks
from flinknet.cluster.control.wall_clock import WallClock
from flinknet.cluster.coordinator.metrics.stack_sample_store import StackSampleStore
from flinknet.cluster.coordinator.workers.inquiries import Inquiries
from flinknet.config import ClusterConfig
from flinknet.metrics.stack_samples import Stack, StackSamples
from tests.unit.cluster.coordinator.rest.flink.jobs import submitted

CONFIG = ClusterConfig(stack_samples=10, stack_sample_delay_ms=5.0, stack_sample_refresh_ms=1_000.0)
STACK = Stack(0, True, ("run",))


class Sampling:
    """A store of a job; the test plays the job's worker."""

    def __init__(self, config: ClusterConfig = CONFIG) -> None:
        _, self.record = submitted()
        self.vertex = self.record.submission.shape.vertices[1]
        self.now = 10.0
        self.sent: list[Message] = []
        self.answers = Inquiries[bytes](lambda worker_id, message: self.sent.append(message))
        self.wall = WallClock(1_000_000.0)
        self.store = StackSampleStore(self.answers, config, lambda: self.now, self.wall.ms)

    def stacks(self) -> dict[Stack, int] | None:
        """Return the stacks that are shown now."""
        sampled = self.store.latest(self.record, self.vertex)
        return None if sampled is None else dict(sampled.samples.stacks())

    async def answer(self, body: bytes | None = None, times: int = 1) -> None:
        """Request samples, and answer the request."""
        sampling = self.store.sample(self.record, self.vertex)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        request = self.sent[-1]
        assert isinstance(request, SampleStacks)
        if body is None:
            samples = StackSamples(10)
            samples.add_stack(STACK, times)
            body = samples.pack()
        self.answers.take("worker-0", request.request, body)
        await sampling


@pytest.fixture
async def sampling() -> AsyncIterator[Sampling]:
    sampling = Sampling()
    yield sampling
    await sampling.store.close()


async def test_samples_keep_their_time_of_day_when_the_clock_is_corrected(
    sampling: Sampling,
) -> None:
    """A dashboard distinguishes new samples from old ones by it."""
    await sampling.answer()
    before = sampling.store.latest(sampling.record, sampling.vertex)
    sampling.wall.follow(sampling.now, 1_000_010.002)
    assert sampling.store.latest(sampling.record, sampling.vertex) == before
    assert before is not None
    assert before.taken_ms == 1_000_010_000


async def test_the_first_request_takes_samples(sampling: Sampling) -> None:
    assert sampling.stacks() is None
    assert sampling.stacks() is None
    await sampling.answer(times=3)
    job_id = sampling.record.job_id
    assert sampling.sent == [SampleStacks(1, job_id, 0, sampling.vertex.id, 10, 5.0)]
    assert sampling.stacks() == {STACK: 3}


async def test_samples_are_shown_until_new_ones_are_there(sampling: Sampling) -> None:
    await sampling.answer(times=3)
    sampling.now += 0.9
    assert sampling.stacks() == {STACK: 3}
    sampling.now += 0.1
    assert sampling.stacks() == {STACK: 3}
    await sampling.answer(times=4)
    assert len(sampling.sent) == 2
    assert sampling.stacks() == {STACK: 4}


async def test_samples_of_long_ago_are_forgotten(sampling: Sampling) -> None:
    await sampling.answer(times=3)
    sampling.now += 10.0
    assert sampling.stacks() is None


async def test_a_worker_that_is_lost_or_tells_nonsense_has_seen_nothing(
    sampling: Sampling, caplog: pytest.LogCaptureFixture
) -> None:
    await sampling.answer(b"nonsense")
    assert sampling.stacks() == {}
    assert "worker worker-0 sent malformed stacks" in caplog.text
    again = sampling.store.sample(sampling.record, sampling.vertex)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    sampling.answers.forget("worker-0")
    await again
    assert sampling.stacks() == {}


async def test_an_unresponsive_worker_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    patience = replace(
        CONFIG, stack_sample_delay_ms=0.001, heartbeat_interval_ms=0.1, coordinator_timeout_ms=0.2
    )
    sampling = Sampling(patience)
    await sampling.store.sample(sampling.record, sampling.vertex)
    assert "worker worker-0 sent no stacks within" in caplog.text


async def test_pending_samples_end_with_the_store(sampling: Sampling) -> None:
    under_way = sampling.store.sample(sampling.record, sampling.vertex)
    await asyncio.sleep(0)
    await sampling.store.close()
    assert under_way.cancelled()
