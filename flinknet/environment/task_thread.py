"""Task thread: runs all code of a subtask's chain (Flink's task thread).

Theory of operation. User code may block for any time, while the event loop continues with the
network, other subtasks and heartbeats. The loop therefore does not run the coroutines of a chain
(to open it, process a batch, fire timers, close it). They are *stepped* in the thread: a step ends
where the coroutine ends or needs the loop. The coroutine requests a call on the loop by
``on_loop``, and continues after the call.

The loop and the thread alternate. During a step the loop does not touch the chain. Between two
steps the thread stands still, and a snapshot may be taken. The chain therefore needs no lock, and
its order, state and backpressure equal those of a chain on the loop. A subtask has one thread for
its whole life, because some objects may only be used in the thread that created them, such as
connections of sqlite3 and values in ``threading.local``.

Passing a step to the thread and back takes about 50 microseconds of processor time, so a step
should be worth a millisecond or more. Results are serialised in the step and gathered
(``GatheredOutput``). After the step the loop writes their bytes before it does anything else with
the chain. The loop thus touches no record, and all of a program's code for a record (key selectors,
partitioners, serialisation of its class) runs in the thread, too.

Cancellation: the loop does not wait for a running step. When the step has ended, the thread closes
the coroutine before any later call. A closed coroutine cannot request the loop; the loop cleans up
for it (``close_on_loop``). If the loop is writing, or making a requested call, the cancellation is
raised in the coroutine, which may request the loop again to clean up.

``OnLoop`` does the same without a thread: for a chain of coroutine functions, which need the loop
for every record, and for a job that requests it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from types import coroutine
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

from flinknet import machine
from flinknet.errors import JobFailedError
from flinknet.machine import SimpleQueue
from flinknet.net.task_clock import task_time

__all__ = [
    "STEP_S",
    "ChainThread",
    "GatheredOutput",
    "LongStep",
    "OnLoop",
    "TaskThread",
    "advance",
    "close_on_loop",
    "is_in_task_thread",
    "longest_step",
    "on_loop",
    "soon_on_loop",
    "task_of_subtask",
    "waits_for_step",
]

log = logging.getLogger("flinknet.task")

BATCHES_GATHERED_MAX = 16
"""Batches that a step emits before it waits for the loop to write them.

A record that expands to millions must not fill the memory.
"""

BYTES_GATHERED_MAX = 1 << 20
"""Bytes after which a step also waits for the loop; a step seldom makes more.

Large records may share their content. Serialised ahead of backpressure, they would take many times
the memory.
"""

STEP_S = 0.002
"""Approximate length of a step if there is enough work.

Passing a step to the thread costs about 50 microseconds, and a barrier waits for its end.
"""

T = TypeVar("T")
Given = TypeVar("Given")
Prepared = tuple[Callable[[], Awaitable[None]], int]
"""Coroutine function that writes a part of the output, and the size of the part in bytes."""

Named = Callable[[Exception, Any], Exception]
"""Returns the error to raise for an error and the batch or element that it concerns.

The second argument is None if only the bytes of the element are left.
"""


class LongStep(NamedTuple):
    """A running call in a subtask's thread."""

    subtask: str
    seconds: float
    thread: int
    """Identity of the thread."""


class _Here(machine.ThreadLocal):
    """The TaskThread of the running thread."""

    thread: TaskThread | None = None


_here = _Here()

_threads: dict[int, TaskThread] = {}
"""The task threads of this process, by identity."""


def longest_step(now: float) -> LongStep | None:
    """Return the longest running call in any subtask's thread of this process.

    May be called from any thread.
    """
    under_way = [
        LongStep(one.name, now - began, one.identity)
        for one in list(_threads.values())
        if (began := one.began_at) is not None
    ]
    return max(under_way, key=lambda one: one.seconds, default=None)


class _Outcome(NamedTuple):
    """Outcome of a call in the thread."""

    value: Any
    error: BaseException | None
    seconds: float
    """Duration of the call."""


class _Step(NamedTuple):
    """Outcome of a step."""

    has_ended: bool
    value: Any
    """The result of the coroutine if it has ended, or its request to the loop."""


class ChainThread(Protocol):
    """Executor of the code of a chain."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the chain; return its result when all its output is written."""

    def call(self, function: Callable[[], T]) -> T:
        """Call a quick function, and block the event loop until it returns.

        No step may be running, or the loop waits for its end, too.
        """

    async def work(self, function: Callable[[], T]) -> T:
        """Call a function after the running step, without blocking the loop."""

    def post(self, function: Callable[[], None]) -> None:
        """Call a function after all earlier calls; it must not fail."""

    def working_time(self) -> float:
        """Return the seconds of a clock of the chain's own work.

        The clock stops while a step waits for the thread, and while its end waits for the event
        loop. Waits caused by other subtasks do not tell how long records take.
        """

    def end(self, last: Callable[[], None]) -> None:
        """Call a function after all earlier calls, and accept no more calls."""

    async def wait_ended(self) -> None:
        """Wait until the thread has ended. A cancellation ends only the wait."""


class OnLoop:
    """Executor of a chain on the event loop."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    def call(self, function: Callable[[], T]) -> T:
        return function()

    async def work(self, function: Callable[[], T]) -> T:
        return function()

    def post(self, function: Callable[[], None]) -> None:
        function()

    def working_time(self) -> float:
        return task_time()

    def end(self, last: Callable[[], None]) -> None:
        last()

    async def wait_ended(self) -> None:
        """Return at once, because no thread was started."""


class TaskThread:
    """The thread of the subtask ``name``, created in the subtask's task.

    ``gathered`` holds the output of its steps. Raises JobFailedError if the system allows no more
    threads.
    """

    def __init__(self, name: str, gathered: GatheredOutput) -> None:
        self.name = name
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.current_task()
        """The task of the event loop that runs the subtask; None when the thread has ended."""
        self._gathered = gathered
        self._calls: SimpleQueue[tuple[Callable[[], Any], Callable[[_Outcome], Any]] | None]
        self._calls = SimpleQueue()
        self._ended: asyncio.Future[None] = self.loop.create_future()
        self.gives_up = False
        """Whether the thread is closing a cancelled coroutine, which cannot wait any more."""
        self._clearing_up: set[asyncio.Task[None]] = set()
        self._handing_s = 0.0
        """Seconds that steps have waited for the thread, and their ends for the loop."""
        self.identity = 0
        """Identity of the thread, as by ``threading.get_ident``."""
        self.began_at: float | None = None
        """When the running call began, by ``task_time``; None if there is none."""
        self.context = copy_context()
        """Context in which user code runs."""
        # Only one thread at a time can enter a context, so the subtask's own is copied.
        main = partial(self.context.run, self._main)
        thread = machine.Thread(target=main, name=f"flinknet {name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise JobFailedError(
                f'no thread can be started for subtask "{name}" ({error}): raise the limit of '
                "processes (ulimit -u, or pids.max of the container), run fewer subtasks in a "
                "worker, or set execution.task-threads to false"
            ) from error

    # -- on the loop ------------------------------------------------------------------------------

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        step: Callable[[], _Step] = partial(advance, work.send, None)
        while True:
            try:
                began = task_time()
                done, worked_s = await self._done(step)
                self._handing_s += task_time() - began - worked_s
            except asyncio.CancelledError:
                # The step may still be running; the thread closes the coroutine after it.
                self._gathered.discard()
                self.post(partial(self._give_up, work))
                raise
            try:
                await self._gathered.write()
                if done.has_ended:
                    result: T = done.value
                    return result
                answer = await _answered(done.value)
            except BaseException as error:  # also a cancellation of the subtask
                if done.has_ended:
                    raise
                step = partial(advance, work.throw, error)
            else:
                step = partial(advance, work.send, answer)

    def call(self, function: Callable[[], T]) -> T:
        answers: SimpleQueue[_Outcome] = SimpleQueue()
        self._calls.put((function, answers.put))
        value, error, _ = answers.get()
        if error is not None:
            raise error
        result: T = value
        return result

    async def work(self, function: Callable[[], T]) -> T:
        result, _ = await self._done(function)
        return result

    async def _done(self, function: Callable[[], T]) -> tuple[T, float]:
        """Call a function as ``work`` does; return its result and its duration in seconds."""
        future: asyncio.Future[_Outcome] = self.loop.create_future()
        self._calls.put((function, partial(self._tell, future)))
        value, error, seconds = await future
        if error is not None:
            try:
                raise error
            finally:
                del error  # the error refers to this frame
        return value, seconds

    def post(self, function: Callable[[], None]) -> None:
        self._calls.put((function, self._note))

    def working_time(self) -> float:
        return task_time() - self._handing_s

    def end(self, last: Callable[[], None]) -> None:
        self.post(last)
        self._calls.put(None)

    async def wait_ended(self) -> None:
        # A cancelled future would keep its error, which refers to all objects of its subtask.
        await asyncio.shield(self._ended)

    # -- in the thread ----------------------------------------------------------------------------

    def _main(self) -> None:
        _here.thread = self
        self.identity = machine.thread_id()
        _threads[self.identity] = self
        while (call := self._calls.get()) is not None:
            function, tell = call
            value, raised = None, None
            self.began_at = began = task_time()
            try:
                value = function()
            except BaseException as error:
                raised = error
            outcome = _Outcome(value, raised, task_time() - began)
            self.began_at = None
            tell(outcome)
            # Drop the references: records must not stay in memory until the next call.
            del call, function, tell, value, raised, outcome
        del _threads[self.identity]
        # The task refers to the chain, and the system may take a while to end the thread.
        self.task = None
        self._soon(_settle, self._ended, None)

    def _give_up(self, work: Coroutine[Any, Any, Any]) -> None:
        self.gives_up = True
        try:
            work.close()
        finally:
            self.gives_up = False

    def clear_up(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Await the result of ``close`` on the loop, without blocking the thread."""

        def begin() -> None:
            task = self.loop.create_task(close(), name=f"clearing up behind {self.name}")
            self._clearing_up.add(task)
            task.add_done_callback(end)

        def end(task: asyncio.Task[None]) -> None:
            self._clearing_up.discard(task)
            if not task.cancelled():
                self._note(_Outcome(None, task.exception(), 0.0))

        self._soon(begin)

    def _tell(self, future: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
        self._soon(_settle, future, outcome)

    def _soon(self, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            self._calls.put(None)  # The loop is closed: the worker ends.

    def _note(self, outcome: _Outcome) -> None:
        if outcome.error is not None:
            log.error('subtask "%s" could not clear up', self.name, exc_info=outcome.error)


class GatheredOutput:
    """Output of the steps of one thread, in order and prepared for the loop to write."""

    def __init__(self) -> None:
        self._writes: deque[tuple[Callable[[], Awaitable[None]], Named]] = deque()
        self._batches = self._bytes = 0
        """Number of gathered batches and bytes."""
        self._is_discarded = False

    def gathering(
        self, prepare: Callable[[Given], Iterable[Prepared]], named: Named
    ) -> Callable[[Given], Coroutine[Any, Any, None]]:
        """Return a coroutine function that gathers output in the thread.

        ``prepare`` splits a batch or an element into parts. For each part it generates a coroutine
        function, which the loop calls to write the part, and the part's size in bytes. ``named``
        returns the error to raise for an error of ``prepare`` or of a write.
        """

        async def gather(given: Given) -> None:
            try:
                parts = iter(prepare(given))
            except Exception as error:
                _raise_named(named, error, given)
            while True:
                try:
                    part = next(parts, None)
                except Exception as error:
                    _raise_named(named, error, given)
                if part is None:
                    break
                write, size = part
                self._writes.append((write, named))
                self._bytes += size
                if _here.thread is None:  # the chain runs on the loop, so nothing is gathered
                    await self.write()
                elif self._bytes >= BYTES_GATHERED_MAX:
                    await on_loop(self.write)
            self._batches += 1
            if self._batches >= BATCHES_GATHERED_MAX and _here.thread is not None:
                await on_loop(self.write)

        return gather

    async def write(self) -> None:
        """Write all gathered output, on the loop; a failing write is the last."""
        self._batches = self._bytes = 0
        writes = self._writes
        while writes:
            write, named = writes.popleft()
            if self._is_discarded:
                continue
            try:
                await write()
            except Exception as error:
                self.discard()
                _raise_named(named, error, None)
            except BaseException:
                self.discard()
                raise

    def discard(self) -> None:
        """Discard all output: the subtask has failed, or is cancelled."""
        self._is_discarded = True


def _raise_named(named: Named, error: Exception, given: Any) -> NoReturn:
    raised = named(error, given)
    if raised is error:
        raise error
    raise raised from error


def waits_for_step(awaitable: Any) -> bool:
    """Return whether an object is the wait of a subtask for a running call in its thread.

    May be called from any thread.
    """
    if getattr(awaitable, "cr_code", None) is not TaskThread._done.__code__:
        return False
    thread = None if awaitable.cr_frame is None else awaitable.cr_frame.f_locals.get("self")
    return isinstance(thread, TaskThread) and thread.began_at is not None


def is_in_task_thread() -> bool:
    """Return whether the caller runs in the thread of a subtask, where there is no loop."""
    return _here.thread is not None


def task_of_subtask() -> asyncio.Task[Any] | None:
    """Return the task of the subtask that the calling thread belongs to; None if it has none."""
    return None if _here.thread is None else _here.thread.task


async def on_loop(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on the event loop, and await its result if that is awaitable."""
    if _here.thread is None:
        returned = call(*arguments)
        return await returned if isawaitable(returned) else returned
    return await _asked(partial(call, *arguments))


async def close_on_loop(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Call ``close`` on the event loop, and await its result; for a ``finally``.

    A coroutine that is being closed cannot await; the loop then runs ``close`` by itself.
    """
    thread = _here.thread
    if thread is not None and thread.gives_up:
        thread.clear_up(close)
    else:
        await on_loop(close)


def soon_on_loop(call: Callable[..., Any], *arguments: Any) -> None:
    """Call a function on the event loop: at once in the loop's thread, else soon."""
    if _here.thread is None:
        call(*arguments)
    else:
        _here.thread.loop.call_soon_threadsafe(call, *arguments)


@coroutine
def _asked(request: Callable[[], Any]) -> Generator[Callable[[], Any], Any, Any]:
    return (yield request)


async def _answered(request: Callable[[], Any] | None) -> Any:
    """Make the call that a step requests; a bare yield requests a turn of the loop."""
    if request is None:
        return await asyncio.sleep(0)
    returned = request()
    return await returned if isawaitable(returned) else returned


def advance(step: Callable[[Any], Any], argument: Any) -> _Step:
    """Make a step of a coroutine: call its ``send`` or ``throw``."""
    try:
        return _Step(False, step(argument))
    except StopIteration as end:
        return _Step(True, end.value)


def _settle(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)
