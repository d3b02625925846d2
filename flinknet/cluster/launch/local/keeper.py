"""The parent of a worker, which kills all processes that user code has started in the worker.

It runs as a script between launcher and worker. It imports little, so that it starts in a few
hundredths of a second and takes some 10 MB::

    python -I -S keeper.py REPORT COMMAND ...

Theory of operation. User code starts processes, and some of those leave the worker's session and
outlive their parents: daemons, servers of a test, browsers. On Linux, the keeper is the *subreaper*
of all of them: the kernel makes it the parent of each process that loses its own parent. When the
worker has ended, the keeper kills its children until none is left. Then it ends as the worker has
ended: with the same status, or by the same signal.

The keeper writes the worker's process id to the descriptor REPORT, and forwards SIGTERM, SIGINT and
SIGHUP to the worker. When the launcher ends, the keeper's standard input ends, and it kills the
worker and all of these children. The worker ends with the keeper (``parent_watch.py``).

macOS has no subreaper. There the worker's process group is killed, and a process that has left the
group and lost its parent is not found.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

__all__ = ["keep"]

_PR_SET_CHILD_SUBREAPER = 36
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_MS = 1000
"""Milliseconds between two checks of the launcher's process id.

A process that the launcher has forked may hold its pipe open, so the pipe alone does not tell.
"""
_CANNOT_START = 127
"""The exit status of shells for an unknown command."""
_PARENT_GONE = 4
"""``ExitStatus.PARENT_GONE``; the package is not imported here."""


def keep(report: int, command: list[str]) -> NoReturn:
    """Run ``command``, kill the processes that it leaves behind, and end as it has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    launcher = os.getppid()
    woken, wake = os.pipe()
    for descriptor in (woken, wake):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    os.set_inheritable(report, False)
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    worker = os.fork()
    if worker == 0:
        _become(command)

    def pass_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(worker, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    os.write(report, b"%d\n" % worker)
    os.close(report)
    events = select.poll()
    events.register(woken, select.POLLIN)
    events.register(0, 0)  # only its end: the launcher's messages are for the worker
    while (status := _status_of(worker)) is None:
        ready = [descriptor for descriptor, _ in events.poll(_LOOK_MS)]
        with suppress(BlockingIOError):
            os.read(woken, 4096)
        if 0 in ready or os.getppid() != launcher:
            _kill_group(worker)
            _kill_children()
            os._exit(_PARENT_GONE)
    _kill_group(worker)
    _kill_children()
    _end_as(status)


def _become(command: list[str]) -> NoReturn:
    try:
        for number in (signal.SIGCHLD, *_PASSED_ON):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        os.setsid()
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(_CANNOT_START)


def _status_of(worker: int) -> int | None:
    """Reap the children that have ended; return the worker's wait status if it is among them."""
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended in (0, worker):
            return status if ended else None


def _kill_group(leader: int) -> None:
    # macOS returns EPERM for a group of zombies.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _kill_children() -> None:
    """Kill all children until none is left; their own children become children of the keeper."""
    while killed := [child for child in _children() if _is_killed(child)]:
        for child in killed:
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _is_killed(child: int) -> bool:
    try:
        os.kill(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it may run as another user
        return False
    return True


def _children() -> list[int]:
    """Return the ids of all children, zombies included; none where there is no /proc."""
    own = os.getpid()
    found = []
    with suppress(OSError):
        for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes long to import
            if name.isdecimal():
                with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    # The program's name precedes it in parentheses, and may itself contain some.
                    parent = file.read().rpartition(b")")[2].split()[1]
                    if int(parent) == own:
                        found.append(int(name))
    return found


def _end_as(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        # The worker has written any core dump, so the keeper must not write another.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    keep(int(sys.argv[1]), sys.argv[2:])
