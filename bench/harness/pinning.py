"""Which CPU a process runs on: the same for the same end of every system."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Pinning", "choose_pinning", "pin"]


class Pinning(NamedTuple):
    """A CPU for each end; None where the platform cannot pin."""

    producer: int | None
    consumer: int | None


def choose_pinning() -> Pinning:
    """Take the first two CPUs that this process may use, or the only one for both ends."""
    if not hasattr(os, "sched_getaffinity"):
        return Pinning(None, None)
    usable = sorted(os.sched_getaffinity(0))
    return Pinning(usable[0], usable[min(1, len(usable) - 1)])


def pin(cpu: int | None) -> None:
    """Keep the calling process, with all threads that it has or will start, on one CPU."""
    if cpu is None:
        return
    if hasattr(os, "sched_setaffinity"):
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cpu})
    else:
        _set_affinity(cpu)


def _set_affinity(cpu: int) -> None:
    """The same by the system's call, which PyPy does not offer."""
    cpus = bytearray(cpu // 8 + 1)
    cpus[cpu // 8] = 1 << cpu % 8
    # Whole words, as the kernel wants them.
    mask = bytes(cpus).ljust((len(cpus) + 7) // 8 * 8, b"\0")
    if ctypes.CDLL(None, use_errno=True).sched_setaffinity(0, len(mask), mask):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
