"""The memory, tasks, timers and sockets of a process. Linux only: it reads ``/proc/self``."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Footprint", "take_footprint"]

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Footprint(NamedTuple):
    """The resident bytes of this process, and its number of tasks, timers and sockets."""

    resident_bytes: int
    tasks: int
    timers: int
    sockets: int

    @property
    def machinery(self) -> tuple[int, int, int]:
        """Tasks, timers and sockets."""
        return self.tasks, self.timers, self.sockets


def take_footprint() -> Footprint:
    """Collect garbage, then count; call it on the event loop.

    Timers are counted as objects, because uvloop has no list of them; asyncio's are counted alike.
    """
    gc.collect()
    return Footprint(
        resident_bytes=int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES,
        tasks=len(asyncio.all_tasks()),
        timers=sum(type(thing).__name__ == "TimerHandle" for thing in gc.get_objects()),
        sockets=_sockets(),
    )


def _sockets() -> int:
    return sum(_target(link).startswith("socket:") for link in Path("/proc/self/fd").iterdir())


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""  # the descriptor that lists the directory
