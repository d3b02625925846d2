"""The thread of life between a launched process and its launcher: no child outlives its launcher.

Theory of operation
-------------------
The launcher holds the write end of the child's standard input for as long as it lives. A daemon
thread in the child reads that pipe: lines are news from the launcher, the end of file is the
launcher's death, and the child then ends at once with ``ExitStatus.PARENT_GONE``. It is a thread,
so a blocked event loop does not matter. Two holes are left, and on Linux ``PR_SET_PDEATHSIG`` (the
kernel kills the child when the thread that launched it ends) closes both: code that never lets go
of the interpreter lock, and a fork of the launcher that keeps a copy of the pipe open.

A child that the kernel kills cannot take along what user code has started in its process group. So
the coordinator, which runs no user code, does without that signal: it looks itself, each second,
whether its parent has changed, and with ``on_end`` kills the groups of the workers before it ends.

The pipe is moved away from descriptor 0, where user code that reads standard input would steal from
it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Callable

from flinknet import machine
from flinknet.cluster.control.exit_status import ExitStatus
from flinknet.cluster.control.process_group import kill_own_group

__all__ = ["watch_parent"]

_exit = os._exit
"""Not what a worker has in its place (``user_exits.py``)."""
_PR_SET_PDEATHSIG = 1
_READ_BYTES = 65_536
_LOOK_SECONDS = 1.0


def watch_parent(
    on_line: Callable[[bytes], None] | None = None, on_end: Callable[[], None] | None = None
) -> None:
    """End this process, and its group if it leads one, when its launcher ends.

    Call it once, first thing in the process. ``on_line`` gets each line that the launcher writes;
    ``on_end``, only for a process that runs no user code, is called when the launcher has ended.
    Both are called in one thread of their own.
    """
    if sys.platform == "linux" and on_end is None:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    reader = machine.Thread(
        target=_read_until_end, args=(pipe, on_line, on_end), name="parent", daemon=True
    )
    reader.start()


def _read_until_end(
    pipe: int, on_line: Callable[[bytes], None] | None, on_end: Callable[[], None] | None
) -> None:
    rest = b""
    parent = os.getppid()
    while data := _read(pipe, parent):
        *lines, rest = (rest + data).split(b"\n")
        if on_line is not None:
            for line in lines:
                on_line(line)
    if on_end is not None:
        on_end()
    kill_own_group()
    # Not sys.exit: that would end this thread only. Nothing is worth saving without a launcher.
    _exit(ExitStatus.PARENT_GONE)


def _read(pipe: int, parent: int) -> bytes:
    """What the launcher writes; nothing once it has ended, whoever else holds the pipe open."""
    while not select.select([pipe], [], [], _LOOK_SECONDS)[0]:
        if os.getppid() != parent:
            return b""
    return os.read(pipe, _READ_BYTES)
