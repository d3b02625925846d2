"""Limits and defaults of optional measurements of jobs, and of reading metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flinknet.config.checks import check_fields, require_at_least, require_positive

__all__ = ["LatencyGranularity", "MetricsConfig"]

LatencyGranularity = Literal["single", "operator", "subtask"]


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """Latency markers, and the reading of a worker's metrics.

    The settings are the frequency of markers, the statistics kept of them, and the duration of a
    turn of reading.
    """

    latency_interval_ms: int = 0
    """Interval between two latency markers of a source, for jobs that set none; 0 for no markers.

    Each marker ends a buffer before it is full. Flink: metrics.latency.interval (0).
    """

    latency_granularity: LatencyGranularity = "operator"
    """Grouping of markers into histograms: all together, by source, or by subtask of a source.

    These are "single", "operator" and "subtask". Flink: metrics.latency.granularity (operator).
    """

    latency_history_size: int = 128
    """Number of latest markers in a histogram. Flink: metrics.latency.history-size (128)."""

    latency_histograms_max: int = 64
    """Maximum number of histograms of one operator in one subtask.

    The first sources have histograms, further ones have none. With "subtask", each subtask would
    have as many as there are upstream subtasks.
    """

    turn_channels: int = 256
    """Maximum number of entries read in one turn of a worker's event loop, for its metrics.

    Entries are channels, subpartitions, and readers of a connection. This is half a millisecond's
    work, for which records wait. With more turns, a reading takes longer in total.
    """

    turn_ms: float = 1.0
    """Maximum duration of a turn, also when metrics are converted to text."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_at_least(self, 0, "latency_interval_ms")
        require_at_least(self, 1, "latency_history_size", "latency_histograms_max", "turn_channels")
        require_positive(self, "turn_ms")
