"""Where a task is that waits: the coroutines that await each other, from the task's own on.

A thread has a stack; a task that waits has none. It has a chain: each coroutine says which one it
awaits (``cr_await``), each generator what it yields from, until there is a future. Some of what can
be awaited says nothing (what ``anext`` returns, and the wrappers of compiled coroutines), but the
garbage collector knows what it holds.

To be called with any task of the interpreter, from any thread. A task that runs meanwhile changes
its chain; who wants to know compares what it waited for before and after (``awaited_future``).
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
"""Objects without a word for what they await that follow each other: there are two, so far."""

EXECUTOR_FRAMES_MAX = 8
"""Of a thread of an executor, before what it was given: there are five, of threading and
futures."""

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
    """A call as people read it; the line is left out where it is not known."""
    file = code.co_filename.rpartition("/")[2]
    place = file if line is None else f"{file}:{line}"
    return text_of(f"{name or code.co_qualname} ({place})")


def frames_of(innermost: FrameType | None) -> list[FrameType]:
    """The frames of a stack, the outermost first."""
    frames = []
    while innermost is not None:
        frames.append(innermost)
        innermost = innermost.f_back
    return frames[::-1]


def await_chain(task: asyncio.Task[Any], depth_max: int) -> list[Link]:
    """What a task that waits awaits, the outermost first, at most so many."""
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
    """What a task waits for; None if it may go on, and waits for its turn."""
    future: asyncio.Future[Any] | None = getattr(task, "_fut_waiter", None)
    return None if future is None or future.done() else future


def context_of_task(task: asyncio.Task[Any]) -> Context | None:
    """The context that a task runs in, which it says itself from Python 3.12 on."""
    get_context = getattr(task, "get_context", None)
    if get_context is not None:
        context: Context = get_context()
        return context
    held = gc.get_referents(task)
    return next((one for one in held if isinstance(one, Context)), None)


def work_of_thread(frames: Sequence[FrameType]) -> tuple[Context | None, Sequence[FrameType]]:
    """The context in which a thread of an executor runs what it was given, as ``asyncio.to_thread``
    gives it, or the thread of a subtask a step, and the frames of that; None and all frames for any
    other thread, and for one that has nothing to do."""
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
    """The coroutine or generator that is behind what does not say so; None if there is none."""
    layer = [awaitable]
    for _ in range(HIDDEN_MAX):
        layer = [held for one in layer for held in gc.get_referents(one) if _leads_on(held)]
        for one in layer:
            if _kind_of(one) is not None:
                return one
    return None


def _leads_on(held: object) -> bool:
    """Whether it may be what is awaited: not data that is held beside it, or a task, which is
    looked at by itself."""
    kind = type(held)
    may_be = hasattr(kind, "__await__") or hasattr(kind, "__anext__") or hasattr(kind, "send")
    return may_be and not isinstance(held, asyncio.Future)


def _text_of_link(awaitable: Any, kind: str) -> str:
    frame = getattr(awaitable, f"{kind}_frame", None)
    line = None if frame is None else frame.f_lineno
    code = getattr(awaitable, f"{kind}_code")
    return call_text(code, line, awaitable.__qualname__)
