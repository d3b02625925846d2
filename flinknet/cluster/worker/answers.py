"""What a worker answers to requests whose answer is too large for a control message.

Each request has a number, and its answer is uploaded under it. A request that nobody waits for any
more, because the coordinator is gone or has given up, is no failure of the worker.
"""

from __future__ import annotations

from contextlib import suppress

from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.messages import SampleStacks
from flinknet.cluster.worker.stack_sampler import Sampled, StackSampler
from flinknet.config import ClusterConfig
from flinknet.errors import JobError, LocalTransportError

__all__ = ["Answers"]


class Answers:
    """The answers of one worker. Made and used in its event loop."""

    def __init__(self, link: ControlLink, worker_id: str, config: ClusterConfig) -> None:
        self._link = link
        self._worker_id = worker_id
        self._sampler = StackSampler(config)

    async def sample_stacks(self, message: SampleStacks) -> None:
        """Look at what subtasks do."""
        whose = Sampled(message.job_id, message.attempt, message.vertex)
        samples = await self._sampler.sample(whose, message.looks, message.delay_ms / 1000)
        await self._upload(message.request, samples.pack())

    async def _upload(self, request: int, body: bytes) -> None:
        with suppress(JobError, LocalTransportError):
            await self._link.upload_answer(self._worker_id, request, body)
