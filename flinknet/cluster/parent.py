"""The thread of life between a launched process and its launcher: no child outlives its launcher.

Theory of operation
-------------------
The launcher holds the write end of the child's standard input for as long as it lives. A daemon
thread in the child reads that pipe: lines are news from the launcher, the end of file is the
launcher's death, and the child then ends at once with status ``EXIT_PARENT_GONE``. It is a thread,
so a blocked event loop does not matter. Two holes are left, and on Linux ``PR_SET_PDEATHSIG`` (the
kernel kills the child when the thread that launched it ends) closes both: code that never lets go
of the interpreter lock, and a fork of the launcher that keeps a copy of the pipe open.

The pipe is moved away from descriptor 0, where user code that reads standard input would steal from
it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable

__all__ = ["EXIT_PARENT_GONE", "watch_parent"]

EXIT_PARENT_GONE = 4
"""Exit status of a process whose launcher is gone."""

_PR_SET_PDEATHSIG = 1
_READ_BYTES = 65_536


def watch_parent(on_line: Callable[[bytes], None] | None = None) -> None:
    """End this process when its launcher ends; call once, first thing in the process.

    ``on_line`` gets each line that the launcher writes, in a thread of its own.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    reader = threading.Thread(
        target=_read_until_end, args=(pipe, on_line), name="parent", daemon=True
    )
    reader.start()


def _read_until_end(pipe: int, on_line: Callable[[bytes], None] | None) -> None:
    rest = b""
    while data := os.read(pipe, _READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if on_line is not None:
            for line in lines:
                on_line(line)
    # Not sys.exit: that would end this thread only. Nothing is worth saving without a launcher.
    os._exit(EXIT_PARENT_GONE)
