"""Python's garbage collector in a worker, tuned to not stop the event loop for long.

Theory of operation. Reference counts free most objects at once. The collector only finds reference
cycles: it scans the *young* objects, and sometimes the *old* ones, which survived such scans. The
event loop stands still meanwhile, for up to a microsecond per object or dictionary entry. With a
million keys, that was more than a second. Python's defaults fit a worker badly:

- Scans of the old objects find nothing, again and again: state contains no cycles.
- A young scan follows when 700 more objects were made than freed. A job that replaces values frees
  as many as it makes, so its young objects become many.
- One step of a subtask makes thousands of records, all alive until it ends. A scan per 700 of them
  takes a tenth of the step's time and finds nothing.

Here, Python scans the young objects only when they are many (``YOUNG_MAX``), and a timer scans them
while the worker has attempts. After some time spent on such scans, the survivors are *frozen*:
moved, at no cost, to where no scan looks. Reference counts still free frozen objects. A cycle that
becomes garbage before it is frozen is found soon, any other when the worker has no attempt left.
With little state, scans are so short that nothing is frozen.

Full scans are avoided on purpose, because they make dictionaries young again: a scan untracks a
dictionary that holds only atomic values, and the next tuple put into it makes it a new young
object. CPython 3.14 scans the old objects incrementally.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flinknet import machine

__all__ = ["GarbageCollection"]

YOUNG = 1
"""The generation of objects that have survived at most one scan."""

YOUNG_MAX = 20_000
"""Surplus of made over freed objects at which Python scans between two scans of the timer.

Code that holds up the event loop may make cycles, too.
"""

INTERVAL_S = 0.01
"""Seconds between two scans of the timer, in which a job makes some 5,000 objects."""

SHORT_S = 0.0002
"""Seconds of scanning the objects that are always there: buffers and records in transit."""

FROZEN_AFTER_S = 0.002
"""Seconds of scanning beyond ``SHORT_S`` until a freeze: some thousand objects have survived."""


class GarbageCollection:
    """Control of this process's garbage collector; make one per process.

    ``clock`` returns the CPU time of the calling thread in seconds.
    """

    def __init__(self, clock: Callable[[], float] = machine.thread_time) -> None:
        self._clock = clock
        self._began = 0.0
        self._spent_s = 0.0
        """Time spent on scanning objects that are not frozen, beyond ``SHORT_S`` per scan."""
        self.freezes = 0
        """Number of freezes since the last full scan."""

    @contextmanager
    def kept_short(self) -> Iterator[None]:
        """Freeze survivors when scans take long, and raise Python's own limit to ``YOUNG_MAX``."""
        young, *older = gc.get_threshold()
        gc.set_threshold(YOUNG_MAX, *older)
        gc.callbacks.append(self._on_collection)
        try:
            yield
        finally:
            gc.callbacks.remove(self._on_collection)
            gc.set_threshold(young, *older)

    async def look_after(self, is_needed: Callable[[], bool]) -> None:
        """Scan the young objects at an interval while ``is_needed`` is true, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            if is_needed():
                gc.collect(YOUNG)

    def collect_all(self) -> None:
        """Scan everything, including objects that this class has frozen; this takes a moment."""
        if self.freezes:
            gc.unfreeze()
        gc.collect()
        if self.freezes:
            self.freezes = 0
            # Later scans skip the survivors again.
            gc.freeze()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = self._clock()
            return
        # A scan of the objects that are always there does not count.
        self._spent_s += max(0.0, self._clock() - self._began - SHORT_S)
        if self._spent_s > FROZEN_AFTER_S:
            self._spent_s = 0.0
            self.freezes += 1
            gc.freeze()
