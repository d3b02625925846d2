"""Samples of the stacks of subtasks, taken at moments that subtasks do not choose.

Theory of operation. One look covers one moment:

- The task that the event loop runs has the stack of the loop's thread.
- Each other task waits for something, or for the event loop. The chain of coroutines that await
  each other shows the place (``await_chain.py``).
- Work of a subtask in its own thread or in an executor's thread has the stack of that thread.

A context variable tells which subtask a task or thread belongs to (``runtime/running_subtask.py``).

A plain sampling thread runs only when it gets the interpreter, that is, when the event loop waits.
It would never see a task that runs for a few milliseconds. Instead, a kernel timer interrupts the
process (SIGALRM), and the signal handler takes the look. A thread is the fallback if the loop is
not in the main thread or the signal is in use; it sees too little of running tasks.

A look may take ``LOOK_S``. With very many tasks, the next look goes on with the remaining ones, so
each subtask is looked at more rarely.

A look cannot tell whether the interrupted task uses the CPU. The CPU time of its thread until the
loop turns again tells. Other threads are judged by their CPU time since they were last seen at
work. A thread is on the CPU if it computes for half of the time that was left to it
(``thread_clocks.py``). Compiled code (C, and parts of flinknet) is interrupted only when it returns
to Python or calls it. While it runs, the stack shows its caller, not the code itself.
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
"""Seconds after which a look ends, so that no record waits much longer for it."""

REST = 20
"""Looks take at most one part in this many of the time."""

PATIENCE = 2
"""Factor on the nominal duration of a sampling, after which it ends with fewer looks."""

GRACE_S = 1.0
"""Seconds added to that limit, because the process may be busy or stand still."""

FIRST_S = 0.001
"""Seconds until the first look; the loop has turned to other tasks by then."""

READY = "(waits for the event loop)"

LOOP = "(event loop)"
"""The stack of a task that is about to run or to wait."""

_BACKPRESSURED = (WaitReason.SOFT_BACKPRESSURE, WaitReason.HARD_BACKPRESSURE)


class Sampled(NamedTuple):
    """The subtasks to sample, namely all subtasks of one vertex in an attempt of a job."""

    job_id: str
    attempt: int
    vertex: int


Trigger = Callable[[Callable[[FrameType | None], float | None]], Any]
"""A context manager in which looks are taken repeatedly.

It calls its argument with the current frame of the loop's thread. The result is the number of
seconds until the next look, or None to end.
"""


class StackSampler:
    """Samples the work on one event loop and in threads; make it in the loop's thread."""

    def __init__(self, config: ClusterConfig) -> None:
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._one_at_a_time = asyncio.Lock()

    async def sample(
        self, whose: Sampled, looks: int, delay_s: float, trigger: Trigger | None = None
    ) -> StackSamples:
        """Take ``looks`` looks, ``delay_s`` apart on average, and return the samples.

        One sampling runs at a time; others wait for their turn. A cancelled sampling leaves no
        timer, handler or thread behind.
        """
        async with self._one_at_a_time:
            sampling = _Sampling(whose, looks, delay_s, self._loop, self._config)
            with suppress(TimeoutError), (trigger or suitable_trigger())(sampling.look):
                async with asyncio.timeout(PATIENCE * looks * delay_s + GRACE_S):
                    await sampling.done.wait()
        if sampling.failure is not None:
            raise sampling.failure
        return sampling.samples


class _Sampling:
    """One sampling; its looks may interrupt any code."""

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
        """The error of a look, which ends the sampling."""
        self._whose = whose
        self._looks = looks
        self._delay_s = delay_s
        self._loop = loop
        self._loop_thread = machine.thread_id()
        self._depth_max = config.stack_depth_max
        self._turn = 0
        """Index of the first task of the next look, if one look cannot cover all tasks."""
        self._known: dict[asyncio.Task[Any], int | None] = {}
        """The index of the subtask that each task of the loop belongs to.

        None if that subtask is not sampled. Remembered because a lookup takes longer.
        """
        self._tasks: list[asyncio.Task[Any]] = []
        """The known tasks that are sampled."""
        self._has_found_all = True
        """Whether ``_known`` has all tasks of the loop."""
        self._to_look_at = 0
        """Number of looks at tasks left before all tasks of the loop are listed again."""
        self._looks_taken = 0
        self._seen: Counter[int] = Counter()
        """Number of looks in which each thread had work of a subtask."""
        self._clocks: dict[int, ThreadClocks] = {}
        """For each such thread, the clocks when it was last seen at work."""

    def look(self, frame: FrameType | None) -> float | None:
        """Count the stacks of this moment, and return the pause until the next look.

        The interrupted code never sees an error of a look: the error ends the sampling.
        """
        begun = machine.monotonic()
        try:
            self._look(frame, begun)
        except Exception as error:
            self.failure = error
            self._looks = 0
        self._looks -= 1
        if self._looks <= 0:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.done.set)
            return None
        # The pauses vary, because a subtask may have a rhythm of its own.
        pause_s = self._delay_s * machine.uniform(0.5, 1.5)
        return max(pause_s, REST * (machine.monotonic() - begun))

    def _look(self, frame: FrameType | None, now: float) -> None:
        self._looks_taken += 1
        running = asyncio.current_task(self._loop)
        seen: defaultdict[int, bool] = defaultdict(bool)
        """Whether each subtask is backpressured, by index."""
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
        """Count the stack once the loop has turned, which shows whether the task used the CPU."""
        frames = frames_of(frame)
        # Frames outside the task's coroutine belong to the event loop.
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
                continue  # the stack of its thread shows the work of this subtask
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
        """Assign the loop's present tasks to subtasks, as far as time allows.

        At least one new task is assigned, and no more after ``until``. Known tasks keep their
        order. Tasks of no sampled subtask are checked again each time that all tasks have been
        found, because a task belongs to a subtask only from some moment on.

        This code makes no object per task that the garbage collector tracks: a collection within a
        look would take far longer than the look.
        """
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
        # Listing all tasks takes 0.3 µs for each, so the next list waits until each task had its
        # turn.
        self._to_look_at = len(self._tasks) if self._has_found_all else 0

    def _index_in(self, context: Context | None) -> int | None:
        subtask = None if context is None else context.get(RUNNING_SUBTASK)
        if subtask is None or (subtask.job_id, subtask.attempt, subtask.vertex) != self._whose:
            return None
        return subtask.index

    def _calls(self, frames: Sequence[FrameType]) -> tuple[str, ...]:
        return tuple(call_text(one.f_code, one.f_lineno) for one in frames[: self._depth_max])


def suitable_trigger() -> Trigger:
    """Return the alarm if this is the main thread and SIGALRM is unused, else the thread."""
    is_main = machine.current_thread() is machine.main_thread()
    is_free = signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, signal.SIG_IGN)
    return alarm if is_main and is_free else thread


@contextmanager
def alarm(look: Callable[[FrameType | None], float | None]) -> Iterator[None]:
    """Take looks from a kernel timer that interrupts the main thread; call it there."""

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
    """Take looks at the calling thread from another thread."""
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
