"""The stack of a waiting task: the chain of coroutines that await each other.

A thread has a stack, but a waiting task has none. It has a chain instead: each coroutine refers to
the awaitable that it awaits (``cr_await``), and each generator to the one that it yields from, up
to a future. Some awaitables have no such attribute (the result of ``anext``, and the wrappers of
compiled coroutines). For these the garbage collector knows the objects that they refer to.

The functions take any task of the interpreter, and may be called from any thread. A task that runs
in the meantime changes its chain. To detect that, compare ``awaited_future`` before and after.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from concurrent.futures import thread
from contextvars import Context
from functools import partial
from types import CodeType, FrameType
from typing import Any, NamedTuple

from flinknet.environment.task_thread import TaskThread, advance
from flinknet.texts import text_of

__all__ = [
    "Link",
    "await_chain",
    "awaited_future",
    "call_text",
    "context_of_task",
    "frames_of",
    "work_of_thread",
]

HIDDEN_MAX = 4
"""Limit for consecutive awaitables without such an attribute; at most two are known."""

EXECUTOR_FRAMES_MAX = 8
"""Frames of an executor's thread to search for the start of its work; five are known, of threading
and futures."""

# Frames with this code precede the work of a thread: in executors, and in threads of subtasks.
_RUN_WORK = thread._WorkItem.run.__code__
_RUN_STEPS = TaskThread._main.__code__
_ADVANCE = advance.__code__

_KINDS = ("cr", "gi", "ag")
_NEXT = {"cr": "cr_await", "gi": "gi_yieldfrom", "ag": "ag_await"}


class Link(NamedTuple):
    """One coroutine or generator of a chain."""

    awaitable: Any
    text: str
    """Name, file and line."""


def call_text(code: CodeType, line: int | None, name: str | None = None) -> str:
    """Return a call in readable form; an unknown line is left out."""
    file = code.co_filename.rpartition("/")[2]
    place = file if line is None else f"{file}:{line}"
    return text_of(f"{name or code.co_qualname} ({place})")


def frames_of(innermost: FrameType | None) -> list[FrameType]:
    """Return the frames of a stack, the outermost first."""
    frames = []
    while innermost is not None:
        frames.append(innermost)
        innermost = innermost.f_back
    return frames[::-1]


def await_chain(task: asyncio.Task[Any], depth_max: int) -> list[Link]:
    """Return the chain of a waiting task, the outermost link first, at most ``depth_max`` links."""
    links: list[Link] = []
    awaitable: Any = task.get_coro()
    while awaitable is not None and len(links) < depth_max:
        kind = _kind_of(awaitable)
        if kind is None:
            awaitable = _hidden_in(awaitable)
            continue
        links.append(Link(awaitable, _text_of_link(awaitable, kind)))
        awaitable = getattr(awaitable, _NEXT[kind])
    return links


def awaited_future(task: asyncio.Task[Any]) -> asyncio.Future[Any] | None:
    """Return the future that a task waits for; None if the task is ready to run."""
    future: asyncio.Future[Any] | None = getattr(task, "_fut_waiter", None)
    return None if future is None or future.done() else future


def context_of_task(task: asyncio.Task[Any]) -> Context | None:
    """Return the context of a task; tasks have a method for it since Python 3.12."""
    get_context = getattr(task, "get_context", None)
    if get_context is not None:
        context: Context = get_context()
        return context
    held = gc.get_referents(task)
    return next((one for one in held if isinstance(one, Context)), None)


def work_of_thread(frames: Sequence[FrameType]) -> tuple[Context | None, Sequence[FrameType]]:
    """Return the context and the frames of the work that a thread of an executor runs.

    The work is a call of ``asyncio.to_thread``, or a step in the thread of a subtask. Returns None
    and all frames for any other thread, and for a thread without work.
    """
    for place, frame in enumerate(frames[:EXECUTOR_FRAMES_MAX]):
        if frame.f_code is _RUN_STEPS:
            steps = [one for one in frames[place + 1 :] if one.f_code is not _ADVANCE]
            return frame.f_locals["self"].context if steps else None, steps
        if frame.f_code is _RUN_WORK:
            work = frame.f_locals.get("self")
            function = getattr(work, "fn", None) or getattr(work, "task", (None,))[0]
            while isinstance(function, partial):
                function = function.func
            context = getattr(function, "__self__", None)
            return context if isinstance(context, Context) else None, frames[place + 1 :]
    return None, frames


def _kind_of(awaitable: object) -> str | None:
    return next((kind for kind in _KINDS if hasattr(awaitable, _NEXT[kind])), None)


def _hidden_in(awaitable: object) -> Any:
    """Return the coroutine or generator behind an opaque awaitable, or None."""
    layer = [awaitable]
    for _ in range(HIDDEN_MAX):
        layer = [held for one in layer for held in gc.get_referents(one) if _leads_on(held)]
        for one in layer:
            if _kind_of(one) is not None:
                return one
    return None


def _leads_on(held: object) -> bool:
    """Return whether an object may be the awaited one.

    Data that is held with it does not qualify, nor does a task, which has a chain of its own.
    """
    kind = type(held)
    may_be = hasattr(kind, "__await__") or hasattr(kind, "__anext__") or hasattr(kind, "send")
    return may_be and not isinstance(held, asyncio.Future)


def _text_of_link(awaitable: Any, kind: str) -> str:
    frame = getattr(awaitable, f"{kind}_frame", None)
    line = None if frame is None else frame.f_lineno
    code = getattr(awaitable, f"{kind}_code")
    return call_text(code, line, awaitable.__qualname__)
