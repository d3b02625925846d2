"""The local processes of a cluster, found by its token for every launcher."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from flinknet.cluster.control.credentials import TOKEN_VARIABLE

__all__ = ["kill_process", "processes_of"]


def processes_of(token: str) -> dict[int, str]:
    """Return the command line of each process that has the token, by process id."""
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{TOKEN_VARIABLE}={token}" in (directory / "environ").read_text(errors="replace"):
                found[int(directory.name)] = (directory / "cmdline").read_text(errors="replace")
    return found


def kill_process(token: str, part: str, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to the youngest process with ``part`` in its command line.

    The youngest, because a launcher may start a parent process that looks after it.
    """
    os.kill(max(pid for pid, line in processes_of(token).items() if part in line), number)
