"""Counters of a subtask's data and time, which every report contains (Flink's IOMetrics).

Only this module defines the list of counters. A subtask counts them, a worker reports them, the
coordinator sums them by vertex, and a client reads them, each in a class that contains these
fields. All counters only increase while a subtask lives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter

__all__ = ["IO_METRICS", "IOMetrics"]


@dataclass(frozen=True, slots=True)
class IOMetrics:
    """Counters of a subtask since it was opened, or sums over several.

    An Arrow record batch is one record, and so is each part into which a keyed exchange splits it.
    """

    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    idle_time_ms: int
    busy_time_ms: int
    backpressured_time_ms: int

    def row(self) -> tuple[int, ...]:
        """Return only these counters, in the order of ``IO_METRICS``."""
        return _row(self)

    @staticmethod
    def total(several: Iterable[IOMetrics]) -> IOMetrics:
        """Return the sum of each counter; zeros for no metrics."""
        nothing = (0,) * len(IO_METRICS)
        rows = (one.row() for one in several)
        return IOMetrics(*map(sum, zip(nothing, *rows, strict=True)))


IO_METRICS = tuple(field.name for field in fields(IOMetrics))
"""The names of the counters, in order."""

_row = attrgetter(*IO_METRICS)
