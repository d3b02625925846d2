"""Distinguishes the cancellation of a task from a CancelledError that user code raises."""

from __future__ import annotations

import asyncio

from flinknet.environment.task_thread import is_in_task_thread, task_of_subtask

__all__ = ["is_cancelled"]


def is_cancelled(error: BaseException) -> bool:
    """Return whether ``error`` is the cancellation of the current task.

    In the thread of a subtask, the task is the subtask's.
    """
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = task_of_subtask() if is_in_task_thread() else asyncio.current_task()
    return task is not None and task.cancelling() > 0
