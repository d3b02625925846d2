"""Tasks and threads of real subtasks, sampled at moments that they do not choose."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from flinknet.buffer.availability import Availability, WaitReason
from flinknet.cluster.worker import stack_sampler
from flinknet.cluster.worker.stack_sampler import (
    Sampled,
    StackSampler,
    Trigger,
    alarm,
    suitable_trigger,
    thread,
)
from flinknet.config import ClusterConfig, NetworkConfig
from flinknet.environment.task_thread import GatheredOutput, TaskThread, on_loop
from flinknet.graph.deployment import SubtaskDescriptor
from flinknet.metrics.stack_samples import Looks, StackSamples
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.net.task_clock import TaskClock
from flinknet.runtime.running_subtask import RUNNING_SUBTASK

WHOSE = Sampled("job", 0, 1)

alarm_is_free = pytest.mark.timeout(method="thread")
"""The SIGALRM of pytest-timeout would otherwise end a test that hangs."""


@pytest.fixture(autouse=True)
def _a_look_comes_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each look reach all tasks, and let samplings have all their looks.

    Other work of the machine must not limit them.
    """
    monkeypatch.setattr(stack_sampler, "LOOK_S", 3600.0)
    monkeypatch.setattr(stack_sampler, "GRACE_S", 3600.0)


async def as_subtask(index: int, work: Coroutine[Any, Any, None], vertex: int = 1) -> None:
    RUNNING_SUBTASK.set(SubtaskDescriptor("job", 0, vertex, index, 4, "Map", (), ()))
    await work


async def sampled(looks: int = 1, trigger: Trigger | None = None) -> StackSamples:
    return await StackSampler(ClusterConfig()).sample(WHOSE, looks, 0.001, trigger)


async def until_seen(
    is_seen: Callable[[StackSamples], bool], trigger: Trigger | None = None
) -> StackSamples:
    samples = StackSamples(1_000)
    while not is_seen(samples):
        samples.add_all(await sampled(5, trigger))
    return samples


async def ended(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def function(call: str) -> str:
    """Return the name of the called function, without its module."""
    return call.partition(" ")[0].rpartition(".")[2]


async def test_a_task_that_waits_is_seen_where_it_does() -> None:
    waiting = asyncio.create_task(as_subtask(2, asyncio.sleep(3600)))
    other = asyncio.create_task(as_subtask(3, asyncio.sleep(3600), vertex=2))
    await asyncio.sleep(0)
    samples = await sampled(3)
    ((stack, times),) = samples.stacks()
    assert (stack.subtask_index, stack.is_on_cpu, times) == (2, False, 3)
    assert [function(call) for call in stack.calls] == ["as_subtask", "sleep"]
    assert samples.looks() == {2: Looks(3, 0)}
    await ended(waiting, other)


@alarm_is_free
async def test_a_task_that_runs_for_moments_only_is_interrupted_in_them() -> None:
    async def compute() -> None:
        while True:
            sum(range(1_000))
            await asyncio.sleep(0)

    running = asyncio.create_task(as_subtask(0, compute()))
    samples = await until_seen(
        lambda samples: any(stack.is_on_cpu for stack, _ in samples.stacks()), alarm
    )
    calls = [stack.calls for stack, _ in samples.stacks() if stack.is_on_cpu]
    # The event loop's frames below it are left out.
    assert ["as_subtask", "compute"] in [[function(call) for call in one[:2]] for one in calls]
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    await ended(running)


@alarm_is_free
async def test_a_task_that_blocks_the_loop_is_not_on_the_cpu() -> None:
    looks = threading.Event()

    @contextmanager
    def watched(look: Callable[[FrameType | None], float | None]) -> Iterator[None]:
        def look_and_say(frame: FrameType | None) -> float | None:
            pause_s = look(frame)
            looks.set()
            return pause_s

        with alarm(look_and_say):
            yield

    async def blocks() -> None:
        while not looks.wait(0.1):
            pass
        threading.Event().wait(0.1)

    blocking = asyncio.create_task(as_subtask(0, blocks()))
    samples = await sampled(1, watched)
    await blocking
    ((stack, _),) = samples.stacks()
    assert not stack.is_on_cpu
    assert [function(call) for call in stack.calls[:3]] == ["as_subtask", "blocks", "wait"]


async def test_a_task_that_may_go_on_waits_for_the_event_loop() -> None:
    async def turns() -> None:
        while True:
            await asyncio.sleep(0)

    turning = asyncio.create_task(as_subtask(0, turns()))
    samples = await until_seen(
        lambda samples: any(
            stack.calls[-1] == "(waits for the event loop)" for stack, _ in samples.stacks()
        )
    )
    assert set(samples.looks()) == {0}
    await ended(turning)


async def test_a_function_in_a_thread_is_seen_beside_its_task() -> None:
    goes_on = threading.Event()

    def compute() -> None:
        while not goes_on.is_set():
            pass

    def blocks() -> None:
        goes_on.wait()

    tasks = [
        asyncio.create_task(as_subtask(index, asyncio.to_thread(work)))
        for index, work in enumerate((compute, blocks))
    ]

    def both(samples: StackSamples) -> bool:
        seen = {(function(stack.calls[0]), stack.is_on_cpu) for stack, _ in samples.stacks()}
        return {("compute", True), ("blocks", False), ("as_subtask", False)} <= seen

    samples = await until_seen(both)
    goes_on.set()
    await asyncio.gather(*tasks)
    assert set(samples.looks()) == {0, 1}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of queues of processors")
async def test_a_thread_that_computes_beside_others_does_not_wait() -> None:
    """It runs a quarter of the time, and is in the processor's queue otherwise."""
    goes_on = threading.Event()
    processor = {min(os.sched_getaffinity(0))}
    hog = f"import os; os.sched_setaffinity(0, {processor}); print(flush=True)\nwhile True: pass"
    command = sys.executable, "-c", hog
    hogs = [await asyncio.create_subprocess_exec(*command, stdout=PIPE) for _ in range(3)]

    def search() -> None:
        os.sched_setaffinity(0, processor)
        while not goes_on.is_set():
            re.search("(a+)+b", "a" * 14)

    searching = asyncio.create_task(as_subtask(0, asyncio.to_thread(search)))
    try:
        for one in hogs:
            assert one.stdout is not None
            await one.stdout.readline()
        samples = await sampled(30)
    finally:
        goes_on.set()
        for one in hogs:
            one.kill()
            await one.communicate()
    await searching
    looks = Counter[bool]()
    for stack, times in samples.stacks():
        if function(stack.calls[0]) == "search":
            looks[stack.is_on_cpu] += times
    assert looks[True] > looks[False]


async def test_a_step_in_the_thread_of_a_subtask_counts_as_the_subtasks_work() -> None:
    """Its wait for the thread is no second stack, and a thread without work has none."""
    computes, goes_on = threading.Event(), threading.Event()

    async def compute() -> None:
        computes.set()
        while not goes_on.is_set():
            pass

    async def asks() -> None:
        await on_loop(asyncio.to_thread, goes_on.wait)

    async def in_thread(work: Coroutine[Any, Any, None]) -> None:
        thread = TaskThread("subtask", GatheredOutput())
        await thread.run(work)
        thread.end(lambda: None)

    tasks = [
        asyncio.create_task(as_subtask(index, in_thread(work())))
        for index, work in enumerate((compute, asks))
    ]
    await asyncio.to_thread(computes.wait)
    found: set[tuple[int, str, bool]] = set()

    def both(samples: StackSamples) -> bool:
        for stack, _ in samples.stacks():
            found.add((stack.subtask_index, function(stack.calls[0]), stack.is_on_cpu))
        return {(0, "compute", True), (1, "as_subtask", False)} <= found

    await until_seen(both)
    goes_on.set()
    await asyncio.gather(*tasks)
    assert {name for subtask, name, _ in found if subtask == 0} == {"compute"}


async def test_a_subtask_that_waits_for_output_memory_is_backpressured() -> None:
    config = NetworkConfig(segment_bytes=1024, network_memory_bytes=1024 * 32)
    async with NetworkEnvironment(config=config) as environment:
        writer = environment.create_record_writer(
            environment.create_result_partition("p", subpartitions=1)
        )

        async def emit() -> None:
            while True:
                await writer.emit(b"x" * 100)

        emitting = asyncio.create_task(as_subtask(0, emit()))
        while not environment.statistics().task_times[0].is_backpressured:
            await asyncio.sleep(0)
        assert (await sampled(2)).looks() == {0: Looks(2, 2)}
        await ended(emitting)


async def test_a_subtask_that_waits_for_input_is_not_backpressured() -> None:
    async with NetworkEnvironment() as environment:
        partition = environment.create_result_partition("p", subpartitions=1)
        wait = TaskClock(asyncio.get_running_loop()).measured_wait(partition, "p", None)

        async def idle() -> None:
            await wait(Availability(), WaitReason.IDLE)

        idling = asyncio.create_task(as_subtask(0, idle()))
        await asyncio.sleep(0)
        assert (await sampled()).looks() == {0: Looks(1, 0)}
        await ended(idling)


async def test_each_of_very_many_tasks_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_sampler, "LOOK_S", 0.0)
    waiting = [asyncio.create_task(as_subtask(n, asyncio.sleep(3600))) for n in range(3)]
    await asyncio.sleep(0)
    samples = await sampled(30)
    looks = {index: seen.all for index, seen in samples.looks().items()}
    assert looks.keys() == {0, 1, 2}
    assert min(looks.values()) > 3, "each look is at one of them"
    assert sum(looks.values()) <= 30
    await ended(*waiting)


async def test_a_task_is_sampled_once_it_becomes_a_subtask() -> None:
    goes_on = asyncio.Event()

    async def become() -> None:
        await goes_on.wait()
        await as_subtask(1, asyncio.sleep(3600))

    tasks = [
        asyncio.create_task(as_subtask(0, asyncio.sleep(3600))),
        asyncio.create_task(become()),
    ]
    await asyncio.sleep(0)

    @contextmanager
    def by_hand(look: Callable[[FrameType | None], float | None]) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        look(None)
        goes_on.set()
        loop.call_soon(loop.call_soon, loop.call_soon, look, None)  # they have gone on by then
        yield

    assert (await sampled(2, by_hand)).looks() == {0: Looks(2, 0), 1: Looks(1, 0)}
    await ended(*tasks)


@alarm_is_free
@pytest.mark.parametrize("trigger", [alarm, thread], ids=["alarm", "thread"])
async def test_a_sampling_that_is_cancelled_leaves_nothing(trigger: Trigger) -> None:
    sampling = asyncio.create_task(
        StackSampler(ClusterConfig()).sample(WHOSE, 1_000_000, 3600.0, trigger)
    )
    await asyncio.sleep(0)
    await ended(sampling)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert "flinknet stack sampler" not in [one.name for one in threading.enumerate()]


@alarm_is_free
async def test_the_alarm_is_taken_only_where_it_is_free() -> None:
    assert suitable_trigger() is alarm
    assert await asyncio.to_thread(suitable_trigger) is thread
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    assert suitable_trigger() is thread
    signal.signal(signal.SIGALRM, before)


async def test_an_error_in_a_sample_fails_only_the_sampling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(loop: asyncio.AbstractEventLoop) -> None:
        raise ValueError("out of order")

    monkeypatch.setattr("asyncio.current_task", fail)
    sampling = stack_sampler._Sampling(
        WHOSE, 10, 0.001, asyncio.get_running_loop(), ClusterConfig()
    )
    assert sampling.look(sys._getframe()) is None
    monkeypatch.undo()
    await sampling.done.wait()
    assert str(sampling.failure) == "out of order"


async def test_a_failed_sampling_reports_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_sampler, "await_chain", lambda task, depth_max: task.no_such_thing)
    waiting = asyncio.create_task(as_subtask(0, asyncio.sleep(3600)))
    await asyncio.sleep(0)
    with pytest.raises(AttributeError, match="no_such_thing"):
        await sampled(3)
    await ended(waiting)


async def test_slow_samples_are_further_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def slow(loop: asyncio.AbstractEventLoop) -> None:
        nonlocal now
        now += 1.0

    sampling = stack_sampler._Sampling(
        WHOSE, 10, 0.001, asyncio.get_running_loop(), ClusterConfig()
    )
    monkeypatch.setattr("flinknet.machine.monotonic", lambda: now)
    monkeypatch.setattr("asyncio.current_task", slow)
    pause_s = sampling.look(None)
    monkeypatch.undo()
    assert pause_s == stack_sampler.REST


async def test_a_sampling_ends_though_its_trigger_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_sampler, "GRACE_S", 0.0)

    @contextmanager
    def never(look: Callable[[FrameType | None], float | None]) -> Iterator[None]:
        yield

    assert (await sampled(2, never)).looks() == {}
