"""The task clock: lets readers and writers wait, and records their tasks' times."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from flinknet import machine
from flinknet.buffer.availability import Availability, Wait, WaitReason
from flinknet.consumer.gate import Gate
from flinknet.errors import LocalProtocolError
from flinknet.metrics.task_times import TaskTimes, TaskTimesStatistics
from flinknet.partition.result_partition import ResultPartition

__all__ = ["TaskClock", "check_loop", "reason_of_wait", "task_time", "until_available"]

task_time = machine.monotonic
"""The clock of task times. The loop's clock is unsuitable: uvloop's stands still within a turn, so
a task's work in the turn would count towards the wait that follows."""


async def until_available(availability: Availability) -> None:
    """Suspend until ``availability`` is available; a cancelled waiter unsubscribes."""
    future = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    availability.subscribe(wake)
    try:
        await future
    except BaseException:
        availability.unsubscribe(wake)
        raise


def check_loop(own: asyncio.AbstractEventLoop, what: str) -> None:
    """Raise LocalProtocolError if the running event loop is not ``own``.

    Callbacks would run in the other loop and wake no task here.
    """
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return
    if here is not own:
        raise LocalProtocolError(
            f"{what} is used in another event loop than the one in which it was entered: open one "
            "in each loop, or call it in its own loop with asyncio.run_coroutine_threadsafe"
        )


async def _wait_measured(
    loop: asyncio.AbstractEventLoop,
    account: TaskTimes,
    availability: Availability,
    reason: WaitReason,
) -> None:
    check_loop(loop, "a network environment")
    account.begin_wait(reason, task_time())
    try:
        await until_available(availability)
    finally:
        account.end_wait(reason, task_time())


def reason_of_wait(awaitable: Any) -> WaitReason | None:
    """Return the reason for which a reader or writer waits in ``awaitable``; None otherwise.

    Can be called from any thread.
    """
    if getattr(awaitable, "cr_code", None) is not _wait_measured.__code__:
        return None
    frame = awaitable.cr_frame
    reason: WaitReason | None = None if frame is None else frame.f_locals.get("reason")
    return reason


class TaskClock:
    """Clock of an environment's tasks; a task is known while one of its partitions or gates is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._times: dict[ResultPartition | Gate, TaskTimes] = {}

    def measured_wait(
        self, owner: ResultPartition | Gate, name: str, times: TaskTimes | None
    ) -> Wait:
        """Create the wait of a partition's writer or a gate's reader.

        Without the ``times`` of a task, it gets its own account with ``name``.
        """
        account = times if times is not None else TaskTimes(name, task_time())
        self._times[owner] = account
        owner.when_released(self._forget)

        return partial(_wait_measured, self._loop, account)

    def _forget(self, owner: ResultPartition | Gate) -> None:
        self._times.pop(owner, None)

    def statistics(self) -> tuple[TaskTimesStatistics, ...]:
        """Return the times of every task until now."""
        now = task_time()
        return tuple(times.statistics(now) for times in dict.fromkeys(self._times.values()))
