"""The stacks of all threads and tasks of a process, as in Flink's thread dump.

The stack of a thread consists of its calls. The stack of a waiting task is the chain of coroutines
that await each other (``await_chain.py``). The innermost call comes first, as in Java's dumps.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from flinknet import machine
from flinknet.cluster.control.await_chain import (
    await_chain,
    awaited_future,
    call_text,
    frames_of,
)
from flinknet.texts import text_of

__all__ = ["ThreadInfo", "thread_dump"]


class ThreadInfo(NamedTuple):
    """A thread or a task."""

    name: str
    text: str
    """Its name, its state, and its calls, one per line."""


def thread_dump(loop: asyncio.AbstractEventLoop, depth_max: int) -> list[ThreadInfo]:
    """Return all threads of the process, then all tasks of the loop, sorted by name."""
    names = {one.ident: one.name for one in machine.all_threads()}
    threads = []
    for ident, innermost in sys._current_frames().items():
        frames = frames_of(innermost)[-depth_max:]
        calls = [call_text(one.f_code, one.f_lineno) for one in reversed(frames)]
        name = names.get(ident, f"Thread-{ident}")
        threads.append(_info(name, f"Id={ident}", calls))
    running = asyncio.current_task(loop)
    tasks = [_of_task(task, running, depth_max) for task in asyncio.all_tasks(loop)]
    return sorted(threads) + sorted(tasks)


def _of_task(
    task: asyncio.Task[Any], running: asyncio.Task[Any] | None, depth_max: int
) -> ThreadInfo:
    calls = [link.text for link in reversed(await_chain(task, depth_max))]
    if task is running:
        state = "RUNNABLE, it runs on the event loop"
    elif awaited_future(task) is None:
        state = "RUNNABLE, it waits for the event loop"
    else:
        state = "WAITING"
    return _info(f"task {task.get_name()}", state, calls)


def _info(name: str, state: str, calls: Iterable[str]) -> ThreadInfo:
    name = text_of(name)
    lines = [f'"{name}" {state}', *(f"\tat {call}" for call in calls)]
    return ThreadInfo(name, "\n".join(lines) + "\n")
