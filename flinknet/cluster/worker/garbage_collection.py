"""Python's collector in a worker, so that it does not stop the event loop for long.

Theory of operation. Objects that nobody refers to are freed at once, by their counts. The collector
looks for those that only refer to each other: at the *young*, and sometimes at the *old*, which
have survived that. The loop stands still meanwhile, for up to a microsecond for each object, or
entry of a dictionary. With a million keys that was more than a second:

- The old are looked at in vain, again and again: state is in no circles.
- The young become many, too. They are looked at when 700 more have been made than freed, but a job
  that replaces values frees as many as it makes.
- A step of a subtask makes thousands of records, which are all alive until it ends. Looks at each
  700 of them take a tenth of its time, and find nothing.

So Python itself looks at the young only when they are many (``YOUNG_MAX``). While a worker has
attempts, a timer looks at them as well. When these looks have taken some time, the survivors are
*frozen*: put where no collection looks, which takes no time. Counts free them all the same. A
circle that falls apart before it is frozen is found; any other is found when the worker has no
attempt any more. Where there is little state, looks are so short that nothing is frozen, and all
circles are found soon.

The old are not looked at on purpose, because that makes dictionaries young again: one whose values
are all plain is let go of, and taken up as a new one with the next tuple that is put into it.

CPython 3.14 looks at the old a bit at a time.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flinknet import machine

__all__ = ["GarbageCollection"]

YOUNG = 1
"""Those that have survived no look, or one."""

YOUNG_MAX = 20_000
"""Objects made more than freed, at which Python looks between two looks by the clock: code that
holds up the event loop may make circles, too."""

INTERVAL_S = 0.01
"""Between two looks at the young: a job makes some 5,000 objects in that time."""

SHORT_S = 0.0002
"""A look at what is always there: buffers, and records on their way."""

FROZEN_AFTER_S = 0.002
"""Of looking at more than that: some thousand objects have survived it."""


class GarbageCollection:
    """The collector of this process, of which there is one. ``clock`` is that of the processor time
    of its thread, in seconds."""

    def __init__(self, clock: Callable[[], float] = machine.thread_time) -> None:
        self._clock = clock
        self._began = 0.0
        self._spent_s = 0.0
        """On looks at what is not frozen."""
        self.freezes = 0
        """How often something was frozen since all was looked at."""

    @contextmanager
    def kept_short(self) -> Iterator[None]:
        """Freeze survivors when looks at them take long, and let Python itself look only when there
        are ``YOUNG_MAX`` young objects."""
        young, *older = gc.get_threshold()
        gc.set_threshold(YOUNG_MAX, *older)
        gc.callbacks.append(self._on_collection)
        try:
            yield
        finally:
            gc.callbacks.remove(self._on_collection)
            gc.set_threshold(young, *older)

    async def look_after(self, is_needed: Callable[[], bool]) -> None:
        """Look at the young by the clock, whenever ``is_needed``; to be cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            if is_needed():
                gc.collect(YOUNG)

    def collect_all(self) -> None:
        """Look at everything, also at what was frozen by this; it takes a moment."""
        if self.freezes:
            gc.unfreeze()
        gc.collect()
        if self.freezes:
            self.freezes = 0
            gc.freeze()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = self._clock()
            return
        self._spent_s += max(0.0, self._clock() - self._began - SHORT_S)
        if self._spent_s > FROZEN_AFTER_S:
            self._spent_s = 0.0
            self.freezes += 1
            gc.freeze()
