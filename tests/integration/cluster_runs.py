"""Runs of programs and of ``flinknet run`` as a user starts them.

The processes of a run can be watched from outside.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = [
    "ENDLESS_JOB",
    "LOOK_S",
    "ONE_WORKER",
    "Run",
    "environment",
    "flinknet_run",
    "python_run",
    "start_run",
]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
"""Seconds after which a hanging run fails with a message; no result depends on it."""

PROGRAM_PATIENCE_S = 110.0
"""The same for a whole program, which may have to start a session of Spark."""

LOOK_S = 0.01
"""Interval at which tests poll other processes.

A test that polls without a pause takes the processors that those need. When two such tests handed a
file system's answers from thread to thread, a kernel ran next to nothing else for half a minute,
including its own workers.
"""

ONE_WORKER = "--workers=1"
"""For tests that need no second worker; each worker takes half a second to start."""

INTERRUPTIBLE = """
import signal, sys
from flinknet.cli import main as cli

# A test run in the background may ignore these, and its children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
cli.main(sys.argv[1:])
"""

ENDLESS_JOB = """
from flinknet.datastream import GeneratorSource, RateLimitedSource, StreamExecutionEnvironment

environment = StreamExecutionEnvironment().set_parallelism(2)
source = GeneratorSource(lambda number: (number % 7, number))
numbers = environment.from_source(RateLimitedSource(source, 2_000.0))
sums = numbers.key_by(lambda record: record[0]).reduce(lambda a, b: (a[0], b[1]))
sums.sink_to(lambda record: None)
environment.execute("endless")
"""


def environment(**variables: str) -> dict[str, str]:
    """Return the variables of a process that imports this package, with ``variables`` added."""
    return {**os.environ, "COLUMNS": "120", "PYTHONPATH": str(ROOT), **variables}


def python_run(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments to its end, without a terminal."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=PROGRAM_PATIENCE_S,
        check=False,
    )


def flinknet_run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run ``flinknet run`` to its end."""
    return python_run("-m", "flinknet.cli", "run", *arguments, cwd=cwd)


class Run:
    """``flinknet run`` in its own process, and the processes that it starts."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, "run", *arguments],
            cwd=cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.output: list[str] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._handles: dict[str, int] = {}

    @property
    def pid(self) -> int:
        """The launcher's process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the launcher is running."""
        return self._process.poll() is None

    def wait_for_line(self, text: str) -> str:
        """Wait for a line that contains ``text``."""
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            if text in line:
                return line
            assert line, f"the run ended without {text!r}:\n{''.join(self.output)}"

    def wait_until_running(self) -> dict[str, int]:
        """Wait until the job runs; return the children by name, and watch them."""
        self.wait_for_line("RUNNING")
        return self.hold_children()

    def hold_children(self) -> dict[str, int]:
        """Return the children by name, and watch them."""
        children = self.children()
        for name, pid in children.items():
            self.hold(name, pid)
        return children

    def hold(self, name: str, pid: int) -> None:
        """Watch for the end of a process, unless it has ended."""
        with suppress(ProcessLookupError):
            self._handles[name] = os.pidfd_open(pid)

    def children(self) -> dict[str, int]:
        """Return the process ids of the coordinator and the workers by name."""
        found = {}
        for pid in _children_of(self.pid):
            if "flinknet.cluster.coordinator" in _command_of(pid):
                found["coordinator"] = pid
            for kept in _children_of(pid):  # a keeper is the parent of each worker
                words = _command_of(kept)
                ids = [word.removeprefix("--worker-id=") for word in words if "worker-id=" in word]
                # A keeper has the worker's arguments, too, and runs with -I.
                if ids and "-I" not in words:
                    found[ids[0]] = kept
        return found

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the launcher."""
        self._process.send_signal(number)

    def wait(self) -> tuple[int, str]:
        """Wait for the launcher's end; return its status and all of its output."""
        status = self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status, "".join(self.output)

    def wait_for_orphans(self) -> list[str]:
        """Return the watched processes that do not end by themselves; it should be empty."""
        left = dict(self._handles)
        deadline = time.monotonic() + PATIENCE_S
        while left and time.monotonic() < deadline:
            ended, _, _ = select.select(list(left.values()), [], [], PATIENCE_S)
            left = {name: handle for name, handle in left.items() if handle not in ended}
        return sorted(left)

    def close(self) -> None:
        """Kill all watched processes and the launcher."""
        for handle in self._handles.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output.append(line)
            self._lines.put(line)
        self._lines.put("")


def _children_of(pid: int) -> list[int]:
    """Return the children of a process, or none if it has ended."""
    with suppress(OSError):
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return []


def _command_of(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


@contextmanager
def start_run(*arguments: str, cwd: Path) -> Iterator[Run]:
    """Start ``flinknet run``, and clean up after it."""
    run = Run(*arguments, cwd=cwd)
    try:
        yield run
    finally:
        run.close()
