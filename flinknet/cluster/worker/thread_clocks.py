"""How much of the time in which a thread could compute it has computed.

The clock on the wall does not say it. A thread that computes all the time gets a quarter of it
where four want one processor, or the interpreter, and does not wait for anything of its own. So
its CPU time is compared with the time that was left to it: the time that has passed,

- less what it spent in the queue of a processor (``schedstat``, where the kernel has it);
- less what the other threads of the interpreter computed, and spent in queues meanwhile, as they
  have the interpreter then. Their queues are taken to be as long as its own;
- and only the part of it in which the thread had anything to do.

But it cannot say that nothing was left to it where another thread got more than it: the interpreter
goes round among those that want it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from flinknet import machine

__all__ = ["ThreadClocks", "cpu_time"]

BUSY = 0.5
"""A thread that computes for such a part of the time that is left to it is on the CPU."""

_THREAD_CLOCK = 0b110
"""CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED of Linux: of one thread, exact to the nanosecond."""

_TASKS = Path("/proc/self/task")


class ThreadClocks(NamedTuple):
    """The clocks of this interpreter's threads at one moment, in seconds. Threads go by their
    identifiers."""

    at: float
    computed: Mapping[int, float]
    """CPU time, of all threads."""
    queued: Mapping[int, float]
    """Time in the queues of processors, of those that it was asked of."""

    @classmethod
    def read(cls, asked: Iterable[int]) -> ThreadClocks:
        """Read them now; ``asked`` are the threads that are to be judged."""
        native_ids = {one.ident or 0: one.native_id or 0 for one in machine.all_threads()}
        judged = {thread: native_ids.get(thread, 0) for thread in asked}
        return cls(
            machine.monotonic(),
            {thread: cpu_time(native_id) for thread, native_id in (native_ids | judged).items()},
            {thread: _queued_s(native_id) for thread, native_id in judged.items()},
        )

    def has_computed(self, thread: int, before: ThreadClocks, occupied: float = 1.0) -> bool:
        """Whether a thread that was asked of has been on the CPU since ``before``, if it had work
        for such a part of the time."""
        grown = {
            other: computed - before.computed.get(other, computed)
            for other, computed in self.computed.items()
        }
        used_s = grown.pop(thread)
        if used_s <= 0:
            return False
        queued_s = self.queued[thread] - before.queued[thread]
        unqueued_s = self.at - before.at - queued_s
        others_s = sum(grown.values()) * (1 + queued_s / used_s)
        left_s = max(unqueued_s - others_s, min(unqueued_s, max(grown.values(), default=0.0)))
        return used_s >= BUSY * occupied * left_s


def cpu_time(native_id: int) -> float:
    """Return seconds for which a thread has computed, by the kernel's number of it; 0 where that is
    unknown, or if the thread has ended."""
    if native_id and sys.platform == "linux":
        # The number of a thread's clock, as pthread_getcpuclockid makes it. That function reads the
        # memory of the thread, which is gone when the thread has ended; the kernel says so.
        with suppress(OSError):
            return machine.clock_gettime(~native_id << 3 | _THREAD_CLOCK)
    return 0.0


def _queued_s(native_id: int) -> float:
    """For how long a thread was ready to run and had no processor; 0 where that is not known."""
    with suppress(OSError, ValueError, IndexError):
        return int((_TASKS / f"{native_id}" / "schedstat").read_text().split()[1]) / 1e9
    return 0.0
