"""A worker's answer is sent under the number of its question."""

from __future__ import annotations

import asyncio

from flinknet.cluster.control.messages import SampleStacks
from flinknet.cluster.worker.answers import Answers
from flinknet.metrics.stack_samples import StackSamples
from tests.unit.cluster.control_plane import CONFIG, serve_control_plane


async def test_stacks_arrive_where_they_were_asked_for() -> None:
    async with serve_control_plane(CONFIG) as served, served.worker("worker-0") as link:
        coordinator = served.coordinator
        answers = Answers(link, "worker-0", coordinator.config)

        async def answer() -> bytes | None:
            return await coordinator.answers.ask(
                "worker-0", lambda number: SampleStacks(number, "job", 0, 0, 1, 1.0), 60.0
            )

        asking = asyncio.create_task(answer())
        message = await link.receive()
        assert isinstance(message, SampleStacks)
        await answers.answer(message)
        body = await asking
        assert body is not None
        assert StackSamples.unpack(body, 10).looks() == {}
        # The coordinator no longer waits for it, which is no failure of the worker.
        await answers.answer(message)
