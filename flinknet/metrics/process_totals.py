"""CPU time and threads of this process, and its recent share of the machine."""

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
    """Share of the machine's CPU time in the last minute; 0 until the second reading."""
    computed_ns: int
    """CPU time since the start of the process."""
    threads: int


class ProcessMeter:
    """Measures this process.

    ``now`` is a monotonic clock in seconds. ``computed_ns`` returns the CPU time of the process.
    """

    def __init__(self, now: Callable[[], float], computed_ns: Callable[[], int]) -> None:
        self._now = now
        self._computed_ns = computed_ns
        self._meter = Meter(now(), (computed_ns(),))

    def totals(self) -> ProcessTotals:
        """Return the present figures."""
        computed_ns = self._computed_ns()
        self._meter.update(self._now(), (computed_ns,))
        [ns_per_second] = self._meter.per_second()
        load = ns_per_second / _NS / (os.cpu_count() or 1)
        return ProcessTotals(load, computed_ns, machine.active_threads())
