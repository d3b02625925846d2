"""The stacks of real threads and tasks."""

from __future__ import annotations

import asyncio
import threading

from flinknet.cluster.control.thread_dump import thread_dump


async def test_every_thread_and_every_task_is_told() -> None:
    goes_on = threading.Event()

    def blocks() -> None:
        goes_on.wait()

    async def sleeps() -> None:
        await asyncio.sleep(3600)

    async def turns() -> None:
        await asyncio.sleep(0)

    thread = threading.Thread(target=blocks, name="blocked")
    thread.start()
    sleeping = asyncio.create_task(sleeps(), name="sleeper")
    await asyncio.sleep(0)
    turning = asyncio.create_task(turns(), name="turner")
    told = {one.name: one.text for one in thread_dump(asyncio.get_running_loop(), 100)}
    goes_on.set()
    thread.join()
    sleeping.cancel()
    await asyncio.gather(sleeping, turning, return_exceptions=True)
    head, *calls = told["blocked"].splitlines()
    assert head == f'"blocked" Id={thread.ident}'
    assert any("blocks (test_thread_dump.py:" in call for call in calls)
    assert calls.index(next(call for call in calls if "Event.wait" in call)) < len(calls) - 1
    head, *calls = told["task sleeper"].splitlines()
    assert head == '"task sleeper" WAITING'
    assert [call.partition(" (")[0].rpartition(".")[2] for call in calls] == [
        "\tat sleep",
        "sleeps",
    ]
    assert told["task turner"].startswith('"task turner" RUNNABLE, it waits for the event loop')
    mine = asyncio.current_task()
    assert mine is not None
    assert "RUNNABLE, it runs on the event loop" in told[f"task {mine.get_name()}"]


async def test_a_deep_stack_is_cut() -> None:
    for one in thread_dump(asyncio.get_running_loop(), 1):
        assert one.text.count("\tat ") <= 1
