"""A keeper ends with the same status as its child, and leaves no process behind that the child has
started."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from flinknet.cluster.control.bare_script import bare_script
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.launch.local import keeper

PATIENCE_S = 60.0

needs_subreaper = pytest.mark.skipif(
    sys.platform != "linux", reason="a process is a subreaper on Linux alone"
)


class Kept:
    """A Python program and its keeper."""

    def __init__(self, program: str, *, command: str = sys.executable) -> None:
        reading, report = os.pipe()
        self.keeper = subprocess.Popen(
            [*bare_script(keeper), str(report), command, "-u", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[report],
            start_new_session=True,
        )
        os.close(report)
        self.pid = int(os.read(reading, 32))
        os.close(reading)

    def line(self) -> str:
        """Return the next line that the program prints."""
        assert self.keeper.stdout is not None
        return self.keeper.stdout.readline().rstrip()

    def end(self) -> tuple[int, str, str]:
        """Return the keeper's status and the remaining output, once every process with this output
        has ended."""
        assert self.keeper.stdin is not None
        assert self.keeper.stdout is not None
        assert self.keeper.stderr is not None
        with self.keeper:
            status = self.keeper.wait(PATIENCE_S)
            return status, self.keeper.stdout.read(), self.keeper.stderr.read()


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(7)", 7),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGUSR1)", -signal.SIGUSR1),
    ],
)
def test_it_ends_with_the_status_of_its_child(end: str, status: int) -> None:
    kept = Kept(f"import os, signal, sys; print(os.getpid(), os.getsid(0)); {end}")
    assert kept.line() == f"{kept.pid} {kept.pid}", "it leads a session of its own"
    assert kept.end() == (status, "", "")


def test_a_command_that_cannot_be_started_is_reported() -> None:
    status, _, said = Kept("", command="/no/such/program").end()
    assert status == 127
    assert said.startswith("/no/such/program cannot be started: ")


def test_it_passes_on_that_it_is_to_stop() -> None:
    kept = Kept(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(print('heard')))\n"
        "print('ready'); time.sleep(600)"
    )
    assert kept.line() == "ready"
    kept.keeper.terminate()
    assert kept.end() == (0, "heard\n", "")


DAEMON = """
import os, signal, sys, time
def start(*, is_daemon):
    if os.fork():
        return
    if is_daemon:
        os.setsid()
        if os.fork():
            os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"%d\\n" % os.getpid())  # at once: both write to the same pipe
    time.sleep(600)
    os._exit(0)
start(is_daemon=True)
start(is_daemon=False)
sys.stdin.readline()
"""
"""Starts a daemon, which has left its session and its parent, and a plain child."""


@needs_subreaper
@pytest.mark.parametrize("end", ["it exits", "it is killed", "its launcher ends"])
def test_no_started_process_is_left(end: str) -> None:
    kept = Kept(DAEMON)
    descriptors = [os.pidfd_open(int(kept.line())) for _ in range(2)]
    assert kept.keeper.stdin is not None
    if end == "it exits":
        kept.keeper.stdin.write("\n")
        kept.keeper.stdin.flush()
    elif end == "it is killed":
        os.kill(kept.pid, signal.SIGKILL)
    else:
        kept.keeper.stdin.close()
    status, _, said = kept.end()
    assert said == ""
    expected = {"it exits": 0, "it is killed": -signal.SIGKILL}.get(end, ExitStatus.PARENT_GONE)
    assert status == expected or (end == "its launcher ends" and status == 0)
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], 0.0)[0], "it has ended before the keeper has"
        os.close(descriptor)


@needs_subreaper
def test_orphans_are_let_go_of_while_it_keeps() -> None:
    """A worker may live for months, and processes that end meanwhile must leave no zombies."""
    kept = Kept(
        "import os, sys\n"
        "reading, writing = os.pipe()\n"
        "if (child := os.fork()) == 0:\n"
        "    orphan = os.fork()\n"
        "    if orphan: print(orphan)\n"
        "    else: os.close(writing); os.read(reading, 1)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0); sys.stdin.readline(); os.close(writing); sys.stdin.readline()"
    )
    orphan = int(kept.line())
    descriptor = os.pidfd_open(orphan)
    assert kept.keeper.stdin is not None
    kept.keeper.stdin.write("\n")
    kept.keeper.stdin.flush()
    assert select.select([descriptor], [], [], PATIENCE_S)[0]
    os.close(descriptor)
    while True:  # it is a zombie until the keeper has been woken
        try:
            os.kill(orphan, 0)
        except ProcessLookupError:
            break
    assert kept.keeper.poll() is None
    kept.keeper.stdin.write("\n")
    kept.keeper.stdin.flush()
    assert kept.end()[0] == 0
