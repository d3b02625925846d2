"""CPU time and threads of this process, and how much of its machine it has used of late."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from flinknet import machine
from flinknet.metrics.meter import Meter

__all__ = ["ProcessMeter", "ProcessTotals"]

_NS = 1_000_000_000


class ProcessTotals(NamedTuple):
    """A process at one moment."""

    load: float
    """Part of the machine's CPU time in the last minute; 0 until it was read for the second
    time."""
    computed_ns: int
    """CPU time since its start."""
    threads: int


class ProcessMeter:
    """Reads this process. ``now`` is a clock that never goes back, in seconds; ``computed_ns`` says
    how much CPU time the process has had."""

    def __init__(self, now: Callable[[], float], computed_ns: Callable[[], int]) -> None:
        self._now = now
        self._computed_ns = computed_ns
        self._meter = Meter(now(), (computed_ns(),))

    def totals(self) -> ProcessTotals:
        """Read it now."""
        computed_ns = self._computed_ns()
        self._meter.update(self._now(), (computed_ns,))
        [ns_per_second] = self._meter.per_second()
        load = ns_per_second / _NS / (os.cpu_count() or 1)
        return ProcessTotals(load, computed_ns, machine.active_threads())
