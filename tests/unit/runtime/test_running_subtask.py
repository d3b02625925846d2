"""The code of a subtask knows which one it is, in its tasks and threads, too."""

from __future__ import annotations

import asyncio

from flinknet.graph.deployment import SubtaskDescriptor
from flinknet.runtime.running_subtask import RUNNING_SUBTASK

SUBTASK = SubtaskDescriptor("job", 0, 1, 2, 4, "Map (3/4)", (), ())


async def test_it_holds_in_tasks_and_threads_that_are_made_there() -> None:
    async def read() -> SubtaskDescriptor | None:
        return RUNNING_SUBTASK.get(None)

    async def run() -> list[SubtaskDescriptor | None]:
        RUNNING_SUBTASK.set(SUBTASK)
        made = await asyncio.create_task(read())
        return [made, await asyncio.to_thread(RUNNING_SUBTASK.get, None)]

    assert await asyncio.create_task(run()) == [SUBTASK, SUBTASK]
    assert RUNNING_SUBTASK.get(None) is None
