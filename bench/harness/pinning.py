"""The CPU of each process: the same for the same end of every system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Pinning", "choose_pinning", "pin"]


class Pinning(NamedTuple):
    """A CPU for each end; None where the platform cannot pin."""

    producer: int | None
    consumer: int | None


def choose_pinning() -> Pinning:
    """Return the first two CPUs that this process may use, or the only one for both ends."""
    if not hasattr(os, "sched_getaffinity"):
        return Pinning(None, None)
    usable = sorted(os.sched_getaffinity(0))
    return Pinning(usable[0], usable[min(1, len(usable) - 1)])


def pin(cpu: int | None) -> None:
    """Pin the calling process to one CPU, with its present and future threads."""
    if cpu is None:
        return
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {cpu})
