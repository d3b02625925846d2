"""Which subtask the code that runs belongs to.

``Subtask.run`` sets it in its task. It is a context variable, so that it holds in the tasks that
are made there, too, and in what these call in threads through ``asyncio.to_thread``.
"""

from __future__ import annotations

from contextvars import ContextVar

from flinknet.graph.deployment import SubtaskDescriptor

__all__ = ["RUNNING_SUBTASK"]

RUNNING_SUBTASK: ContextVar[SubtaskDescriptor] = ContextVar("flinknet.running_subtask")
"""Not set where no subtask runs."""
