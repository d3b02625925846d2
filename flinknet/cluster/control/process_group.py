"""The process group that a launched process leads: itself, and what user code starts in it.

User code starts processes of its own: servers, tools, pools. They belong to the worker's group, and
end with the worker, however that ends; else they would keep their ports and their memory after the
job. One that makes a session of its own has left the group: ``local/keeper.py`` finds it.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

__all__ = ["kill_group", "kill_own_group"]


def kill_group(leader: int) -> None:
    """Kill every process that is left of a group; the leader itself may have ended just now.

    While there is one, the kernel gives the leader's number to no other process. So call this as
    soon as the leader has ended, and not again.
    """
    # macOS has EPERM for a group of zombies.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_own_group() -> None:
    """Kill this process and its group; nothing happens unless it leads one."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
