"""No child outlives its launcher, however the launcher ends."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flinknet.cluster.control.exit_status import ExitStatus

CHILD = """
import sys
from flinknet.cluster.control.parent_watch import watch_parent
watch_parent(lambda line: print("heard", line.decode(), flush=True), {on_end})
print("stdin", repr(sys.stdin.read()), flush=True)
print("ready", flush=True)
{work}
"""
SLEEP = "import time; time.sleep(600)"
SPIN = "while True: pass"


def child_program(work: str, on_end: str = "None") -> str:
    return CHILD.format(work=work, on_end=on_end)


def start(work: str, on_end: str = "None", **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", child_program(work, on_end)],
        **options,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_until_ready(child: subprocess.Popen[str]) -> list[str]:
    assert child.stdout is not None
    lines = []
    while (line := child.stdout.readline()) != "ready\n":
        assert line, "the child ended early"
        lines.append(line)
    return lines


@pytest.mark.parametrize("work", [SLEEP, SPIN], ids=["sleeping", "busy"])
def test_a_child_ends_when_the_pipe_ends(work: str) -> None:
    with start(work) as child:
        read_until_ready(child)
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(30) == ExitStatus.PARENT_GONE


def test_a_child_that_leads_a_group_takes_the_group_along() -> None:
    work = "import subprocess; subprocess.Popen(['sleep', '600']); " + SLEEP
    with start(work, start_new_session=True) as child:
        read_until_ready(child)
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.close()
        assert child.stdout.read() == "", "all who hold the other end have ended"
        assert child.wait(30) == -9


def test_the_work_for_the_end_is_done() -> None:
    with start(SLEEP, "lambda: print('the end', flush=True)") as child:
        read_until_ready(child)
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.close()
        assert child.stdout.read() == "the end\n"
        assert child.wait(30) == ExitStatus.PARENT_GONE


def test_lines_are_news_and_standard_input_is_empty() -> None:
    """User code that reads standard input must not steal the launcher's messages."""
    with start(SLEEP) as child:
        assert read_until_ready(child) == ["stdin ''\n"]
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("one\ntwo\n")
        child.stdin.flush()
        assert [child.stdout.readline() for _ in range(2)] == ["heard one\n", "heard two\n"]
        child.stdin.close()
        child.wait(30)


LAUNCHER = """
import os, subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
assert child.stdout is not None
while child.stdout.readline() != "ready\\n":
    pass
if sys.argv[2] == "fork":
    # A copy of the launcher that keeps the write end of the child's pipe.
    if (pid := os.fork()) == 0:
        import time
        time.sleep(600)
else:
    pid = 0
print(child.pid, pid, flush=True)
os.kill(os.getpid(), 9)
"""


@contextmanager
def handle_of(pid: int) -> Iterator[int]:
    """Return a pid file descriptor.

    It is readable once the process has ended, with any parent.
    """
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="PR_SET_PDEATHSIG and pidfd are Linux's")
@pytest.mark.parametrize("held", ["alone", "fork"])
@pytest.mark.parametrize("on_end", ["None", "lambda: None"])
def test_a_child_ends_when_its_launcher_is_killed(held: str, on_end: str) -> None:
    """This holds even while a fork of the launcher holds the pipe open, so that there is no end of
    file."""
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, child_program(SLEEP, on_end), held],
        stdout=subprocess.PIPE,
        text=True,
    ) as launcher:
        assert launcher.stdout is not None
        child, fork = map(int, launcher.stdout.readline().split())
        try:
            with handle_of(child) as descriptor:
                ended, _, _ = select.select([descriptor], [], [], 30)
                assert ended, "the child has outlived its launcher"
        finally:
            if fork:
                os.kill(fork, 9)
    assert launcher.returncode == -9
