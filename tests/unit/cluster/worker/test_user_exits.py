"""User code that would end its worker fails its own job instead."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Literal

import pytest

from flinknet.cluster.control.event_loop import loop_factory
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.worker.user_exits import SubtaskTask, run_to_end
from flinknet.config import ClusterConfig


async def test_a_subtask_cannot_cancel_itself_and_is_cancelled_by_others() -> None:
    async def run() -> str:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(RuntimeError, match="cannot cancel its own task: raise an error"):
            task.cancel()
        assert not task.cancelling()
        await asyncio.Event().wait()
        return ""

    task = SubtaskTask(run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_thread_without_an_event_loop_may_cancel_it() -> None:
    """None of the subtask's own code runs there."""
    task = SubtaskTask(asyncio.sleep(0))
    assert await asyncio.to_thread(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


def leave() -> None:
    raise SystemExit(3)


def interrupt() -> None:
    raise KeyboardInterrupt


def stop() -> None:
    asyncio.get_running_loop().stop()


@pytest.mark.parametrize("end", [leave, interrupt, stop])
@pytest.mark.parametrize("event_loop", ["asyncio", "uvloop"])
def test_the_loop_goes_on_until_its_work_is_done(
    end: Callable[[], None],
    event_loop: Literal["asyncio", "uvloop"],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """This holds for errors of tasks and of callbacks. The awaiter of a task gets its error."""

    async def do(call: Callable[[], None]) -> None:
        call()

    async def work() -> list[str]:
        asyncio.get_running_loop().call_soon(end)
        await asyncio.sleep(0.001)
        tasks = [asyncio.create_task(do(end)), asyncio.create_task(asyncio.sleep(0.001))]
        done = await asyncio.gather(*tasks, return_exceptions=True)
        return [type(one).__name__ for one in done]

    config = ClusterConfig(event_loop=event_loop)
    with asyncio.Runner(loop_factory=loop_factory(config)) as runner:
        ended = run_to_end(runner, work())
    names = {leave: "SystemExit", interrupt: "KeyboardInterrupt", stop: "NoneType"}
    assert ended == [names[end], "NoneType"]
    said = capfd.readouterr().err
    assert said.count(f"{names[end]} of a task or callback that user code has made") == (
        0 if end is stop else 2
    )


@pytest.mark.parametrize("error", [SystemExit(3), RuntimeError("no"), ValueError("no")])
def test_an_error_of_the_work_itself_comes_out(error: BaseException) -> None:
    async def work() -> None:
        raise error

    with asyncio.Runner() as runner, pytest.raises(type(error)):
        run_to_end(runner, work())


GUARDED = """
import asyncio, os, signal, sys, threading
from posix import _exit as exit_by_name
from flinknet.cluster.control.stop_signals import when_told_to_stop
from flinknet.cluster.worker.user_exits import guard_process
from flinknet.graph.deployment import SubtaskDescriptor
from flinknet.runtime.running_subtask import RUNNING_SUBTASK

guard_process()

async def work():
    heard = asyncio.Queue()
    when_told_to_stop(heard.put_nowait)
    token = RUNNING_SUBTASK.set("a subtask")
    for call in sys.argv[1:]:
        try:
            eval(call)
        except SystemExit as error:
            print(type(error).__name__, error)
        else:
            print("goes on")
    RUNNING_SUBTASK.reset(token)
    os.kill(os.getpid(), signal.SIGTERM)
    print((await heard.get()).name)

asyncio.run(work())
"""


def guarded(*calls: str) -> tuple[int, list[str], str]:
    """Make calls as user code in a process of their own; return its status and its output."""
    run = subprocess.run(
        [sys.executable, "-c", GUARDED, *calls], capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout.splitlines(), run.stderr


def test_calls_that_would_end_the_worker_raise() -> None:
    status, said, errors = guarded(
        "os._exit(3)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os.kill(0, 2)",
        "os.killpg(os.getpgrp(), signal.SIGTERM)",
        "signal.raise_signal(signal.SIGINT)",
        "__import__('posix')._exit(0)",
        "os.kill(os.getpid(), 0)",
        "signal.raise_signal(signal.SIGCHLD)",
    )
    assert (status, errors) == (0, "")
    advice = " would end the worker, which other subtasks share: raise an error to fail the job"
    assert said[:2] == [
        f"WorkerExit os._exit(3){advice}",
        said[1],
    ]
    assert [line.split()[0] for line in said] == ["WorkerExit"] * 6 + ["goes", "goes", "SIGTERM"]
    assert "SIGTERM) would end the worker" in said[1]
    assert "signal.raise_signal(SIGINT) would end the worker" in said[4]


def test_a_process_that_user_code_forks_ends_as_it_likes() -> None:
    ends = "print(os.waitstatus_to_exitcode(os.waitpid(os.fork() or {call}, 0)[1]), flush=True)"
    status, said, errors = guarded(
        ends.format(call="os._exit(7)"),
        ends.format(call="os.kill(os.getpid(), signal.SIGTERM)"),
    )
    assert (status, errors) == (0, "")
    assert said == ["7", "goes on", "-15", "goes on", "SIGTERM"]


def test_a_thread_of_user_code_ends_the_worker_and_says_so() -> None:
    status, said, errors = guarded("threading.Thread(target=os._exit, args=(3,), name='T').run()")
    assert (status, said[0].split()[0]) == (0, "WorkerExit"), "it is run in this thread"
    status, said, errors = guarded(
        "threading.Thread(target=os._exit, args=(3,), name='T').start() or threading.Event().wait()"
    )
    assert (status, said) == (ExitStatus.USER_CODE, [])
    assert errors == "user code ends this worker: os._exit(3) in thread 'T'\n"
