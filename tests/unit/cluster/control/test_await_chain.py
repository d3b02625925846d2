"""Real tasks and threads that wait, and the places that they report."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextvars import ContextVar, copy_context
from typing import Any

from flinknet.cluster.control.await_chain import (
    await_chain,
    awaited_future,
    call_text,
    context_of_task,
    frames_of,
    work_of_thread,
)

WHO: ContextVar[str] = ContextVar("who")


class Awaitable:
    """A class with objects that can be awaited."""

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, None]:
        yield from self._future.__await__()


async def waits(future: asyncio.Future[None]) -> None:
    await Awaitable(future)


async def pieces(future: asyncio.Future[None]) -> AsyncGenerator[None, None]:
    await waits(future)
    yield


async def reads(future: asyncio.Future[None]) -> None:
    await anext(pieces(future), None)


async def loops(future: asyncio.Future[None]) -> None:
    async for _ in pieces(future):
        pass


async def names(coroutine: Coroutine[Any, Any, None], depth_max: int = 10) -> list[str]:
    """Return the chain of names of a task that has come to its wait."""
    task = asyncio.create_task(coroutine)
    while awaited_future(task) is None:
        await asyncio.sleep(0)
    chain = await_chain(task, depth_max)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return [link.text.partition(" ")[0] for link in chain]


async def test_coroutines_that_await_each_other_are_a_chain() -> None:
    new = asyncio.get_running_loop().create_future
    chain = ["waits", "Awaitable.__await__"]
    assert await names(waits(new())) == chain
    assert await names(reads(new())) == ["reads", "pieces", *chain]
    assert await names(loops(new())) == ["loops", "pieces", *chain]


async def test_a_chain_is_as_long_as_it_may_be() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    assert await names(reads(future), depth_max=2) == ["reads", "pieces"]


async def test_a_link_says_file_and_line() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(waits(future))
    await asyncio.sleep(0)
    first, *_ = await_chain(task, 10)
    line = waits.__code__.co_firstlineno + 1
    assert first.text == f"waits (test_await_chain.py:{line})"
    future.set_result(None)
    await task


def test_a_call_without_a_line_says_its_file() -> None:
    assert call_text(waits.__code__, None) == "waits (test_await_chain.py)"


async def test_a_runnable_task_waits_for_nothing() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(waits(future))
    assert awaited_future(task) is None
    await asyncio.sleep(0)
    assert awaited_future(task) is future
    future.set_result(None)
    assert awaited_future(task) is None
    await task
    (only,) = await_chain(task, 10)
    assert only.text == "waits (test_await_chain.py)", "it has ended, and is nowhere"


async def test_a_task_and_its_calls_in_threads_have_its_context() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        goes_on.wait()

    async def run(*, by_hand: bool) -> None:
        WHO.set("me")
        if by_hand:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, copy_context().run, work)
        else:
            await asyncio.to_thread(work)

    for by_hand in (False, True):
        task = asyncio.create_task(run(by_hand=by_hand))
        while not begun.is_set():
            await asyncio.sleep(0)
        context = context_of_task(task)
        assert context is not None
        assert context[WHO] == "me"
        found = [work_of_thread(frames_of(one)) for one in sys._current_frames().values()]
        ((context, frames),) = [one for one in found if one[0] is not None]
        assert context is not None
        assert context[WHO] == "me"
        assert frames[0].f_code is work.__code__
        goes_on.set()
        await task
        begun.clear()
        goes_on.clear()


async def test_a_thread_without_a_context_belongs_to_no_subtask() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        goes_on.wait()

    working = asyncio.get_running_loop().run_in_executor(None, work)
    while not begun.is_set():
        await asyncio.sleep(0)
    found = [work_of_thread(frames_of(one))[0] for one in sys._current_frames().values()]
    assert not any(found)
    goes_on.set()
    await working
