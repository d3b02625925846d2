"""The subtask that the running code belongs to.

``Subtask.run`` sets it in its task. It is a context variable, so that it also holds in tasks that
are created there, and in functions that these call through ``asyncio.to_thread``.
"""

from __future__ import annotations

from contextvars import ContextVar

from flinknet.graph.deployment import SubtaskDescriptor

__all__ = ["RUNNING_SUBTASK"]

RUNNING_SUBTASK: ContextVar[SubtaskDescriptor] = ContextVar("flinknet.running_subtask")
"""The current subtask; not set outside of subtasks."""
