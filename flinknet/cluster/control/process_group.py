"""The process group of a launched process, with the processes that user code starts in it.

User code starts processes of its own: servers, tools, pools. They belong to the worker's group, and
are killed with the worker, however it ends. Otherwise they would keep their ports and memory after
the job. A process that creates a session of its own has left the group; ``local/keeper.py`` finds
it.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

__all__ = ["kill_group", "kill_own_group"]


def kill_group(leader: int) -> None:
    """Kill all remaining processes of a group; the leader itself may have ended just now.

    While a process of the group exists, the kernel does not reuse the leader's number. So call this
    as soon as the leader has ended, and only once.
    """
    # macOS raises EPERM for a group of zombies.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_own_group() -> None:
    """Kill this process and its group; do nothing unless it leads one."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
