"""A worker's answers to requests, if they are too large for a control message.

Each request has a number, under which the worker uploads its answer. The coordinator may be gone or
have given up on a request. The worker does not treat that as a failure.
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
    """The answers of one worker; make and use it in the worker's event loop."""

    def __init__(
        self,
        link: ControlLink,
        worker_id: str,
        config: ClusterConfig,
        output: KeptOutput | None = None,
    ) -> None:
        """Without ``output``, no output of this process is kept."""
        self._link = link
        self._worker_id = worker_id
        self._depth_max = config.stack_depth_max
        self._sampler = StackSampler(config)
        self._output = output or KeptOutput(worker_id, config.output_kept_bytes)

    async def answer(self, message: Request) -> None:
        """Carry out a request and upload the answer."""
        body = await self._body_for(message)
        # The requester may be gone, which is no failure of the worker.
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
