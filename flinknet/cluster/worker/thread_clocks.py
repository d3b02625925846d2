"""The share of the available time for which a thread has computed.

Wall time does not tell. If four threads compete for one processor or for the interpreter, each of
them computes for a quarter of the time, although it waits for nothing of its own. The CPU time of a
thread is therefore compared with the time that was left to it, which is the elapsed time,

- less the time the thread spent in a processor's run queue (``schedstat``, if the kernel has it);
- less the time the other threads of the interpreter computed or queued while they held the
  interpreter. Their queueing is assumed to be in proportion to this thread's own;
- times the share of the period in which the thread had work.

The time left is at least the CPU time of the busiest other thread, because the interpreter goes
round among the threads that want it.
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
"""Share of the time left to a thread above which the thread counts as on the CPU."""

_THREAD_CLOCK = 0b110
"""CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED of Linux: a thread's clock, exact to 1 ns."""

_TASKS = Path("/proc/self/task")


class ThreadClocks(NamedTuple):
    """The clocks of this interpreter's threads at one moment, in seconds, by thread identifier."""

    at: float
    computed: Mapping[int, float]
    """CPU time of all threads."""
    queued: Mapping[int, float]
    """Time in the run queues of processors, for the judged threads."""

    @classmethod
    def read(cls, asked: Iterable[int]) -> ThreadClocks:
        """Read the clocks now; ``asked`` are the threads to judge."""
        native_ids = {one.ident or 0: one.native_id or 0 for one in machine.all_threads()}
        judged = {thread: native_ids.get(thread, 0) for thread in asked}
        return cls(
            machine.monotonic(),
            {thread: cpu_time(native_id) for thread, native_id in (native_ids | judged).items()},
            {thread: _queued_s(native_id) for thread, native_id in judged.items()},
        )

    def has_computed(self, thread: int, before: ThreadClocks, occupied: float = 1.0) -> bool:
        """Return whether a judged thread has been on the CPU since ``before``.

        ``occupied`` is the share of the period in which the thread had work.
        """
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
    """Return the CPU time of a thread in seconds, by its native identifier.

    Returns 0 where that is unknown, or if the thread has ended.
    """
    if native_id and sys.platform == "linux":
        # The clock's number as pthread_getcpuclockid makes it. That function reads the thread's
        # memory, which is gone after the thread has ended. The kernel reports an error instead.
        with suppress(OSError):
            return machine.clock_gettime(~native_id << 3 | _THREAD_CLOCK)
    return 0.0


def _queued_s(native_id: int) -> float:
    """Return the seconds a thread was ready but had no processor; 0 where that is unknown."""
    with suppress(OSError, ValueError, IndexError):
        return int((_TASKS / f"{native_id}" / "schedstat").read_text().split()[1]) / 1e9
    return 0.0
