"""The thread of a subtask, in which all code of its chain runs (Flink's task thread).

Theory of operation. User code may block, and take as long as it likes: the event loop goes on with
the network, with other subtasks and with heartbeats. So the coroutines of a chain (to open it, to
process a batch, to fire timers, to close it) are not run by the loop. They are *stepped* in the
thread: a step ends where the coroutine ends, or where it needs the loop. It asks for the loop by
``on_loop``, and goes on when the loop has done what was asked for.

The loop and the thread alternate. While a step runs, the loop does not touch the chain; between two
steps the thread stands still, and a snapshot may be taken. So the chain needs no lock, and its
order, its state and its backpressure are those of a chain that the loop runs itself.

A subtask has one thread for its whole life, because some objects may only be used in the thread
that made them: a connection of sqlite3, what is in ``threading.local``.

To pass a step to the thread and back takes about 50 microseconds of processor time. So a step
should be worth a millisecond or more: results are serialised in the step and gathered
(``GatheredOutput``), and the loop writes their bytes behind it, before anything else is done with
the chain. So the loop touches no record, and all code of a program that a record needs (key
selectors, partitioners, what its class does when it is serialised) runs in the thread, too.

Cancellation: the loop does not wait for a step that is under way. The thread closes the coroutine
when the step has ended, before all that it is asked for later. A coroutine that is closed cannot
ask for the loop; the loop clears up for it by itself (``close_on_loop``). While the loop writes, or
does what the coroutine has asked for, the cancellation is raised in the coroutine, which may ask
for the loop once more to clear up.

``OnLoop`` is the same without a thread, for a chain of coroutine functions, which need the loop for
every record, or of a job that asks for it.
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
"""Batches that a step emits before it waits for the loop to write them: a record that becomes
millions must not become millions in memory."""

BYTES_GATHERED_MAX = 1 << 20
"""Bytes after which it waits, too. A step seldom makes more. Large records may share their content:
serialised ahead of backpressure, they would take many times the memory."""

STEP_S = 0.002
"""About how long a step takes where there is enough to do: it costs about 50 microseconds besides,
and a barrier waits for its end."""

T = TypeVar("T")
Given = TypeVar("Given")
Prepared = tuple[Callable[[], Awaitable[None]], int]
"""Writes a part of what was emitted, which has so many bytes."""

Named = Callable[[Exception, Any], Exception]
"""Returns the error to raise for an error, and for the batch or element that it concerns, which is
None where only bytes are left of it."""


class LongStep(NamedTuple):
    """A call in a subtask's thread that is under way."""

    subtask: str
    seconds: float
    thread: int
    """Its identity."""


class _Here(machine.ThreadLocal):
    """Of the thread that runs, the subtask's thread that it is."""

    thread: TaskThread | None = None


_here = _Here()

_threads: dict[int, TaskThread] = {}
"""Those of this process, by their identity."""


def longest_step(now: float) -> LongStep | None:
    """Return the call that has been under way for longest, in any subtask's thread of this process;
    from any thread."""
    under_way = [
        LongStep(one.name, now - began, one.identity)
        for one in list(_threads.values())
        if (began := one.began_at) is not None
    ]
    return max(under_way, key=lambda one: one.seconds, default=None)


class _Outcome(NamedTuple):
    """How a call in the thread has ended."""

    value: Any
    error: BaseException | None
    seconds: float
    """How long it took."""


class _Step(NamedTuple):
    """How far a step has come."""

    has_ended: bool
    value: Any
    """The result of the coroutine that has ended, or what it asks of the loop."""


class ChainThread(Protocol):
    """Where a chain runs."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the chain; return its result when all that it emitted is written."""

    def call(self, function: Callable[[], T]) -> T:
        """Call a function that is quick, and block the event loop until it returns. No step may be
        under way, or the loop waits for its end, too."""

    async def work(self, function: Callable[[], T]) -> T:
        """Call a function behind the step that is under way, beside the loop."""

    def post(self, function: Callable[[], None]) -> None:
        """Call a function behind all that was asked for before; it may not fail."""

    def working_time(self) -> float:
        """Return the seconds of a clock that stands still while a step waits for the thread, or its
        end for the event loop: what others do says nothing about how long records take."""

    def end(self, last: Callable[[], None]) -> None:
        """Call a function behind all that was asked for before, and take no more calls."""

    async def wait_ended(self) -> None:
        """Wait until the thread has ended. A cancellation ends only the wait."""


class OnLoop:
    """Runs a chain on the event loop."""

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
        """There is no thread."""


class TaskThread:
    """The thread of the subtask called ``name``, in whose task this is made.

    ``gathered`` has what its steps have emitted. Raises JobFailedError if the system allows no more
    threads.
    """

    def __init__(self, name: str, gathered: GatheredOutput) -> None:
        self.name = name
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.current_task()
        """Of the event loop, which runs the subtask; None when the thread has ended."""
        self._gathered = gathered
        self._calls: SimpleQueue[tuple[Callable[[], Any], Callable[[_Outcome], Any]] | None]
        self._calls = SimpleQueue()
        self._ended: asyncio.Future[None] = self.loop.create_future()
        self.gives_up = False
        """Whether the thread closes a coroutine that is cancelled, which cannot wait any more."""
        self._clearing_up: set[asyncio.Task[None]] = set()
        self._handing_s = 0.0
        """For how long steps have waited for the thread, and their ends for the loop."""
        self.identity = 0
        """Of the thread, as ``threading.get_ident`` has it."""
        self.began_at: float | None = None
        """When the call that is under way began, by ``task_time``; None if none is."""
        self.context = copy_context()
        """In which user code runs."""
        # A context is entered by one thread at a time, so the subtask's own cannot be taken.
        main = partial(self.context.run, self._main)
        thread = machine.Thread(target=main, name=f"flinknet {name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise JobFailedError(
                f'subtask "{name}" got no thread ({error}), of which each subtask has one: raise '
                "the limit of processes (ulimit -u, or pids.max of the container), run fewer "
                "subtasks in a worker, or set execution.task-threads to false"
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
                self._gathered.discard()
                self.post(partial(self._give_up, work))
                raise
            try:
                await self._gathered.write()
                if done.has_ended:
                    result: T = done.value
                    return result
                answer = await _answered(done.value)
            except BaseException as error:
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
        """Call a function as ``work`` does; return its result, and how many seconds it took."""
        future: asyncio.Future[_Outcome] = self.loop.create_future()
        self._calls.put((function, partial(self._tell, future)))
        value, error, seconds = await future
        if error is not None:
            try:
                raise error
            finally:
                del error  # which refers to this frame
        return value, seconds

    def post(self, function: Callable[[], None]) -> None:
        self._calls.put((function, self._note))

    def working_time(self) -> float:
        return task_time() - self._handing_s

    def end(self, last: Callable[[], None]) -> None:
        self.post(last)
        self._calls.put(None)

    async def wait_ended(self) -> None:
        # A future that is cancelled keeps the error, which refers to all that its subtask has.
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
            # Records are not to wait here for the next call.
            del call, function, tell, value, raised, outcome
        del _threads[self.identity]
        # The task refers to the chain, and the system takes its time to end a thread.
        self.task = None
        self._soon(_settle, self._ended, None)

    def _give_up(self, work: Coroutine[Any, Any, Any]) -> None:
        self.gives_up = True
        try:
            work.close()
        finally:
            self.gives_up = False

    def clear_up(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Await what ``close`` returns on the loop; the thread does not wait for that."""

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
    """What the steps of one thread have emitted, in order and prepared, for the loop to write."""

    def __init__(self) -> None:
        self._writes: deque[tuple[Callable[[], Awaitable[None]], Named]] = deque()
        self._batches = self._bytes = 0
        """How much is gathered."""
        self._is_discarded = False

    def gathering(
        self, prepare: Callable[[Given], Iterable[Prepared]], named: Named
    ) -> Callable[[Given], Coroutine[Any, Any, None]]:
        """Return a coroutine function that gathers, in the thread.

        ``prepare`` takes a batch or an element apart: it generates coroutine functions, which the
        loop calls to write a part each, with the number of bytes of the part. ``named`` returns the
        error to raise for an error of ``prepare``, or of a write.
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
                if _here.thread is None:
                    await self.write()
                elif self._bytes >= BYTES_GATHERED_MAX:
                    await on_loop(self.write)
            self._batches += 1
            if self._batches >= BATCHES_GATHERED_MAX and _here.thread is not None:
                await on_loop(self.write)

        return gather

    async def write(self) -> None:
        """Write all of it, on the loop. What cannot be written is the last."""
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
        """Write nothing any more: the subtask has failed, or is cancelled."""
        self._is_discarded = True


def _raise_named(named: Named, error: Exception, given: Any) -> NoReturn:
    raised = named(error, given)
    if raised is error:
        raise error
    raise raised from error


def waits_for_step(awaitable: Any) -> bool:
    """Return whether something is the wait of a subtask for what its thread is doing; from any
    thread."""
    if getattr(awaitable, "cr_code", None) is not TaskThread._done.__code__:
        return False
    thread = None if awaitable.cr_frame is None else awaitable.cr_frame.f_locals.get("self")
    return isinstance(thread, TaskThread) and thread.began_at is not None


def is_in_task_thread() -> bool:
    """Whether the code that calls it runs in the thread of a subtask, where there is no loop."""
    return _here.thread is not None


def task_of_subtask() -> asyncio.Task[Any] | None:
    """Return the task that runs the subtask whose thread calls this."""
    return None if _here.thread is None else _here.thread.task


async def on_loop(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on the event loop, and wait for what it returns if that is awaitable."""
    if _here.thread is None:
        returned = call(*arguments)
        return await returned if isawaitable(returned) else returned
    return await _asked(partial(call, *arguments))


async def close_on_loop(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Call ``close`` on the event loop, and await what it returns; for a ``finally``.

    A coroutine that is given up can await nothing any more: for it the loop does so by itself.
    """
    thread = _here.thread
    if thread is not None and thread.gives_up:
        thread.clear_up(close)
    else:
        await on_loop(close)


def soon_on_loop(call: Callable[..., Any], *arguments: Any) -> None:
    """Call a function on the event loop: at once if this is its thread, or else soon."""
    if _here.thread is None:
        call(*arguments)
    else:
        _here.thread.loop.call_soon_threadsafe(call, *arguments)


@coroutine
def _asked(request: Callable[[], Any]) -> Generator[Callable[[], Any], Any, Any]:
    return (yield request)


async def _answered(request: Callable[[], Any] | None) -> Any:
    """Do on the loop what a step asks for; a bare yield asks for a turn of the loop."""
    if request is None:
        return await asyncio.sleep(0)
    returned = request()
    return await returned if isawaitable(returned) else returned


def advance(step: Callable[[Any], Any], argument: Any) -> _Step:
    """Do a step of a coroutine: call its ``send`` or ``throw``."""
    try:
        return _Step(False, step(argument))
    except StopIteration as end:
        return _Step(True, end.value)


def _settle(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)
