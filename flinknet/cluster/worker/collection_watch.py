"""A counter of this process's garbage collections, by the subtask that triggers them.

Python calls back at the begin and at the end of each collection, in the thread that has begun it.
No other thread can begin one meanwhile. The context of the callback tells the subtask
(``runtime/running_subtask.py``), in tasks of the event loop and in threads alike.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flinknet import machine
from flinknet.metrics.garbage_totals import GarbageTimes
from flinknet.runtime.running_subtask import RUNNING_SUBTASK

__all__ = ["CollectionWatch"]


class CollectionWatch:
    """Counts collections while ``counting``.

    ``clock`` is in seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float] = machine.perf_counter) -> None:
        self.times = GarbageTimes()
        self._clock = clock
        self._begun: float | None = None

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Register for the callbacks of the collector within this block."""
        gc.callbacks.append(self._on_collection)
        try:
            yield
        finally:
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begun = self._clock()
        elif self._begun is not None:  # None: the collection began before the registration
            seconds, self._begun = self._clock() - self._begun, None
            subtask = RUNNING_SUBTASK.get(None)
            name = "" if subtask is None else subtask.name
            self.times.note(info["generation"], seconds, info["collected"], name)
