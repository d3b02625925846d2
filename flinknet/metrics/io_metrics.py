"""What a subtask has moved, and where its time went: the counters that every report has.

Theory of operation (Flink's IOMetrics). The counters are spelled here and nowhere else: a subtask
counts them, a worker reports them, the coordinator adds them up by vertex, and a client reads them,
each in a class that has these fields and its own beside them. All of them only grow while a subtask
lives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter

__all__ = ["IO_METRICS", "IOMetrics"]


@dataclass(frozen=True, slots=True)
class IOMetrics:
    """Counters of a subtask since it was opened, or of several together.

    An Arrow record batch is one record, and so is each part that a keyed exchange cuts it into.
    """

    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    idle_time_ms: int
    busy_time_ms: int
    backpressured_time_ms: int

    def row(self) -> tuple[int, ...]:
        """The counters alone, in the order of ``IO_METRICS``."""
        return _row(self)

    @staticmethod
    def total(several: Iterable[IOMetrics]) -> IOMetrics:
        """Add up counter by counter; zeros of nothing."""
        nothing = (0,) * len(IO_METRICS)
        rows = (one.row() for one in several)
        return IOMetrics(*map(sum, zip(nothing, *rows, strict=True)))


IO_METRICS = tuple(field.name for field in fields(IOMetrics))
"""Their names, in order."""

_row = attrgetter(*IO_METRICS)
