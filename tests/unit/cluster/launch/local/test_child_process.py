"""Child processes: their output, their end, and how they are stopped."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from pathlib import Path

import pytest

from flinknet.cluster.launch.local.child_process import ChildProcess, describe_exit


class Lines(list[str]):
    """Collects lines that a child writes."""

    def __init__(self) -> None:
        super().__init__()
        self._came = asyncio.Event()

    def append(self, line: str) -> None:
        super().append(line)
        self._came.set()

    async def has_some(self) -> None:
        """Wait until the child has written a line."""
        while not self:
            self._came.clear()
            await self._came.wait()

    async def until(self, line: str) -> None:
        """Wait until the child has written ``line``."""
        while line not in self:
            self._came.clear()
            await self._came.wait()


async def start(
    program: str, *, lines: Lines, events: Lines | None = None, is_kept: bool = False
) -> ChildProcess:
    return await ChildProcess.start(
        "child",
        (sys.executable, "-c", program),
        environment={**os.environ, "PYTHONUNBUFFERED": "1"},
        on_output=lines.append,
        on_printed=None if events is None else events.append,
        is_kept=is_kept,
    )


@pytest.mark.parametrize(
    ("status", "described"),
    [
        (0, "exited with status 0"),
        (3, "exited with status 3"),
        (-9, "killed by signal 9 (SIGKILL)"),
        (-11, "killed by signal 11 (SIGSEGV)"),
        (-127, "killed by signal 127 (unknown)"),
    ],
)
def test_an_exit_status_is_described(status: int, described: str) -> None:
    assert describe_exit(status) == described


async def test_output_and_status_are_passed_on() -> None:
    lines = Lines()
    program = "import sys; print('out'); print('err', file=sys.stderr); print('end', end='')"
    child = await start(program + "; sys.exit(3)", lines=lines)
    assert await child.wait() == 3
    await child.stop(30.0)
    assert sorted(lines) == ["end", "err", "out"]
    assert not child.is_running


async def test_events_are_apart_from_output() -> None:
    lines = Lines()
    events = Lines()
    child = await start(
        "import sys; print('event'); print('noise', file=sys.stderr)", lines=lines, events=events
    )
    await child.wait()
    await child.stop(30.0)
    assert (events, lines, child.last_line) == (["event"], ["noise"], "noise")


async def test_the_last_line_is_kept() -> None:
    child = await start("for i in range(100): print(i)", lines=Lines())
    assert child.last_line == ""
    await child.wait()
    await child.drain()
    assert child.last_line == "99"
    await child.stop(30.0)


async def test_a_line_without_end_does_not_fill_the_memory() -> None:
    """Output is passed on in pieces, and every byte arrives."""
    lines = Lines()
    child = await start("import sys; sys.stdout.write('x' * 1_000_000)", lines=lines)
    await child.wait()
    await child.stop(30.0)
    assert "".join(lines) == "x" * 1_000_000
    assert max(map(len, lines)) <= 2 * 64 * 1024


@pytest.mark.parametrize("error", [BrokenPipeError, ZeroDivisionError])
async def test_a_failing_reader_of_its_output_does_not_harm_a_child(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """The child writes more than a pipe holds, so it can end only if its output is still read."""

    def fail(line: str) -> None:
        raise error

    child = await ChildProcess.start(
        "child",
        (sys.executable, "-c", "for i in range(100): print('x' * 10_000)"),
        environment=os.environ,
        on_output=fail,
    )
    assert await child.wait() == 0
    await child.stop(30.0)
    assert ("ZeroDivisionError" in caplog.text) == (error is ZeroDivisionError)


async def test_bytes_that_are_no_text_do_not_harm() -> None:
    lines = Lines()
    child = await start(r"import os; os.write(1, b'\xff\xfe\n')", lines=lines)
    await child.wait()
    await child.stop(30.0)
    assert lines == ["\ufffd\ufffd"]


async def test_news_reach_standard_input_line_by_line() -> None:
    lines = Lines()
    child = await start("import sys\nfor line in sys.stdin: print('heard', line)", lines=lines)
    child.tell({"event": "worker_exited", "how": "badly"})
    await lines.until('heard {"event": "worker_exited", "how": "badly"}')
    await child.stop(30.0)
    child.tell({"event": "too late"})


async def test_a_child_that_runs_and_hears_nothing_is_told_in_vain() -> None:
    """A child that was just killed is in this state while its end is not known yet."""
    lines = Lines()
    child = await start(
        "import os, time\nos.close(0)\nos.closerange(3, 99)\nprint('deaf')\ntime.sleep(600)",
        lines=lines,
    )
    await lines.until("deaf")
    for _ in range(10):
        child.tell({"event": "worker_exited"})
        await asyncio.sleep(0)
    assert child.is_running
    child.kill()
    await child.stop(30.0)


async def test_a_child_that_ends_on_request_says_its_last_words() -> None:
    lines = Lines()
    child = await start(
        "import signal, sys, time\n"
        "def stop(*_):\n    print('last words'); sys.exit(7)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print('ready')\n"
        "time.sleep(600)",
        lines=lines,
    )
    await lines.until("ready")
    await child.stop(30.0)
    assert await child.wait() == 7
    assert lines == ["ready", "last words"]


async def test_a_child_that_does_not_end_is_killed() -> None:
    lines = Lines()
    child = await start(
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready')\n"
        "time.sleep(600)",
        lines=lines,
    )
    await lines.until("ready")
    await child.stop(0.01)
    assert await child.wait() == -9


async def test_kill_hurries_a_stop_that_waits() -> None:
    lines = Lines()
    child = await start(
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready')\n"
        "time.sleep(600)",
        lines=lines,
    )
    await lines.until("ready")
    stopping = asyncio.create_task(child.stop(600.0))
    await asyncio.sleep(0)
    child.kill()
    await stopping
    assert not child.is_running


async def test_a_grandchild_that_holds_the_pipes_does_not_hold_us() -> None:
    lines = Lines()
    child = await start(
        "import subprocess, sys\n"
        "program = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "print(subprocess.Popen(program, start_new_session=True).pid)",
        lines=lines,
    )
    assert await child.wait() == 0
    await child.stop(30.0)
    os.kill(int(lines[0]), 9)


GRANDCHILD = """
import subprocess, sys, time
program = [sys.executable, "-c", "import os, time; print(os.getpid()); time.sleep(600)"]
grandchild = subprocess.Popen(
    program, stdout=subprocess.PIPE, text=True, start_new_session={apart}
)
print(grandchild.stdout.readline(), end="")
{end}
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="pidfd is Linux's")
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("end", ["exits", "is stopped", "is killed"])
async def test_processes_that_a_kept_child_started_end_with_it(end: str, apart: bool) -> None:
    """This holds for any end of the child, and for processes in a session of their own."""
    lines = Lines()
    last = "input()" if end == "exits" else "time.sleep(600)"
    child = await start(GRANDCHILD.format(end=last, apart=apart), lines=lines, is_kept=True)
    await lines.has_some()
    descriptor = os.pidfd_open(int(lines[0]))
    try:
        if end == "exits":
            child.tell({})
        elif end == "is killed":
            child.kill()
        if end != "is stopped":
            await child.wait()
        await child.stop(30.0)
        ended, _, _ = select.select([descriptor], [], [], 30)
        assert ended, "the grandchild has survived"
    finally:
        os.close(descriptor)


def open_pipes() -> list[str]:
    links = [path.readlink().name for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [link for link in links if link.startswith("pipe:")]


async def test_a_program_that_is_not_there_leaves_nothing() -> None:
    before = open_pipes()
    with pytest.raises(FileNotFoundError):
        await ChildProcess.start(
            "child",
            ("/no/such/program",),
            environment={},
            on_output=print,
            on_printed=print,
        )
    assert open_pipes() == before


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_child_has_a_session_of_its_own(is_kept: bool) -> None:
    """Ctrl-C in a terminal must reach the launcher alone."""
    lines = Lines()
    program = "import os; print(os.getsid(0) == os.getpid(), os.getpid())"
    child = await start(program, lines=lines, is_kept=is_kept)
    await child.wait()
    await child.stop(30.0)
    assert lines == [f"True {child.pid}"]


@pytest.mark.parametrize("turns", range(6))
async def test_a_start_that_is_cancelled_leaves_no_process(turns: int) -> None:
    """It may be cancelled at any moment; the process has ended when the call returns."""
    before = children()
    starting = asyncio.create_task(start("import time; time.sleep(60)", lines=Lines()))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert children() == before


async def test_a_child_that_cannot_start_is_an_error_even_without_a_waiter() -> None:
    starting = asyncio.create_task(
        ChildProcess.start("child", ("/nowhere/python",), environment={}, on_output=Lines().append)
    )
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises((asyncio.CancelledError, FileNotFoundError)):
        await starting


def children() -> set[str]:
    """Return the children of this process, including ended ones that were not waited for.

    The search covers all processes, as a list by thread misses the children of a thread that is
    just ending.
    """
    return {
        stat.parent.name
        for stat in Path("/proc").glob("[0-9]*/stat")
        if _parent_of(stat) == os.getpid()
    }


def _parent_of(stat: Path) -> int | None:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has just been waited for
        return None
