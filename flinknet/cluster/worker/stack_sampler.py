"""Looks at what subtasks do, at moments that they do not choose, and hardly holds them up.

Theory of operation. A look is at one moment:

- the task that the event loop runs has the stack of the loop's thread;
- the other tasks wait: for something, or, if that is there, for the event loop; where they do is
  said by the coroutines that await each other (``await_chain.py``);
- what a subtask runs in its thread, or in a thread of an executor, has that thread's stack.

What belongs to a subtask is told by a context variable (``runtime/running_subtask.py``).

A thread that looks now and then would only see what is there when it gets the interpreter, which is
when the event loop waits: never a task that runs for less than some milliseconds. So a timer of the
kernel interrupts the process (SIGALRM), and the look is part of the signal's handler, in whatever
the loop's thread does. The pauses are of different length, as a subtask may have a pace, too. Where
that is not to be had (the loop is not in the main thread, or somebody else uses the signal), a
thread looks after all, and tells too little of what runs.

A look may take ``LOOK_S``. What it has not come to then, of very many tasks, has its turn in the
next one, so that each subtask is looked at more rarely; and between two looks is ``REST`` times as
long as one has taken. So it is with finding out whose a task is, which is remembered; and all tasks
are listed again only when each that is known has had its turn, because the list alone takes 0.3 µs
for each.

Whether a task that was interrupted used the CPU, or blocks the loop, shows in what comes of it: how
much its thread has computed until the loop turns again. Of other threads it is how much they have
since they were seen at work before. On the CPU means half of the time that was left to them: less
than what has passed where others compute too (``thread_clocks.py``), or where they had work only in
a part of the looks. What is compiled (C, and parts of
flinknet) is interrupted when it returns to Python or calls it: while it runs, it is not in a stack,
but who has called it is.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from types import FrameType
from typing import Any, NamedTuple

from flinknet import machine
from flinknet.buffer.availability import WaitReason
from flinknet.cluster.control.await_chain import (
    await_chain,
    awaited_future,
    call_text,
    context_of_task,
    frames_of,
    work_of_thread,
)
from flinknet.cluster.worker.thread_clocks import ThreadClocks
from flinknet.config import ClusterConfig
from flinknet.environment.task_thread import waits_for_step
from flinknet.metrics.stack_samples import Stack, StackSamples
from flinknet.net.task_clock import reason_of_wait
from flinknet.runtime.running_subtask import RUNNING_SUBTASK

__all__ = ["Sampled", "StackSampler", "Trigger", "alarm", "thread"]

LOOK_S = 0.001
"""After which a look ends, so that no record waits much longer for it."""

REST = 20
"""Looks take at most one part of so many of the time."""

PATIENCE = 2
"""A sampling ends after so many times as long as its looks are apart, with fewer looks,"""

GRACE_S = 1.0
"""and so much more: the process may be busy, or stand still."""

FIRST_S = 0.001
"""Until the first look: the loop has turned to others by then."""

READY = "(waits for the event loop)"

LOOP = "(event loop)"
"""Of a task that is about to run, or to wait."""

_BACKPRESSURED = (WaitReason.SOFT_BACKPRESSURE, WaitReason.HARD_BACKPRESSURE)


class Sampled(NamedTuple):
    """Whose subtasks are looked at: those of a vertex in an attempt of a job."""

    job_id: str
    attempt: int
    vertex: int


Trigger = Callable[[Callable[[FrameType | None], float | None]], Any]
"""A context manager in which a look is taken again and again: called with the frame that the loop's
thread is in, it says how long to wait for the next one, or None to end."""


class StackSampler:
    """Samples what runs on one loop, in whose thread it is made, and in threads beside it."""

    def __init__(self, config: ClusterConfig) -> None:
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._one_at_a_time = asyncio.Lock()

    async def sample(
        self, whose: Sampled, looks: int, delay_s: float, trigger: Trigger | None = None
    ) -> StackSamples:
        """Look so many times, with so long in between on average, when nobody else samples any
        more. Cancelled, it leaves nothing."""
        async with self._one_at_a_time:
            sampling = _Sampling(whose, looks, delay_s, self._loop, self._config)
            with suppress(TimeoutError), (trigger or suitable_trigger())(sampling.look):
                async with asyncio.timeout(PATIENCE * looks * delay_s + GRACE_S):
                    await sampling.done.wait()
        if sampling.failure is not None:
            raise sampling.failure
        return sampling.samples


class _Sampling:
    """One sampling, whose looks may interrupt anything."""

    def __init__(
        self,
        whose: Sampled,
        looks: int,
        delay_s: float,
        loop: asyncio.AbstractEventLoop,
        config: ClusterConfig,
    ) -> None:
        self.samples = StackSamples(config.stacks_distinct_max)
        self.done = asyncio.Event()
        self.failure: Exception | None = None
        self._whose = whose
        self._looks = looks
        self._delay_s = delay_s
        self._loop = loop
        self._loop_thread = machine.thread_id()
        self._depth_max = config.stack_depth_max
        self._turn = 0
        """Where a look begins that may not come to all tasks."""
        self._known: dict[asyncio.Task[Any], int | None] = {}
        """The index of the subtask that each task of the loop belongs to; None if it is not one of
        those that are sampled. To find it out takes longer than to remember it."""
        self._tasks: list[asyncio.Task[Any]] = []
        """Those of them that are sampled."""
        self._has_found_all = True
        self._to_look_at = 0
        """So many more of them before tasks are listed again."""
        self._looks_taken = 0
        self._seen: Counter[int] = Counter()
        """In how many of them each thread had work of a subtask."""
        self._clocks: dict[int, ThreadClocks] = {}
        """Of each such thread, those at the last of them."""

    def look(self, frame: FrameType | None) -> float | None:
        """Count what is to be seen now. It fails nobody that it interrupts."""
        begun = machine.monotonic()
        try:
            self._look(frame, begun)
        except Exception as error:
            self.failure = error
            self._looks = 0
        self._looks -= 1
        if self._looks <= 0:
            with suppress(RuntimeError):  # The loop is closed.
                self._loop.call_soon_threadsafe(self.done.set)
            return None
        pause_s = self._delay_s * machine.uniform(0.5, 1.5)
        return max(pause_s, REST * (machine.monotonic() - begun))

    def _look(self, frame: FrameType | None, now: float) -> None:
        self._looks_taken += 1
        running = asyncio.current_task(self._loop)
        seen: defaultdict[int, bool] = defaultdict(bool)
        """Whether they are backpressured, by index."""
        index = None if running is None else self._index_in(context_of_task(running))
        if running is not None and index is not None:
            seen[index] = False
            self._note_running(index, running, frame)
        for index, stack in self._in_threads():
            seen[index] = seen[index]
            self.samples.add_stack(stack)
        for index, stack, is_backpressured in self._waiting(running, now + LOOK_S):
            seen[index] |= is_backpressured
            self.samples.add_stack(stack)
        for index, is_backpressured in seen.items():
            self.samples.add_look(index, is_backpressured=is_backpressured)

    def _note_running(self, index: int, task: asyncio.Task[Any], frame: FrameType | None) -> None:
        """Count the stack when it shows whether it uses the CPU."""
        frames = frames_of(frame)
        outermost = getattr(task.get_coro(), "cr_code", None)
        begin = next((n for n, one in enumerate(frames) if one.f_code is outermost), None)
        calls = (LOOP,) if begin is None else self._calls(frames[begin:])
        before = ThreadClocks.read([self._loop_thread])

        def turned() -> None:
            clocks = ThreadClocks.read([self._loop_thread])
            is_on_cpu = clocks.has_computed(self._loop_thread, before)
            self.samples.add_stack(Stack(index, is_on_cpu, calls))

        self._loop.call_soon_threadsafe(turned)

    def _in_threads(self) -> Iterator[tuple[int, Stack]]:
        found: dict[int, tuple[int, Sequence[FrameType]]] = {}
        for thread, innermost in sys._current_frames().items():
            context, frames = work_of_thread(frames_of(innermost))
            index = self._index_in(context)
            if index is not None:
                found[thread] = index, frames
        if not found:
            return
        clocks = ThreadClocks.read(found)
        for thread, (index, frames) in found.items():
            self._seen[thread] += 1
            before, self._clocks[thread] = self._clocks.get(thread), clocks
            occupied = self._seen[thread] / self._looks_taken
            is_on_cpu = before is not None and clocks.has_computed(thread, before, occupied)
            yield index, Stack(index, is_on_cpu, self._calls(frames))

    def _waiting(
        self, running: asyncio.Task[Any] | None, until: float
    ) -> Iterator[tuple[int, Stack, bool]]:
        if self._to_look_at <= 0:
            self._find_tasks(until)
        tasks = self._tasks
        for place in range(len(tasks)):
            task = tasks[(self._turn + place) % len(tasks)]
            index = self._known[task]
            self._to_look_at -= 1
            if task is running or task.done() or index is None:
                continue
            chain = await_chain(task, self._depth_max)
            if any(waits_for_step(link.awaitable) for link in chain):
                continue  # The stack of the thread is what the subtask does.
            calls = tuple(link.text for link in chain)
            if awaited_future(task) is None:
                calls += (READY,)
            reasons = {reason_of_wait(link.awaitable) for link in chain}
            yield index, Stack(index, False, calls), not reasons.isdisjoint(_BACKPRESSURED)
            if machine.monotonic() >= until:
                self._turn += place + 1
                return
        self._turn = 0

    def _find_tasks(self, until: float) -> None:
        """Find out whose the tasks are that are there now, at least of one more, and of no other
        when it is time; those that were known keep their order. Of others it is asked anew each
        time that all have been found: a task belongs to a subtask only from some moment on.

        Nothing is made for each task that the garbage collector counts: a collection in a look
        takes far longer than the look."""
        present = asyncio.all_tasks(self._loop)
        known = {
            task: index
            for task, index in self._known.items()
            if task in present and (index is not None or not self._has_found_all)
        }
        for task in present:
            if task not in known:
                known[task] = self._index_in(context_of_task(task))
                if machine.monotonic() >= until:
                    break
        self._known = known
        self._has_found_all = len(known) == len(present)
        self._tasks = [task for task, index in known.items() if index is not None]
        self._to_look_at = len(self._tasks) if self._has_found_all else 0

    def _index_in(self, context: Context | None) -> int | None:
        subtask = None if context is None else context.get(RUNNING_SUBTASK)
        if subtask is None or (subtask.job_id, subtask.attempt, subtask.vertex) != self._whose:
            return None
        return subtask.index

    def _calls(self, frames: Sequence[FrameType]) -> tuple[str, ...]:
        return tuple(call_text(one.f_code, one.f_lineno) for one in frames[: self._depth_max])


def suitable_trigger() -> Trigger:
    """The alarm if this thread may have it and nobody else does."""
    is_main = machine.current_thread() is machine.main_thread()
    is_free = signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, signal.SIG_IGN)
    return alarm if is_main and is_free else thread


@contextmanager
def alarm(look: Callable[[FrameType | None], float | None]) -> Iterator[None]:
    """Have a timer of the kernel interrupt the main thread, in which this is called."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        pause_s = look(frame)
        if pause_s is not None:
            signal.setitimer(signal.ITIMER_REAL, pause_s)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, FIRST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def thread(look: Callable[[FrameType | None], float | None]) -> Iterator[None]:
    """Have a thread look at this one."""
    looked_at = machine.thread_id()
    ended = machine.Event()

    def look_again_and_again() -> None:
        pause_s: float | None = FIRST_S
        while pause_s is not None and not ended.wait(pause_s):
            pause_s = look(sys._current_frames().get(looked_at))

    looking = machine.Thread(
        target=look_again_and_again, name="flinknet stack sampler", daemon=True
    )
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
