"""What Flink exports of a process's CPU and threads, of this one.

Flink's names have JVM in them; what they mean is the same of any process, so dashboards that were
made for Flink have it. There is no heap to tell of: how much memory the process has is
``process_resident_memory_bytes``. The collector of a worker is in ``garbage_families.py``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

from flinknet.metrics.families import Family, Kind, Labels
from flinknet.metrics.meter import Meter

__all__ = ["ProcessFamilies"]

_NS = 1_000_000_000


class ProcessFamilies:
    """Reads this process; its ``scope`` is ``taskmanager`` or ``jobmanager``. ``now`` is a clock
    that never goes back, in seconds; ``computed_ns`` says how much CPU time the process has had."""

    def __init__(
        self, scope: str, now: Callable[[], float], computed_ns: Callable[[], int]
    ) -> None:
        self._scope = scope
        self._now = now
        self._computed_ns = computed_ns
        self._meter = Meter(now(), (computed_ns(),))

    def families(self, labels: Labels) -> Iterator[Family]:
        """Everything, now. The load is that of the last minute, 0 until it was read for the second
        time."""
        computed_ns = self._computed_ns()
        self._meter.update(self._now(), (computed_ns,))
        [ns_per_second] = self._meter.per_second()
        load = ns_per_second / _NS / (os.cpu_count() or 1)
        yield self._family("CPU_Load", "Part of the machine's CPU time it has used", labels, load)
        yield self._family("CPU_Time", "Nanoseconds of CPU time it has used", labels, computed_ns)
        threads = threading.active_count()
        yield self._family("Threads_Count", "Its threads that are alive", labels, threads)

    def _family(self, name: str, what: str, labels: Labels, value: float) -> Family:
        described = f"{what}; there is no JVM (scope: {self._scope}_Status_JVM)"
        return Family(
            f"flink_{self._scope}_Status_JVM_{name}", described, Kind.GAUGE, [(labels, value)]
        )
