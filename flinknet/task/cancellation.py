"""Whether a task is being cancelled, or only says so: user code may raise a CancelledError, too."""

from __future__ import annotations

import asyncio

__all__ = ["is_cancelled"]


def is_cancelled(error: BaseException) -> bool:
    """Return whether ``error`` is the cancellation of the current task."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
