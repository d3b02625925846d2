"""Watching another process, and the watching process itself: with real processes."""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from flinknet.cluster.worker import pulse_process
from flinknet.cluster.worker.pulse_process import TIME, WatchedProcess

LONG_S = 60.0


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that stays, with a name that looks like the end of a name and a state."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    program = tmp_path / "a) T"
    program.symlink_to(sleep)
    with subprocess.Popen([program, "600"]) as process:
        yield process
        process.kill()


@pytest.fixture(params=["pidfd", "without"])
def watched(
    request: pytest.FixtureRequest,
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> WatchedProcess:
    """Return a watched process, with a kernel that has the system call and one that has not."""
    if request.param == "without":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    return WatchedProcess(sleeper.pid)


def test_a_process_runs_until_it_is_stopped_and_goes_on_until_it_ends(
    sleeper: subprocess.Popen[bytes], watched: WatchedProcess
) -> None:
    assert watched.runs()
    assert not watched.ends_within(0.0)
    sleeper.send_signal(signal.SIGSTOP)
    os.waitpid(sleeper.pid, os.WUNTRACED)
    assert not watched.runs()
    assert not watched.ends_within(0.0)
    sleeper.send_signal(signal.SIGCONT)
    os.waitpid(sleeper.pid, os.WCONTINUED)
    assert watched.runs()
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # its parent has not reaped it yet
    assert watched.ends_within(LONG_S if hasattr(os, "pidfd_open") else 0.0)
    assert not watched.runs()
    sleeper.wait()
    assert watched.ends_within(0.0)
    assert not watched.runs()


def test_a_process_that_has_ended_before_it_is_watched(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    sleeper.wait()
    watched = WatchedProcess(sleeper.pid)
    assert not watched.runs()
    assert watched.ends_within(0.0)


class Page:
    """The page of a worker."""

    def __init__(self, file: IO[bytes]) -> None:
        file.truncate(TIME.size)
        self.descriptor = file.fileno()
        self._page = mmap.mmap(self.descriptor, TIME.size)

    def turn(self, when: float) -> None:
        TIME.pack_into(self._page, 0, when)


async def test_it_speaks_while_the_loop_does_not_turn_and_ends_with_the_worker(
    sleeper: subprocess.Popen[bytes],
) -> None:
    """It is silent while the time in the page is recent, so the first request comes after the time
    was set back. It goes on if the coordinator hangs up."""
    requests: asyncio.Queue[tuple[bytes, bool]] = asyncio.Queue()
    held_up = False

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.put_nowait((await reader.readuntil(b"\r\n\r\n"), held_up))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    with tempfile.TemporaryFile() as file:
        page = Page(file)
        page.turn(time.monotonic() + 3600.0)
        order = {
            "pid": sleeper.pid,
            "page": page.descriptor,
            "interval_s": 0.01,
            "coordinator": server.sockets[0].getsockname(),
            "tls": None,
            "request": "PUT /pulse HTTP/1.1\r\n\r\n",
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", pulse_process.__file__,
            stdin=subprocess.PIPE, pass_fds=[page.descriptor], start_new_session=True,
        )  # fmt: skip
        await process.communicate(json.dumps(order).encode())
        assert process.returncode == 0
        held_up = True
        page.turn(time.monotonic() - 3600.0)
        for _ in range(3):
            assert await requests.get() == (b"PUT /pulse HTTP/1.1\r\n\r\n", True)
        sleeper.kill()
        sleeper.wait()
        while _is_there(group=process.pid):
            await asyncio.sleep(0.001)
    server.close()
    await server.wait_closed()


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
