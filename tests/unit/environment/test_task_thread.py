"""The thread of a subtask: where code runs, in which order, and its errors."""

import asyncio
import gc
import sqlite3
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from flinknet.environment import task_thread as module
from flinknet.environment.task_thread import (
    BATCHES_GATHERED_MAX,
    BYTES_GATHERED_MAX,
    GatheredOutput,
    TaskThread,
    close_on_loop,
    is_in_task_thread,
    on_loop,
    soon_on_loop,
)
from flinknet.errors import JobFailedError
from flinknet.records.cooperative_budget import yield_to_loop

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def task_thread(gathered: GatheredOutput | None = None) -> AsyncIterator[TaskThread]:
    thread = TaskThread("map (1/1)", gathered or GatheredOutput())
    try:
        yield thread
    finally:
        thread.end(lambda: None)


async def test_all_of_a_chain_runs_in_one_thread_and_asks_for_the_loop() -> None:
    """A sqlite3 connection refuses any other thread."""
    async with task_thread() as thread:
        places: list[int] = []
        connection: sqlite3.Connection

        async def opened() -> None:
            nonlocal connection
            connection = sqlite3.connect(":memory:")
            places.append(await on_loop(threading.get_ident))

        async def asked() -> Any:
            before = connection.execute("select 1").fetchone()
            slept = await on_loop(asyncio.sleep, 0, "slept")
            await yield_to_loop()
            return before, slept, connection.execute("select 2").fetchone(), is_in_task_thread()

        await thread.run(opened())
        assert await thread.run(asked()) == ((1,), "slept", (2,), True)
        assert thread.call(lambda: connection.execute("select 3").fetchone()) == (3,)
        assert await thread.work(lambda: connection.execute("select 4").fetchone()) == (4,)
        thread.post(connection.close)
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            thread.call(lambda: connection.execute("select 5"))
        assert places == [threading.get_ident()]
        assert not is_in_task_thread()


async def test_the_loop_goes_on_while_a_step_blocks() -> None:
    async with task_thread() as thread:
        release = threading.Event()

        async def blocks() -> bool:
            return release.wait(30)

        step = asyncio.create_task(thread.run(blocks()))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not step.done()
        release.set()
        assert await step


def as_it_is(error: Exception, given: Any) -> Exception:
    return error


async def test_what_a_step_emits_is_written_in_order_before_anything_else() -> None:
    """Batches are prepared in the thread at once, and are written before a call of the step to the
    loop. The number of gathered batches is bounded even if one step emits without end."""
    gathered, written, most = GatheredOutput(), [], 0

    def prepare(number: int) -> Iterator[Any]:
        assert is_in_task_thread()
        yield partial(write, number), 1

    async def write(number: int) -> None:
        assert not is_in_task_thread()
        await asyncio.sleep(0)
        written.append(number)

    emit = gathered.gathering(prepare, as_it_is)
    async with task_thread(gathered) as thread:

        async def emits() -> None:
            nonlocal most
            for number in range(10 * BATCHES_GATHERED_MAX):
                await emit(number)
                most = max(most, number + 1 - len(written))
            await emit(-1)
            assert await on_loop(lambda: written[-1]) == -1
            await emit(-2)

        await thread.run(emits())
        assert written == [*range(10 * BATCHES_GATHERED_MAX), -1, -2]
        assert 1 < most <= BATCHES_GATHERED_MAX


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("when", ["prepared", "generated", "written"])
async def test_an_error_on_what_is_gathered_is_named(when: str, in_thread: bool) -> None:
    """It is named with the emitted records, until only their bytes are left."""
    gathered = GatheredOutput()

    def prepare(given: int) -> Any:
        if when == "prepared":
            raise ValueError("refused")
        return parts()

    def parts() -> Iterator[Any]:
        if when == "generated":
            raise ValueError("refused")
        yield write, 1

    async def write() -> None:
        raise ValueError("refused")

    def named(error: Exception, given: int | None) -> Exception:
        return OSError(f"{error} {given}")

    emit = gathered.gathering(prepare, named)
    given = None if when == "written" else 7
    async with task_thread(gathered) as thread:
        with pytest.raises(OSError, match=f"^refused {given}$"):
            await (thread.run(emit(7)) if in_thread else emit(7))


async def test_what_is_gathered_is_bounded_by_bytes_too() -> None:
    """A batch is prepared a part at a time, so the bound may come in its middle."""
    gathered, written, waiting, most = GatheredOutput(), 0, 0, 0

    def prepare(parts: int) -> Iterator[Any]:
        nonlocal waiting, most
        for _ in range(parts):
            waiting += 1
            most = max(most, waiting)
            yield write, BYTES_GATHERED_MAX // 3

    async def write() -> None:
        nonlocal written, waiting
        written += 1
        waiting -= 1

    emit = gathered.gathering(prepare, as_it_is)
    async with task_thread(gathered) as thread:
        await thread.run(emit(100))
    assert (written, most) == (100, 4)


@pytest.mark.parametrize("writes", [False, True], ids=["asked of the loop", "written"])
async def test_an_error_on_the_loop_comes_to_the_chain_where_it_asked(writes: bool) -> None:
    gathered, cleared = GatheredOutput(), []

    async def fails(_: object = None) -> None:
        raise ValueError("refused")

    emit = gathered.gathering(lambda given: [(partial(fails, given), 1)], as_it_is)
    async with task_thread(gathered) as thread:

        async def asks() -> None:
            try:
                if writes:
                    await emit([1])
                    await on_loop(int)
                else:
                    await on_loop(fails)
            finally:
                cleared.append(is_in_task_thread())

        with pytest.raises(ValueError, match="refused"):
            await thread.run(asks())
        assert cleared == [True]


async def test_a_cancelled_step_is_not_waited_for_and_closed_when_it_has_ended() -> None:
    async with task_thread() as thread:
        began, release, order = threading.Event(), threading.Event(), []

        async def blocks() -> None:
            try:
                began.set()
                release.wait(30)
                order.append("step")
                await on_loop(order.append, "asked")
            finally:
                order.append("closed")

        step = asyncio.create_task(thread.run(blocks()))
        await asyncio.to_thread(began.wait, 30)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert order == []
        later = asyncio.create_task(thread.work(lambda: order.append("later")))
        await asyncio.sleep(0)
        release.set()
        await later
        assert order == ["step", "closed", "later"]


async def test_the_loop_clears_up_behind_a_step_that_is_given_up() -> None:
    """A coroutine that is closed can await nothing more, and neither can the code that it
    closes."""
    async with task_thread() as thread:
        began, release, closed = threading.Event(), threading.Event(), asyncio.Event()

        async def close() -> None:
            assert not is_in_task_thread()
            closed.set()

        async def blocks() -> None:
            try:
                began.set()
                assert release.wait(30)
                await on_loop(list)
            finally:
                await close_on_loop(close)

        step = asyncio.create_task(thread.run(blocks()))
        await asyncio.to_thread(began.wait, 30)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        release.set()
        await closed.wait()


async def test_a_cancellation_on_the_loop_comes_to_the_chain() -> None:
    """The chain may ask for the loop to clean up."""
    async with task_thread() as thread:
        heard, waiting = [], asyncio.Event()

        async def asks() -> None:
            try:
                await on_loop(waits)
            except asyncio.CancelledError:
                heard.append((is_in_task_thread(), await on_loop(threading.get_ident)))
                raise

        async def waits() -> None:
            waiting.set()
            await asyncio.Event().wait()

        step = asyncio.create_task(thread.run(asks()))
        await waiting.wait()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert heard == [(True, threading.get_ident())]


@pytest.mark.parametrize("has_ended", [False, True])
async def test_nothing_is_written_behind_what_could_not_be(has_ended: bool) -> None:
    """This holds when a source is closed afterwards, and when the chain goes on and would report
    its error."""
    gathered = GatheredOutput()
    async with task_thread(gathered) as thread:
        written: list[int] = []

        async def write(record: int) -> None:
            written.append(record)
            if record == 1:
                raise OSError("the consumer is gone")

        def prepare(record: int) -> Iterator[Any]:
            yield partial(write, record), 1

        emit = gathered.gathering(prepare, as_it_is)

        async def emits() -> None:
            for record in range(3):
                await emit(record)
            if not has_ended:
                await on_loop(asyncio.sleep, 0)

        with pytest.raises(OSError, match="gone"):
            await thread.run(emits())
        await thread.run(emits())
        assert written == [0, 1]


async def test_what_others_do_on_the_loop_is_no_time_of_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a busy loop would make steps short, and many steps would keep it busy."""
    now = 0.0
    monkeypatch.setattr(module, "task_time", lambda: now)
    async with task_thread() as thread:

        async def works() -> None:
            nonlocal now
            now += 1

        step = asyncio.create_task(thread.run(works()))
        await asyncio.sleep(0)
        thread.call(lambda: None)  # which comes behind the step
        now += 10
        await step
        assert (now, thread.working_time()) == (11, 1)


async def test_user_code_has_the_context_of_its_subtask() -> None:
    place: ContextVar[str] = ContextVar("place")
    place.set("subtask")
    async with task_thread() as thread:

        async def sets() -> str:
            before = place.get()
            place.set("chain")
            return before

        async def gets() -> str:
            return place.get()

        assert await thread.run(sets()) == "subtask"
        assert await thread.run(gets()) == "chain"
        assert place.get() == "subtask"


async def test_the_thread_has_the_loop_make_a_call_soon() -> None:
    async with task_thread() as thread:
        called = asyncio.get_running_loop().create_future()
        thread.call(lambda: soon_on_loop(called.set_result, "called"))
        assert not called.done()
        assert await called == "called"


async def test_a_system_without_another_thread_is_told_with_what_to_do() -> None:
    before = threading.stack_size(1 << 46)
    try:
        with pytest.raises(JobFailedError, match=r"map \(1/1\).*ulimit -u.*execution.task-threads"):
            TaskThread("map (1/1)", GatheredOutput())
    finally:
        threading.stack_size(before)


async def test_a_thread_that_has_ended_keeps_nothing_of_its_subtask() -> None:
    """The system takes its time to end a thread, and an error refers to its subtask's objects."""
    threads: list[TaskThread] = []
    ended: list[str] = []

    class State:
        pass

    states: weakref.WeakSet[State] = weakref.WeakSet()

    async def subtask() -> None:
        state = State()
        states.add(state)
        thread = TaskThread("map (1/1)", GatheredOutput())
        threads.append(thread)

        async def fails() -> None:
            raise ValueError(f"on purpose, with {state}")

        try:
            await thread.run(fails())
        finally:
            thread.end(lambda: ended.append("last call"))
            await thread.wait_ended()
            ended.append("thread")

    with pytest.raises(ValueError, match="on purpose"):
        await asyncio.create_task(subtask())
    await asyncio.sleep(0)  # Until here, the loop's own handle refers to the task.
    gc.collect()
    assert ended == ["last call", "thread"]
    assert not states
