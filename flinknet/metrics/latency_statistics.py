"""Latency of markers from a source to an operator (Flink's LatencyStats).

A source emits a marker at intervals, and the marker travels like a record, through every queue on
its way. Its latency at an operator is therefore the latency of a record, except for the time in the
preceding operators, because a marker passes between two of their batches. Each operator of each
subtask has a histogram of the latest markers: for each source, for each subtask of a source, or one
for all.

Latencies are differences between times of two workers, in whole milliseconds. Both times are those
of the coordinator's clock (``environment/cluster_clock.py``). Between machines, latencies are wrong
by the errors of the measured clock offsets, and may be negative. Quantiles are observed values
(nearest rank): of a hundred values, the 99th percentile is the last but one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import ceil
from statistics import fmean, pstdev
from typing import NamedTuple

from flinknet.config import LatencyGranularity, MetricsConfig
from flinknet.wire.events import LatencyMarker

__all__ = ["QUANTILES", "LatencyHistogram", "LatencyStatistics"]

QUANTILES = {
    "median": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p98": 0.98,
    "p99": 0.99,
    "p999": 0.999,
}
"""Reported quantiles of a histogram, by Flink's names."""


class LatencyHistogram(NamedTuple):
    """The latency from a source to an operator in one subtask, in milliseconds."""

    source_uid: str
    """Empty if all sources share one histogram."""
    source_subtask_index: int
    """-1 if the subtasks of a source share one histogram."""
    operator_uid: str
    operator_subtask_index: int
    markers: int
    """Number of markers received; the following figures cover the latest of them."""
    last: int
    min: int
    max: int
    mean: float
    stddev: float
    quantiles: tuple[int, ...]
    """One value for each of ``QUANTILES``."""

    def numbers(self) -> dict[str, float]:
        """Return the figures of a histogram, by Flink's names."""
        return {
            "min": self.min,
            "max": self.max,
            "mean": self.mean,
            "stddev": self.stddev,
            **dict(zip(QUANTILES, self.quantiles, strict=True)),
        }


class _Marked:
    """The latest markers of one origin."""

    __slots__ = ("count", "values")

    def __init__(self, history_size: int) -> None:
        self.count = 0
        self.values: deque[int] = deque(maxlen=history_size)


class LatencyStatistics:
    """The histograms of one operator in one subtask."""

    def __init__(
        self,
        operator_uid: str = "",
        subtask_index: int = 0,
        config: MetricsConfig | None = None,
    ) -> None:
        self._whose = operator_uid, subtask_index
        self._config = config or MetricsConfig()
        self._marked: dict[tuple[str, int], _Marked] = {}

    def take(self, marker: LatencyMarker, now_ms: int) -> None:
        """Record a marker that reached the operator."""
        origin = _origin(marker, self._config.latency_granularity)
        marked = self._marked.get(origin)
        if marked is None:
            # Further sources have no histogram.
            if len(self._marked) >= self._config.latency_histograms_max:
                return
            marked = _Marked(self._config.latency_history_size)
        marked.count += 1
        marked.values.append(now_ms - marker.marked_time_ms)
        # Last, because another thread may read the histograms, and none of them may be empty.
        self._marked[origin] = marked

    def histograms(self) -> tuple[LatencyHistogram, ...]:
        """Return the present histograms, in the order of their first markers."""
        # The event loop calls this while the subtask's thread records markers. Each copy is atomic,
        # because it is one call in C.
        return tuple(
            self._histogram(origin, marked.count, marked.values.copy())
            for origin, marked in self._marked.copy().items()
        )

    def _histogram(
        self, origin: tuple[str, int], markers: int, values: Sequence[int]
    ) -> LatencyHistogram:
        return LatencyHistogram(
            *origin,
            *self._whose,
            markers=markers,
            last=values[-1],
            min=min(values),
            max=max(values),
            mean=fmean(values),
            stddev=pstdev(values),
            quantiles=_quantiles(sorted(values)),
        )


def _origin(marker: LatencyMarker, granularity: LatencyGranularity) -> tuple[str, int]:
    return (
        "" if granularity == "single" else marker.operator_uid,
        marker.subtask_index if granularity == "subtask" else -1,
    )


def _quantiles(ordered: Sequence[int]) -> tuple[int, ...]:
    return tuple(ordered[ceil(share * len(ordered)) - 1] for share in QUANTILES.values())
