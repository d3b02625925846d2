"""A worker's report of a subtask."""

from __future__ import annotations

from flinknet.metrics.io_metrics import IOMetrics
from flinknet.metrics.worker_statistics import SubtaskTotals
from tests.unit.metrics.samples import subtask, times

__all__ = ["reported"]


def reported(
    index: int,
    *,
    vertex: int = 1,
    attempt: int = 0,
    records_in: int = 0,
    backpressured_ms_per_s: float = 0.0,
) -> SubtaskTotals:
    """Return a report of a subtask that has read some records, and waits for output part of the
    time."""
    waits = times()._replace(
        idle_time_ms_per_second=50.0,
        soft_backpressured_time_ms_per_second=backpressured_ms_per_s,
        hard_backpressured_time_ms_per_second=0.0,
    )
    counters = IOMetrics(records_in, 0, 0, 0, 0, 0, 0)
    return subtask(index, vertex=vertex, attempt=attempt, io_metrics=counters, times=waits)
