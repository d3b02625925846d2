"""Ends a launched process when its launcher ends.

Theory of operation
-------------------
The launcher holds the write end of the child's standard input for as long as it lives. A daemon
thread in the child reads that pipe. Lines are events from the launcher. At the end of file the
launcher is dead, and the child ends at once with ``ExitStatus.PARENT_GONE``. A thread works even if
the event loop is blocked. Two cases remain: code that never releases the interpreter lock, and a
fork of the launcher that keeps a copy of the pipe open. On Linux ``PR_SET_PDEATHSIG`` covers both:
the kernel kills the child when the thread that launched it ends.

A child that the kernel kills cannot kill the processes that user code has started in its process
group. So the coordinator, which runs no user code, does without that signal. It checks each second
whether its parent has changed, and ``on_end`` kills the groups of the workers before it ends.
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
"""The real ``os._exit``, which workers replace (``user_exits.py``)."""
_PR_SET_PDEATHSIG = 1
_READ_BYTES = 65_536
_LOOK_SECONDS = 1.0


def watch_parent(
    on_line: Callable[[bytes], None] | None = None, on_end: Callable[[], None] | None = None
) -> None:
    """End this process, and its group if it leads one, when its launcher ends.

    Call it once, first in the process. ``on_line`` gets each line that the launcher writes.
    ``on_end`` is called when the launcher has ended, and must be used only in a process without
    user code. Both are called in a separate thread.
    """
    if sys.platform == "linux" and on_end is None:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The pipe is moved away from descriptor 0, where user code that reads standard input would take
    # its data.
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
    # sys.exit would end only this thread. Without a launcher, nothing in this process is worth
    # saving.
    _exit(ExitStatus.PARENT_GONE)


def _read(pipe: int, parent: int) -> bytes:
    """Return data of the launcher, or nothing once it has ended.

    A change of the parent counts as the end, even if another process holds the pipe open.
    """
    while not select.select([pipe], [], [], _LOOK_SECONDS)[0]:
        if os.getppid() != parent:
            return b""
    return os.read(pipe, _READ_BYTES)
