"""What a worker answers to requests whose answer is too large for a control message.

Each request has a number, and its answer is uploaded under it. A request that nobody waits for any
more, because the coordinator is gone or has given up, is no failure of the worker.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TypeAlias

import msgpack

from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.kept_output import KeptOutput
from flinknet.cluster.control.messages import DumpThreads, ListOutput, ReadOutput, SampleStacks
from flinknet.cluster.control.thread_dump import thread_dump
from flinknet.cluster.worker.stack_sampler import Sampled, StackSampler
from flinknet.config import ClusterConfig
from flinknet.errors import JobError, LocalTransportError

__all__ = ["Answers", "Request"]

Request: TypeAlias = SampleStacks | DumpThreads | ListOutput | ReadOutput


class Answers:
    """The answers of one worker. Made and used in its event loop."""

    def __init__(
        self,
        link: ControlLink,
        worker_id: str,
        config: ClusterConfig,
        output: KeptOutput | None = None,
    ) -> None:
        """Without ``output`` nothing of that is kept."""
        self._link = link
        self._worker_id = worker_id
        self._depth_max = config.stack_depth_max
        self._sampler = StackSampler(config)
        self._output = output or KeptOutput(worker_id, config.output_kept_bytes)

    async def answer(self, message: Request) -> None:
        """Do what is asked for, and upload the answer."""
        body = await self._body_for(message)
        # Who has asked may be gone: that is no failure of the worker.
        with suppress(JobError, LocalTransportError):
            await self._link.upload_answer(self._worker_id, message.request, body)

    async def _body_for(self, message: Request) -> bytes:
        if isinstance(message, SampleStacks):
            return await self._sample_stacks(message)
        told: object
        match message:
            case DumpThreads():
                told = thread_dump(asyncio.get_running_loop(), self._depth_max)
            case ListOutput():
                told = self._output.files()
            case ReadOutput(name=name):
                told = self._output.read(name)
        packed: bytes = msgpack.packb(told)
        return packed

    async def _sample_stacks(self, message: SampleStacks) -> bytes:
        whose = Sampled(message.job_id, message.attempt, message.vertex)
        samples = await self._sampler.sample(whose, message.looks, message.delay_ms / 1000)
        return samples.pack()
