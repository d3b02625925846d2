"""A real loop that a task blocks, and a loop that turns."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from flinknet.cluster.worker import loop_watch
from flinknet.cluster.worker.loop_watch import LoopWatch
from flinknet.environment.task_thread import GatheredOutput, TaskThread


@pytest.fixture(autouse=True)
def frequent_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "PAUSE_S", 0.01)


async def test_a_task_that_blocks_a_loop_is_named_with_its_place() -> None:
    watch = LoopWatch()

    async def greedy() -> None:
        # Only the account itself tells when enough time has been seen.
        while "greedy" not in [one.task for one in watch.held_up()]:
            pass

    with watch.watching():
        await asyncio.create_task(greedy(), name="greedy")
    (held_up,) = [one for one in watch.held_up() if one.task]
    assert held_up.task == "greedy"
    assert held_up.seconds > 0
    assert "test_loop_watch.py:" in held_up.stack


async def test_the_log_names_once_the_task_that_blocks_a_loop_for_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop_watch, "TOLD_AFTER_S", 0.02)
    watch = LoopWatch()

    async def greedy() -> None:
        seen = 0.0
        while seen < 0.1:
            seen = sum(one.seconds for one in watch.held_up() if one.task == "greedy")

    with watch.watching(), caplog.at_level(logging.WARNING, "flinknet.worker"):
        await asyncio.create_task(greedy(), name="greedy")
    (record,) = caplog.records
    assert record.getMessage().startswith("greedy has blocked the event loop of this worker")
    assert "test_loop_watch.py:" in record.getMessage()


async def test_a_loop_that_turns_is_asked_and_answers() -> None:
    watch = LoopWatch()
    looks: set[float] = set()
    with watch.watching():
        while len(looks) < 4:
            looks.add(watch._times._looked_at)
            await asyncio.sleep(0)
    assert [one for one in watch.held_up() if one.task] == []
    assert "flinknet loop watch" not in [thread.name for thread in threading.enumerate()]


def test_a_loop_that_is_closed_ends_the_watch() -> None:
    async def make() -> LoopWatch:
        return LoopWatch()

    watch = asyncio.run(make())
    with watch.watching():
        watch._ended.wait(60.0)
        assert watch._ended.is_set()


async def test_a_call_in_the_thread_of_a_subtask_that_takes_long_is_told_with_the_place(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported once, though it goes on. The loop turns meanwhile."""
    monkeypatch.setattr(loop_watch, "TOLD_AFTER_S", 0.01)
    watch, thread = LoopWatch(), TaskThread("map (1/1)", GatheredOutput())
    goes_on = threading.Event()

    async def slow_function() -> None:
        goes_on.wait()

    with watch.watching(), caplog.at_level(logging.WARNING, "flinknet.worker"):
        step = asyncio.create_task(thread.run(slow_function()))
        while "map (1/1)" not in caplog.text:
            await asyncio.sleep(0.01)
        for _ in range(10):
            await asyncio.sleep(loop_watch.PAUSE_S)
        goes_on.set()
        await step
    thread.end(lambda: None)
    (told,) = [one for one in caplog.messages if "map (1/1)" in one]
    assert "user code of map (1/1) has been in one call" in told
    assert "slow_function (test_loop_watch.py:" in told
